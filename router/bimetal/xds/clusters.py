"""Clusters and endpoints for Envoy: per model and protocol, the able backends with their weights."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any as AnyValue

from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.config.core.v3.health_check_pb2 import HealthStatus
from envoy.config.endpoint.v3.endpoint_components_pb2 import LbEndpoint
from envoy.config.endpoint.v3.endpoint_pb2 import ClusterLoadAssignment

from bimetal.fleet.schema import Fleet
from bimetal.fleet.settings import PolicySettings
from bimetal.policy.table import ModelRoute
from bimetal.xds.message import extension, parse, typed
from bimetal.xds.names import SEQUENCE_HEADER, cluster_name
from bimetal.xds.tls import tls_name, to_tritons

PROTOCOLS = ("grpc", "http")
_WEIGHT_OF_ALL = 1000
"""Endpoint weights of one model sum to about this; finer differences than 0.1 % do not matter."""


def clusters(model: ModelRoute, fleet: Fleet) -> Iterator[Cluster]:
    """The clusters of one model: for each protocol and size class."""
    tls_from = fleet.state_dir if any(backend.tls for backend in fleet.backends) else None
    for protocol, size in product(PROTOCOLS, model.size_classes):
        cluster = Cluster()
        cluster.CopyFrom(_template(protocol, fleet.policy, fleet.gateway.max_requests, model.stateful, tls_from))
        cluster.name = cluster_name(protocol, model.model, size)
        yield cluster


@lru_cache
def _template(protocol: str, policy: PolicySettings, most: int, stateful: bool, tls_from: Path | None) -> Cluster:
    http: dict[str, AnyValue] = {"http2_protocol_options": {}} if protocol == "grpc" else {"http_protocol_options": {}}
    fields: dict[str, AnyValue] = {
        "type": "EDS",
        "eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"}},
        "connect_timeout": "1s",
        # Maglev: a hash of the sequence chooses, and a backend that leaves takes only its own sequences along.
        "lb_policy": "MAGLEV" if stateful else "LEAST_REQUEST",
        # Panic mode would send requests to backends that the router took out.
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "circuit_breakers": {
            "thresholds": [
                {
                    # Over HTTP/1.1 a request has a connection to itself, or waits for one: three names of one bound.
                    "max_connections": most,
                    "max_pending_requests": most,
                    "max_requests": most,
                    "retry_budget": {
                        "budget_percent": {"value": policy.retry_percent},
                        "min_retry_concurrency": policy.retry_min_concurrent,
                    },
                }
            ]
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": typed(
                "extensions.upstreams.http.v3.HttpProtocolOptions",
                explicit_http_config=http,
                # Below any server's own idle limit, so that a kept connection is not closed as it is used.
                common_http_protocol_options={"idle_timeout": "30s"},
                **({"http_filters": _without_sequence_header()} if stateful else {}),
            )
        },
    }
    if tls_from and protocol == "grpc":
        fields["transport_socket_matches"] = [to_tritons(tls_from)]
    return parse(fields, Cluster())


def _without_sequence_header() -> list[dict[str, AnyValue]]:
    """Drops the header once a backend is chosen: a route would drop it before, and there would be nothing to hash."""
    return [
        extension(
            "envoy.filters.http.header_mutation",
            "extensions.filters.http.header_mutation.v3.HeaderMutation",
            mutations={"request_mutations": [{"remove": SEQUENCE_HEADER}]},
        ),
        extension("envoy.filters.http.upstream_codec", "extensions.filters.http.upstream_codec.v3.UpstreamCodec"),
    ]


def weight_of(share: float) -> int:
    """The endpoint weight of a share, in 1..1000."""
    return max(1, round(share * _WEIGHT_OF_ALL))


def endpoints(model: ModelRoute, fleet: Fleet) -> Iterator[ClusterLoadAssignment]:
    """The endpoints of a model's clusters: one locality, weighted, those with no share left out.

    A drained one stays in, as draining: Envoy gives it nothing new and goes on telling how many requests it still has.
    """
    for protocol, size in product(PROTOCOLS, model.size_classes):
        listed = [
            (fleet.backend(c.backend), weight_of(share), c.draining)
            for c in model.candidates
            if (share := model.share_of(c, size)) > 0 or c.draining
        ]
        assignment = ClusterLoadAssignment(cluster_name=cluster_name(protocol, model.model, size))
        weighted = [
            endpoint(b.ip, b.grpc_port, weight, b.name if model.stateful else "", tls_name(b), draining=draining)
            if protocol == "grpc"
            else endpoint(b.ip, b.http_port, weight, b.name if model.stateful else "", draining=draining)
            for b, weight, draining in listed
        ]
        assignment.endpoints.add().lb_endpoints.extend(weighted)
        yield assignment


@lru_cache(maxsize=1 << 16)  # a fleet has few addresses and few weights, and every table repeats them for every model
def endpoint(
    host: str, port: int, weight: int, hash_key: str = "", tls: str = "", *, draining: bool = False
) -> LbEndpoint:
    """One endpoint; the caller copies it.

    Args:
        hash_key: what Maglev hashes in place of the address, so that a sequence finds the same backend on both ports.
        tls: whom its certificate must be made out to; "" for plain text.
    """
    made = LbEndpoint()
    made.load_balancing_weight.value = weight
    if draining:
        made.health_status = HealthStatus.DRAINING
    made.endpoint.address.socket_address.address = host
    made.endpoint.address.socket_address.port_value = port
    if hash_key:
        made.metadata.filter_metadata["envoy.lb"]["hash_key"] = hash_key
    if tls:
        made.endpoint.hostname = tls
        made.metadata.filter_metadata["envoy.transport_socket_match"]["tls"] = True
    return made
