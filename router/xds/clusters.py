"""Clusters and endpoints for Envoy: per model and protocol, the able backends with their weights."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any as AnyValue

from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.config.endpoint.v3.endpoint_components_pb2 import LbEndpoint
from envoy.config.endpoint.v3.endpoint_pb2 import ClusterLoadAssignment

from router.fleet import Fleet, PolicySettings
from router.policy.table import ModelRoute
from router.xds.message import parse, typed

PROTOCOLS = ("grpc", "http")
_WEIGHT_OF_ALL = 1000
"""Endpoint weights of one model sum to about this; finer differences than 0.1 % do not matter."""


def clusters(model: ModelRoute, policy: PolicySettings) -> Iterator[Cluster]:
    """The gRPC and the HTTP cluster of one model."""
    for protocol in PROTOCOLS:
        cluster = Cluster()
        cluster.CopyFrom(_template(protocol, policy))
        cluster.name = f"{protocol}/{model.model}"
        yield cluster


@lru_cache
def _template(protocol: str, policy: PolicySettings) -> Cluster:
    http: dict[str, AnyValue] = {"http2_protocol_options": {}} if protocol == "grpc" else {"http_protocol_options": {}}
    fields: dict[str, AnyValue] = {
        "type": "EDS",
        "eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"}},
        "connect_timeout": "1s",
        "lb_policy": "LEAST_REQUEST",
        # Panic mode would send requests to backends that the router took out.
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "circuit_breakers": {
            "thresholds": [
                {
                    "max_connections": 4096,
                    "max_pending_requests": 4096,
                    "max_requests": 4096,
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
            )
        },
    }
    return parse(fields, Cluster())


def weight_of(share: float) -> int:
    """The endpoint weight of a share > 0, in 1..1000."""
    return max(1, round(share * _WEIGHT_OF_ALL))


def endpoints(model: ModelRoute, fleet: Fleet) -> Iterator[ClusterLoadAssignment]:
    """The endpoints of both clusters of one model: one locality, weighted, those with no share left out."""
    able = [(fleet.backend(c.backend), weight_of(c.share)) for c in model.candidates if c.share > 0]
    for protocol in PROTOCOLS:
        assignment = ClusterLoadAssignment(cluster_name=f"{protocol}/{model.model}")
        weighted = [
            endpoint(str(b.host), b.grpc_port if protocol == "grpc" else b.http_port, weight) for b, weight in able
        ]
        assignment.endpoints.add().lb_endpoints.extend(weighted)
        yield assignment


@lru_cache(maxsize=1 << 16)  # a fleet has few addresses and few weights, and every table repeats them for every model
def endpoint(host: str, port: int, weight: int) -> LbEndpoint:
    """One endpoint; the caller copies it."""
    made = LbEndpoint()
    made.load_balancing_weight.value = weight
    made.endpoint.address.socket_address.address = host
    made.endpoint.address.socket_address.port_value = port
    return made
