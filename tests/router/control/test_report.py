"""`status` and `explain`: the same facts as JSON and as tables."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from bimetal.breaker.breaker import Breaker, State, Tier
from bimetal.cli.tables import explanation_tables, status_tables
from bimetal.control.report import explain, status
from bimetal.errors import UnknownModelError
from bimetal.fleet.schema import Fleet
from bimetal.policy.table import OperatorScore, decide
from bimetal.state.fleet_state import FleetState
from bimetal.state.observation import Observation

SCORES = {
    ("m", "cuda"): OperatorScore(4, ("RotaryEmbedding(23) runs natively (matrix)",)),
    ("m", "rocm"): OperatorScore(1, ("RotaryEmbedding(23) has no MIGraphX kernel (matrix)",)),
}
BREAKERS = {"cpu-0": Breaker(State.ISOLATED, 3, tier=Tier.TRANSIENT, until=99.0, reason="no answer")}


@pytest.fixture
def world(fleet_of: Callable[..., Fleet], state_of: Callable[..., FleetState]) -> tuple[Fleet, FleetState]:
    fleet = fleet_of("cuda-0", "rocm-0", "cpu-0", extras={"rocm-0": {"compute": "cpu"}})
    return fleet, state_of(cuda_0="m", rocm_0="m", cpu_0="m")


def _status(world: tuple[Fleet, FleetState], store_error: str | None = None) -> dict[str, Any]:
    fleet, state = world
    table = decide(fleet, state, BREAKERS, SCORES)
    return status(fleet, state, breakers=BREAKERS, table=table, drained={"rocm-0"}, store_error=store_error)


def printed(*parts: Any) -> str:
    text = io.StringIO()
    Console(file=text, width=200).print(*parts, sep="\n")
    return text.getvalue()


def test_status_has_the_promised_shape(world: tuple[Fleet, FleetState]) -> None:
    answer = _status(world)
    first = {k: answer["backends"][0][k] for k in ("name", "pool", "vendor", "state", "ready", "models")}
    assert first == {
        "name": "cuda-0", "pool": "cuda", "vendor": "nvidia", "state": "Healthy", "ready": True, "models": ["m"],
    }  # fmt: skip
    assert answer["models"] == [{"name": "m", "shares": {"cuda-0": 1.0, "rocm-0": 0.0, "cpu-0": 0.0}}]
    assert answer["backends"][2]["state"] == "Isolated"


def test_a_backend_that_was_never_probed_is_not_ready(fleet_of: Callable[..., Fleet]) -> None:
    fleet = fleet_of("cuda-0")
    table = decide(fleet, FleetState(), {}, {})
    answer = status(fleet, FleetState(), breakers={}, table=table, drained=set(), store_error=None)
    backend = answer["backends"][0]
    assert (backend["ready"], backend["error"], backend["models"]) == (False, "not probed yet", [])


def test_explain_gives_score_factors_share_and_reasons_per_backend(world: tuple[Fleet, FleetState]) -> None:
    fleet, state = world
    backends = explain("m", fleet, decide(fleet, state, BREAKERS, SCORES))["backends"]
    cuda, rocm, cpu = backends
    assert (cuda["score"], cuda["share"], cuda["provider"]) == (4, 1.0, "CUDAExecutionProvider")
    assert set(cuda["factors"]) == {"operators", "bandwidth", "temperature", "load", "breaker", "measured"}
    assert (rocm["score"], rocm["share"], rocm["factors"]["operators"]) == (1, 0.0, 0.0)
    assert rocm["reasons"][1] == "RotaryEmbedding(23) has no MIGraphX kernel (matrix)"
    assert "no traffic" in rocm["reasons"][0]
    assert cpu["reasons"][0] == "Isolated: no answer"
    assert cpu["score"] is None


def test_every_factor_that_moves_a_weight_is_put_into_words(
    fleet_of: Callable[..., Fleet], state_of: Callable[..., FleetState], seen: Callable[..., Observation]
) -> None:
    devices = {
        n: {"devices": [{"model": "x", "memory_bandwidth_gbs": g}]} for n, g in (("cuda-0", 100), ("rocm-0", 400))
    }
    fleet = fleet_of("cuda-0", "rocm-0", extras=devices)
    state = state_of(seen("cuda-0", "m", pending=32.0), rocm_0="m")
    table = decide(fleet, state, {"cuda-0": Breaker(State.DEGRADED)}, {})
    reasons = " | ".join(explain("m", fleet, table)["backends"][0]["reasons"])
    for words in ("25% of the fastest", "waiting in its queues: weight x 0.5", "Degraded: weight x 0.5", "unknown"):
        assert words in reasons


def test_an_unknown_model_lists_the_known_ones(world: tuple[Fleet, FleetState]) -> None:
    fleet, state = world
    with pytest.raises(UnknownModelError, match=r"'nope'\. Known models: m\."):
        explain("nope", fleet, decide(fleet, state, {}, {}))


def test_the_status_table_says_what_is_emulated_and_what_is_down(world: tuple[Fleet, FleetState]) -> None:
    text = printed(*status_tables(_status(world, store_error="disk full")))
    for words in ("cpu (emulated)", "Isolated", "100%", "disk full", "Healthy, drained"):
        assert words in text


def test_a_server_that_is_about_to_stop_shows_so(
    fleet_of: Callable[..., Fleet], state_of: Callable[..., FleetState], seen: Callable[..., Observation]
) -> None:
    world = fleet_of("cuda-0", "rocm-0", "cpu-0"), state_of(seen("cuda-0", "m", stopping=True))
    assert [b["stopping"] for b in _status(world)["backends"]] == [True, False, False]
    assert "Healthy, stopping" in printed(*status_tables(_status(world)))


def test_the_explanation_table_shows_what_the_json_has(world: tuple[Fleet, FleetState]) -> None:
    fleet, state = world
    text = printed(*explanation_tables(explain("m", fleet, decide(fleet, state, BREAKERS, SCORES))))
    for words in ("4 of 5", "unknown", "no MIGraphX kernel", "100%", "operators"):
        assert words in text
