"""What Envoy is started with: where the router is. Everything else it learns over xDS."""

import socket
from typing import Any

from bimetal.errors import BimetalError
from bimetal.fleet.schema import Fleet, Gateway, join_host_port
from bimetal.fleet.security import InternalTls
from bimetal.xds.message import grpc_service, socket_address, typed
from bimetal.xds.names import ROUTER_GRPC, ROUTER_HTTP
from bimetal.xds.tls import CLIENT_IDENTITY, to_router


def envoy_bootstrap(fleet: Fleet) -> dict[str, Any]:
    """Envoy's bootstrap as a JSON-able dictionary."""
    ads = {"ads": {}, "resource_api_version": "V3"}
    return {
        "node": {"id": f"gateway-{socket.gethostname()}", "cluster": "bimetal"},
        "admin": {"address": socket_address("127.0.0.1", fleet.gateway.admin_port)},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "GRPC",
                "transport_api_version": "V3",
                "grpc_services": [grpc_service(ROUTER_GRPC)],
            },
            "lds_config": ads,
            "cds_config": ads,
        },
        "static_resources": {
            "clusters": [
                _cluster(ROUTER_GRPC, fleet, fleet.router.xds_port, "h2"),
                _cluster(ROUTER_HTTP, fleet, fleet.router.http_port, "http/1.1"),
            ]
        },
        "overload_manager": _limits(fleet.gateway),
    }


def _limits(gateway: Gateway) -> dict[str, Any]:
    """What the whole gateway may hold; what one model may is in its clusters."""
    heap = "envoy.resource_monitors.fixed_heap"
    return {
        "refresh_interval": "0.05s",
        "resource_monitors": [
            {
                "name": "envoy.resource_monitors.global_downstream_max_connections",
                "typed_config": typed(
                    "extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
                    max_active_downstream_connections=gateway.max_connections,
                ),
            },
            {
                "name": heap,
                "typed_config": typed(
                    "extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig",
                    max_heap_size_bytes=gateway.max_memory_bytes,
                ),
            },
        ],
        # From 64 KiB on it is known what a request holds.
        "buffer_factory_config": {"minimum_account_to_track_power_of_two": 16},
        "actions": [
            {
                "name": "envoy.overload_actions.stop_accepting_requests",
                "triggers": [{"name": heap, "threshold": {"value": 0.8}}],
            },
            # Bodies of requests that were accepted still come in. The last resort, of HTTP/2 alone: the largest go.
            {
                "name": "envoy.overload_actions.reset_high_memory_stream",
                "triggers": [{"name": heap, "scaled": {"scaling_threshold": 0.95, "saturation_threshold": 1.0}}],
            },
        ],
    }


def _cluster(name: str, fleet: Fleet, port: int, protocol: str) -> dict[str, Any]:
    host = fleet.router.host
    options = "http2_protocol_options" if protocol == "h2" else "http_protocol_options"
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": socket_address(host, port)}}]}],
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": typed(
                "extensions.upstreams.http.v3.HttpProtocolOptions", explicit_http_config={options: {}}
            )
        },
        **to_router(fleet, protocol),
    }


def client_bootstrap(fleet: Fleet, identity: InternalTls | None = None) -> dict[str, Any]:
    """The bootstrap of a proxyless client, for `GRPC_XDS_BOOTSTRAP`.

    `ignore_resource_deletion` keeps a client on its last table when the router has nothing to say.

    Raises:
        BimetalError: the fleet wants client certificates and no identity is given.
    """
    if fleet.security.internal is None:
        return _client_bootstrap(fleet, {"type": "insecure"})
    if identity is None:
        raise BimetalError(
            "the router asks proxyless clients for a certificate (security.internal): expected the client's own.",
            "Name its files: --certificate CHAIN --private-key KEY; docs/security.md shows how to make them.",
        )
    files = {
        "ca_certificate_file": str(identity.ca),
        "certificate_file": str(identity.certificate),
        "private_key_file": str(identity.private_key),
        # A renewed certificate is in use after at most this long.
        "refresh_interval": "60s",
    }
    provider = {CLIENT_IDENTITY: {"plugin_name": "file_watcher", "config": files}}
    return {**_client_bootstrap(fleet, {"type": "tls", "config": files}), "certificate_providers": provider}


def _client_bootstrap(fleet: Fleet, credentials: dict[str, Any]) -> dict[str, Any]:
    return {
        "xds_servers": [
            {
                "server_uri": join_host_port(fleet.router.host, fleet.router.xds_port),
                "channel_creds": [credentials],
                "server_features": ["xds_v3", "ignore_resource_deletion"],
            }
        ],
        "node": {"id": f"client-{socket.gethostname()}", "cluster": "bimetal"},
    }
