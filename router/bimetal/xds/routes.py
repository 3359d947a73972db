"""The routes of the gateway: one hash look-up from the route header to a model's cluster."""

from functools import lru_cache
from typing import Any

from envoy.config.route.v3.route_components_pb2 import RetryPolicy, Route, VirtualHost
from envoy.config.route.v3.route_pb2 import RouteConfiguration
from envoy.type.matcher.v3.http_inputs_pb2 import HttpRequestHeaderMatchInput

from bimetal.fleet.schema import Fleet
from bimetal.fleet.size_class import SizeClass
from bimetal.policy.table import ModelRoute, RoutingTable
from bimetal.xds.listeners import EXT_PROC, LUA, filter_override
from bimetal.xds.message import parse, typed
from bimetal.xds.names import (
    INFER_PATH,
    ROUTE_HEADER,
    ROUTER_GRPC,
    ROUTER_HTTP,
    SEQUENCE_HEADER,
    STREAM_PATH,
    cluster_name,
)
from bimetal.xds.snapshot import pack
from bimetal.xds.tls import KEY_HEADERS
from xds.type.matcher.v3.matcher_pb2 import Matcher

# A retry never follows a response byte. Nothing has been computed in the first group; in the second a
# backend may have computed, so only a model without sequences may be asked twice. "Draining" is NOT_FOUND
# from a Triton that is known to have the model. 500 is not retried over HTTP: Triton says it for bad JSON.
_UNTOUCHED = "connect-failure,refused-stream,reset-before-request"
_STATELESS = {
    "grpc": f"{_UNTOUCHED},reset,unavailable,internal,retriable-headers",
    "http": f"{_UNTOUCHED},reset,retriable-status-codes",
}
_DRAINING_GRPC = [{"name": "grpc-status", "string_match": {"exact": "5"}}]
_DRAINING_HTTP = [404, 503]
_RETRIES = 3
_NOT_FOUND = {
    "name": "no path of a Triton",
    "match": {"prefix": "/"},
    "direct_response": {"status": 404, "body": {"inline_string": "Not Found"}},
}
_KINDS = ("unary", "stream", "large")


def routes(table: RoutingTable, fleet: Fleet) -> list[RouteConfiguration]:
    """The route configurations of the HTTP and the gRPC listener."""
    return [
        _configuration("http", table, fleet, _http_by_path()),
        _configuration("grpc", table, fleet, _grpc_by_path()),
    ]


def _configuration(protocol: str, table: RoutingTable, fleet: Fleet, otherwise: Matcher.OnMatch) -> RouteConfiguration:
    host = VirtualHost(name=protocol, domains=["*"], request_headers_to_remove=[ROUTE_HEADER])
    host.request_body_buffer_limit.value = fleet.gateway.max_request_bytes
    tree = host.matcher.matcher_tree
    tree.input.name = "route"
    tree.input.typed_config.CopyFrom(_request_header(ROUTE_HEADER))
    for route in table.routes.values():
        if any(route.shares.values()):
            for kind in _KINDS if route.large_from else _KINDS[:-1]:
                to_model = _model_route(protocol, kind, route, fleet)
                tree.exact_match_map.map[f"{kind}/{route.model}"].CopyFrom(_action(to_model))
    if not tree.exact_match_map.map:
        host.matcher.ClearField("matcher_tree")  # Envoy refuses an empty map
    host.matcher.on_no_match.CopyFrom(otherwise)
    return RouteConfiguration(name=protocol, virtual_hosts=[host])


def _model_route(protocol: str, kind: str, model: ModelRoute, fleet: Fleet) -> Route:
    route = Route(name=f"{kind}/{model.model}")
    route.match.prefix = "/"
    size = SizeClass.LARGE if kind == "large" else SizeClass.SMALL
    route.route.cluster = cluster_name(protocol, model.model, size)
    # A client's own deadline is passed on for Triton to keep. If Envoy kept it as well (max_stream_duration), it would
    # ignore this time-out.
    route.route.timeout.FromMilliseconds(0 if kind == "stream" else int(fleet.gateway.request_timeout_s * 1000))
    route.route.retry_policy.CopyFrom(_retries(protocol, model.stateful))
    if model.stateful:
        route.route.hash_policy.add().header.header_name = SEQUENCE_HEADER
    if fleet.security.gateway.api_keys:
        route.request_headers_to_remove.extend(KEY_HEADERS)
    _tell_lua(route, model)
    return route


def _tell_lua(route: Route, model: ModelRoute) -> None:
    """What `route.lua` has to look for in a request of this model beside its name."""
    traits = route.metadata.filter_metadata[LUA]
    if model.stateful:
        traits["stateful"] = True
    if model.large_from:
        traits["large_from"] = model.large_from


@lru_cache
def _retries(protocol: str, stateful: bool) -> RetryPolicy:
    fields: dict[str, Any] = {
        "retry_on": _UNTOUCHED if stateful else _STATELESS[protocol],
        "num_retries": _RETRIES,
        "retry_back_off": {"base_interval": "0.010s", "max_interval": "0.100s"},
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": typed("extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"),
            }
        ],
        # Least request likes a dead host, which has no requests: many draws, so that one of them is another.
        "host_selection_retry_max_attempts": 32,
    }
    if not stateful:
        key = "retriable_headers" if protocol == "grpc" else "retriable_status_codes"
        fields[key] = _DRAINING_GRPC if protocol == "grpc" else _DRAINING_HTTP
    return parse(fields, RetryPolicy())


def _grpc_by_path() -> Matcher.OnMatch:
    """Where a gRPC request without a route header goes.

    A stream, and a unary call whose messages are compressed, meet ext_proc, which reads the model and makes
    Envoy look again. Everything else (and whatever could not be read) is the router's to answer.
    """
    by_encoding = Matcher()
    by_encoding.matcher_tree.input.name = "encoding"
    by_encoding.matcher_tree.input.typed_config.CopyFrom(_request_header("grpc-encoding"))
    for encoding in ("gzip", "deflate"):
        by_encoding.matcher_tree.exact_match_map.map[encoding].CopyFrom(_read_by_ext_proc())
    by_encoding.on_no_match.CopyFrom(_control_route(ROUTER_GRPC))

    by_path = Matcher()
    by_path.matcher_tree.input.name = "path"
    by_path.matcher_tree.input.typed_config.CopyFrom(_request_header(":path"))
    paths = by_path.matcher_tree.exact_match_map.map
    paths[STREAM_PATH].CopyFrom(_read_by_ext_proc())
    paths[INFER_PATH].matcher.CopyFrom(by_encoding)
    by_path.on_no_match.CopyFrom(_control_route(ROUTER_GRPC))
    return Matcher.OnMatch(matcher=by_path)


def _http_by_path() -> Matcher.OnMatch:
    """Triton's paths are the router's to answer; its metrics and admin API have a port of their own."""
    by_path = Matcher()
    by_path.matcher_tree.input.name = "path"
    by_path.matcher_tree.input.typed_config.CopyFrom(_request_header(":path"))
    by_path.matcher_tree.prefix_match_map.map["/v2"].CopyFrom(_control_route(ROUTER_HTTP))
    by_path.on_no_match.CopyFrom(_action(parse(_NOT_FOUND, Route())))
    return Matcher.OnMatch(matcher=by_path)


def _read_by_ext_proc() -> Matcher.OnMatch:
    overrides = {**filter_override(EXT_PROC, enabled=True), **filter_override(LUA, enabled=False)}
    return _control_route(ROUTER_GRPC, overrides)


def _control_route(cluster: str, overrides: dict[str, Any] | None = None) -> Matcher.OnMatch:
    fields = {
        "name": "control",
        "match": {"prefix": "/"},
        "route": {"cluster": cluster, "timeout": "0s"},
        "typed_per_filter_config": overrides or {},
    }
    return _action(parse(fields, Route()))


def _action(route: Route) -> Matcher.OnMatch:
    on_match = Matcher.OnMatch()
    on_match.action.name = "route"
    on_match.action.typed_config.CopyFrom(pack(route))
    return on_match


def _request_header(name: str) -> Any:
    return pack(HttpRequestHeaderMatchInput(header_name=name))
