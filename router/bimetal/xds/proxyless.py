"""The routing table in the shape that grpcio's own xDS client wants: `xds:///MODEL`.

One listener per model with its route inline. grpcio ignores endpoint weights but honours locality weights, so each
backend is a locality of its own.
"""

from functools import cache
from typing import Any

from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.config.endpoint.v3.endpoint_pb2 import ClusterLoadAssignment
from envoy.config.listener.v3.listener_pb2 import Listener
from google.protobuf.any_pb2 import Any as AnyMessage

from bimetal.fleet.schema import Fleet
from bimetal.policy.table import ModelRoute, RoutingTable
from bimetal.xds.clusters import endpoint, weight_of
from bimetal.xds.message import extension, parse, typed
from bimetal.xds.names import cluster_name
from bimetal.xds.snapshot import CLUSTER, ENDPOINTS, LISTENER, Resources, Snapshot, pack
from bimetal.xds.tls import proxyless_to_tritons


def snapshot(table: RoutingTable, fleet: Fleet) -> Snapshot:
    """Every resource for proxyless clients."""
    models = table.routes.values()
    return {
        LISTENER: Resources.of((m.model, _listener(m.model, m.stateful)) for m in models),
        CLUSTER: Resources.of((cluster_name("grpc", m.model), pack(_cluster(m, fleet))) for m in models),
        ENDPOINTS: Resources.of((cluster_name("grpc", m.model), pack(_endpoints(m, fleet))) for m in models),
    }


@cache  # a model's listener never changes, and building it costs more than all its endpoints
def _listener(model: str, stateful: bool) -> AnyMessage:
    manager = typed(
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        route_config={
            "name": model,
            "virtual_hosts": [{"name": model, "domains": ["*"], "routes": [_route(model, stateful)]}],
        },
        http_filters=[extension("envoy.filters.http.router", "extensions.filters.http.router.v3.Router")],
    )
    return pack(parse({"name": model, "api_listener": {"api_listener": manager}}, Listener()))


def _route(model: str, stateful: bool) -> dict[str, Any]:
    action: dict[str, Any] = {"cluster": cluster_name("grpc", model)}
    if stateful:
        # A proxyless client cannot look into the message, so it stays on one backend with all of its sequences.
        action["hash_policy"] = [{"filter_state": {"key": "io.grpc.channel_id"}}]
    else:
        action["retry_policy"] = {"retry_on": "unavailable", "num_retries": 2}
    return {"match": {"prefix": ""}, "route": action}


def _cluster(model: ModelRoute, fleet: Fleet) -> Cluster:
    secure = [backend for backend in (fleet.backend(c.backend) for c in model.candidates) if backend.tls]
    cluster = parse(proxyless_to_tritons(secure) if secure else {}, Cluster())
    cluster.name, cluster.type = cluster_name("grpc", model.model), Cluster.EDS
    cluster.lb_policy = Cluster.RING_HASH if model.stateful else Cluster.ROUND_ROBIN
    cluster.eds_cluster_config.eds_config.ads.SetInParent()
    return cluster


def _endpoints(model: ModelRoute, fleet: Fleet) -> ClusterLoadAssignment:
    assignment = ClusterLoadAssignment(cluster_name=cluster_name("grpc", model.model))
    # TLS is a property of a client's whole cluster: where any backend has it, those without are left to the gateway.
    only_tls = any(fleet.backend(c.backend).tls for c in model.candidates)
    for candidate in model.candidates:
        backend = fleet.backend(candidate.backend)
        if candidate.share > 0 and (backend.tls or not only_tls):
            locality = assignment.endpoints.add()
            locality.locality.zone = backend.name
            locality.load_balancing_weight.value = weight_of(candidate.share)
            locality.lb_endpoints.append(endpoint(backend.ip, backend.grpc_port, weight=1))
    return assignment
