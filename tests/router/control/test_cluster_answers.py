"""One server's answers, merged from many."""

from collections.abc import Callable
from typing import Any

import pytest

from bimetal.control import cluster
from bimetal.fleet.schema import Fleet
from bimetal.policy.table import RoutingTable, decide
from bimetal.state.fleet_state import FleetState
from bimetal.state.observation import Observation, ServedModel

StateOf = Callable[..., FleetState]


def table(fleet_of: Callable[..., Fleet], state: FleetState) -> RoutingTable:
    return decide(fleet_of("cuda-0", "rocm-0"), state, {}, {})


def test_the_cluster_is_ready_when_every_model_has_an_able_backend(
    fleet_of: Callable[..., Fleet], state_of: StateOf
) -> None:
    both = state_of(cuda_0="m", rocm_0="n")
    assert cluster.is_ready(table(fleet_of, both), both)
    half = state_of(Observation("rocm-0", error="refused"), cuda_0="m", rocm_0="n")
    assert not cluster.is_ready(table(fleet_of, half), half)


def test_an_empty_cluster_is_not_ready() -> None:
    assert not cluster.is_ready(RoutingTable(), FleetState())


@pytest.mark.parametrize(
    ("said", "ready"),
    [(("UNAVAILABLE", "unloaded"), True), (("", ""), True), (("UNLOADING", ""), False), (("UNAVAILABLE", "no"), False)],
)
def test_a_model_that_was_unloaded_on_purpose_does_not_make_the_cluster_unready(
    fleet_of: Callable[..., Fleet], state_of: StateOf, said: tuple[str, str], ready: bool
) -> None:
    put_away = ServedModel("n", (), {"1": said})
    state = state_of(Observation("rocm-0", models={"n": put_away}), cuda_0="m")
    assert cluster.is_ready(table(fleet_of, state), state) is ready


@pytest.mark.parametrize(
    ("text", "number"),
    [("", ""), ("1", "1"), ("01", "1"), ("-1", None), ("x", None), ("1.0", None), ("²", None), ("9" * 20, None)],
)
def test_a_version_is_read_as_triton_reads_it(text: str, number: str | None) -> None:
    assert cluster.version_number(text) == number


def test_a_model_is_ready_in_the_versions_that_an_able_backend_has(
    fleet_of: Callable[..., Fleet], state_of: StateOf
) -> None:
    state = state_of(Observation("cuda-0", models={"m": ServedModel("m", ("1", "3"))}))
    ready = [v for v in ("", "1", "2", "3") if cluster.model_is_ready(table(fleet_of, state), state, "m", v)]
    assert ready == ["", "1", "3"]
    assert not cluster.model_is_ready(table(fleet_of, state), state, "nope", "")


def test_extensions_are_those_that_all_have_and_a_cluster_can_keep(state_of: StateOf) -> None:
    def server(name: str, *extensions: str) -> Observation:
        return Observation(name, server={"name": "triton", "version": "2.51.0", "extensions": list(extensions)})

    state = state_of(
        server("cuda-0", "statistics", "sequence", "cuda_shared_memory"),
        server("rocm-0", "sequence", "statistics", "trace"),
    )
    assert cluster.server_metadata(state) == {
        "name": "triton",
        "version": "2.51.0",
        "extensions": ["statistics", "sequence"],
    }


def test_the_index_is_a_union_where_ready_wins(state_of: StateOf) -> None:
    loading = ServedModel("m", (), {"1": ("LOADING", "")})
    gone = ServedModel("n", (), {"1": ("UNAVAILABLE", "unloaded")})
    state = state_of(Observation("cuda-0", models={"m": loading, "n": gone}), rocm_0="m")
    ready = {"name": "m", "version": "1", "state": "READY"}
    assert cluster.repository_index(state, ready_only=True) == [ready]
    unloaded = {"name": "n", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"}
    assert cluster.repository_index(state, ready_only=False) == [ready, unloaded]


def test_statistics_add_up() -> None:
    def stats(count: str, last: str, batches: dict[str, str]) -> dict[str, Any]:
        return {
            "model_stats": [
                {
                    "name": "m",
                    "version": "1",
                    "last_inference": last,
                    "inference_count": count,
                    "inference_stats": {"success": {"count": count, "ns": "10"}},
                    "batch_stats": [{"batch_size": s, "compute_infer": {"count": c}} for s, c in batches.items()],
                }
            ]
        }

    merged = cluster.sum_statistics([stats("3", "100", {"1": "3"}), stats("4", "90", {"1": "2", "8": "2"})])
    assert merged == [
        {
            "name": "m",
            "version": "1",
            "last_inference": "100",
            "inference_count": "7",
            "inference_stats": {"success": {"count": "7", "ns": "20"}},
            "batch_stats": [
                {"batch_size": "1", "compute_infer": {"count": "5"}},
                {"batch_size": "8", "compute_infer": {"count": "2"}},
            ],
        }
    ]


def test_a_counter_that_only_one_server_has_is_kept() -> None:
    one = {"model_stats": [{"name": "m", "version": "1"}]}
    two = {"model_stats": [{"name": "m", "version": "1", "inference_count": "4"}]}
    assert cluster.sum_statistics([one, two])[0]["inference_count"] == "4"


def test_versions_that_are_numbers_are_not_added() -> None:
    both = {"model_stats": [{"name": "7", "version": "2", "inference_count": "1"}]}
    assert cluster.sum_statistics([both, both]) == [{"name": "7", "version": "2", "inference_count": "2"}]
