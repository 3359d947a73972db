"""Names that the published resources, the Lua filter, ext_proc and the feedback agree on."""

ROUTER_GRPC = "router-grpc"
"""Envoy cluster of the router's gRPC port: xDS, access log, ext_proc, control answers."""
ROUTER_HTTP = "router-http"
"""Envoy cluster of the router's HTTP port: control answers."""

ROUTE_HEADER = "x-bimetal-route"
"""Request header that names the route: `unary/MODEL` or `stream/MODEL`. Set inside the gateway only: a client's
own is dropped on arrival, and ours before the request leaves."""

INFER_PATH = "/inference.GRPCInferenceService/ModelInfer"
STREAM_PATH = "/inference.GRPCInferenceService/ModelStreamInfer"


def model_of_cluster(cluster: str) -> str | None:
    """The model of an Envoy cluster `grpc/MODEL` or `http/MODEL`; None for other clusters."""
    protocol, _, model = cluster.partition("/")
    return model if protocol in {"grpc", "http"} and model else None
