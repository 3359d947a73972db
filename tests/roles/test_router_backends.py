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
