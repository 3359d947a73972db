"""Which models a backend that leaves would leave without anybody."""

from ansible_collections.bimetal.cluster.plugins.filter import router_backends as filters

MODELS = [
    {"name": "both", "shares": {"a": 0.5, "b": 0.5}},
    {"name": "only_a", "shares": {"a": 1.0, "b": 0.0}},
    {"name": "nobody", "shares": {"a": 0.0, "b": 0.0}},
]


def test_a_model_is_orphaned_when_all_that_serve_it_leave() -> None:
    assert filters.router_orphans(MODELS, ["a"]) == ["only_a"]
    assert filters.router_orphans(MODELS, ["b"]) == []
    assert filters.router_orphans(MODELS, ["a", "b"]) == ["both", "only_a"]


def test_a_backend_is_named_as_its_host_where_no_other_name_is_set() -> None:
    assert filters.router_backend_names(["h1", "h2"], {"h1": {"triton_name": "a"}, "h2": {}}) == ["a", "h2"]


def test_an_address_of_two_services_is_found_whichever_they_are() -> None:
    backends = [
        {"triton_host": "10.0.0.1", "triton_http_port": 8000, "triton_grpc_port": "8001", "triton_metrics_port": 8002},
        {"triton_host": "10.0.0.1", "triton_http_port": 9000, "triton_grpc_port": 8001, "triton_metrics_port": 9002},
    ]
    gateway, router = {"10.0.0.1": [9002, 8003]}, {"127.0.0.1": [8002, 8000]}
    assert filters.router_shared_addresses(backends, gateway, router) == ["10.0.0.1:8001", "10.0.0.1:9002"]
