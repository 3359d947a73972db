"""What Envoy is started with: where the router is. Everything else it learns over xDS."""

import socket
from typing import Any

from router.fleet import Fleet
from router.xds.message import grpc_service, socket_address, typed
from router.xds.names import ROUTER_GRPC, ROUTER_HTTP


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
                _cluster(ROUTER_GRPC, fleet.router.host, fleet.router.xds_port, {"http2_protocol_options": {}}),
                _cluster(ROUTER_HTTP, fleet.router.host, fleet.router.http_port, {"http_protocol_options": {}}),
            ]
        },
        # Without a limit Envoy warns at every start; this one is far above what the listeners can hold.
        "overload_manager": {
            "resource_monitors": [
                {
                    "name": "envoy.resource_monitors.global_downstream_max_connections",
                    "typed_config": typed(
                        "extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
                        max_active_downstream_connections=50000,
                    ),
                }
            ]
        },
    }


def _cluster(name: str, host: str, port: int, protocol: dict[str, Any]) -> dict[str, Any]:
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
                "extensions.upstreams.http.v3.HttpProtocolOptions", explicit_http_config=protocol
            )
        },
    }


def client_bootstrap(fleet: Fleet) -> dict[str, Any]:
    """The bootstrap of a proxyless client, for `GRPC_XDS_BOOTSTRAP`.

    `ignore_resource_deletion` keeps a client on its last table when the router has nothing to say.
    """
    return {
        "xds_servers": [
            {
                "server_uri": f"{fleet.router.host}:{fleet.router.xds_port}",
                "channel_creds": [{"type": "insecure"}],
                "server_features": ["xds_v3", "ignore_resource_deletion"],
            }
        ],
        "node": {"id": f"client-{socket.gethostname()}", "cluster": "bimetal"},
    }
