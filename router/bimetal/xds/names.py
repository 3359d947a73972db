"""Names that the published resources, the Lua filter, ext_proc and the feedback agree on."""

from bimetal.fleet.size_class import SizeClass

ROUTER_GRPC = "router-grpc"
"""Envoy cluster of the router's gRPC port: xDS, access log, ext_proc, control answers."""
ROUTER_HTTP = "router-http"
"""Envoy cluster of the router's HTTP port: control answers."""

# Request headers of the gateway's own: a client's are dropped on arrival, and ours before the request leaves.
ROUTE_HEADER = "x-bimetal-route"
"""Names the route: `unary/MODEL`, `large/MODEL` or `stream/MODEL`."""
SEQUENCE_HEADER = "x-bimetal-sequence"
"""The sequence_id of a request to a stateful model; its hash chooses the backend."""

# What `answer.lua` tells the access log of a failed HTTP request: the beginning of its body.
METADATA = "bimetal"
SAID = "said"

INFER_PATH = "/inference.GRPCInferenceService/ModelInfer"
STREAM_PATH = "/inference.GRPCInferenceService/ModelStreamInfer"

_PREFIXES = {SizeClass.SMALL: "", SizeClass.LARGE: "-large"}


def cluster_name(protocol: str, model: str, size: SizeClass = SizeClass.SMALL) -> str:
    """The cluster of a model for `grpc` or `http`: `grpc/MODEL`, and `grpc-large/MODEL` for large requests."""
    return f"{protocol}{_PREFIXES[size]}/{model}"


def read_cluster_name(cluster: str) -> tuple[str, SizeClass] | None:
    """Model and size class of a cluster that `cluster_name` named; None for any other."""
    head, _, model = cluster.partition("/")
    for size, suffix in _PREFIXES.items():
        if model and head in {f"grpc{suffix}", f"http{suffix}"}:
            return model, size
    return None
