"""Envoy messages from plain dictionaries in the shape of Envoy's own documentation.

Only for resources that are built once: for the hot ones (endpoints, routes) the protobuf classes are used directly.
"""

import importlib
from typing import Any as AnyMessage
from typing import TypeVar

from google.protobuf.json_format import ParseDict

M = TypeVar("M")

# ParseDict finds the types named by "@type" in the default pool, where an import puts them.
for _module in (
    "access_loggers.filters.cel.v3.cel_pb2",
    "access_loggers.grpc.v3.als_pb2",
    "common.matching.v3.extension_matcher_pb2",
    "filters.common.matcher.action.v3.skip_action_pb2",
    "filters.http.api_key_auth.v3.api_key_auth_pb2",
    "filters.http.ext_proc.v3.ext_proc_pb2",
    "filters.http.header_mutation.v3.header_mutation_pb2",
    "filters.http.lua.v3.lua_pb2",
    "filters.http.router.v3.router_pb2",
    "filters.http.upstream_codec.v3.upstream_codec_pb2",
    "filters.network.http_connection_manager.v3.http_connection_manager_pb2",
    "http.early_header_mutation.header_mutation.v3.header_mutation_pb2",
    "retry.host.previous_hosts.v3.previous_hosts_pb2",
    "transport_sockets.tls.v3.secret_pb2",
    "transport_sockets.tls.v3.tls_pb2",
    "upstreams.http.v3.http_protocol_options_pb2",
):
    importlib.import_module(f"envoy.extensions.{_module}")
importlib.import_module("envoy.type.matcher.v3.http_inputs_pb2")


def parse(fields: dict[str, AnyMessage], message: M) -> M:
    """`message` filled from `fields`. Raises ParseError for a field that the message does not have."""
    ParseDict(fields, message)
    return message


def typed(name: str, **fields: AnyMessage) -> dict[str, AnyMessage]:
    """The dictionary form of an Any of type `envoy.…`."""
    return {"@type": f"type.googleapis.com/envoy.{name}", **fields}


def extension(name: str, type_name: str, **fields: AnyMessage) -> dict[str, AnyMessage]:
    """A named extension with its typed config."""
    return {"name": name, "typed_config": typed(type_name, **fields)}


def grpc_service(cluster: str) -> dict[str, AnyMessage]:
    """Envoy's own gRPC client towards one of its clusters."""
    return {"envoy_grpc": {"cluster_name": cluster}}


def socket_address(host: str, port: int) -> dict[str, AnyMessage]:
    """Envoy's Address of a TCP port; `host` is an IP address, which Envoy does not resolve."""
    return {"socket_address": {"address": host, "port_value": port}}
