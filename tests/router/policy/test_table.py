"""The decision: from a fleet state to shares."""

from collections.abc import Callable
from typing import Any

import pytest

from bimetal.breaker.breaker import Breaker, State
from bimetal.fleet.schema import Fleet
from bimetal.fleet.size_class import SizeClass
from bimetal.policy.table import ModelRoute, OperatorScore, decide
from bimetal.state.fleet_state import FleetState, absorb, warm
from bimetal.state.observation import Observation, ServedModel, ThermalReading

StateOf = Callable[..., FleetState]
FleetOf = Callable[..., Fleet]


def route(fleet: Fleet, state: FleetState, **kwargs: Any) -> ModelRoute:
    breakers: dict[str, Breaker] = kwargs.get("breakers", {})
    scores: dict[tuple[str, str], OperatorScore] = kwargs.get("scores", {})
    return decide(fleet, state, breakers, scores).routes["m"]


def blocked(found: ModelRoute) -> dict[str, str]:
    return {c.backend: c.blocked for c in found.candidates}


def test_a_model_is_shared_by_the_backends_that_have_it(fleet_of: FleetOf, state_of: StateOf) -> None:
    fleet = fleet_of("cuda-0", "rocm-0", "cpu-0")
    found = route(fleet, state_of(cuda_0="m", rocm_0="m", cpu_0="other"))
    assert found.shares == {"cuda-0": 0.5, "rocm-0": 0.5}


def test_the_scores_of_the_pools_move_the_shares(fleet_of: FleetOf, state_of: StateOf) -> None:
    scores = {("m", "cuda"): OperatorScore(4, ()), ("m", "rocm"): OperatorScore(1, ("RoPE",))}
    found = route(fleet_of("cuda-0", "rocm-0"), state_of(cuda_0="m", rocm_0="m"), scores=scores)
    assert found.shares == {"cuda-0": 1.0, "rocm-0": 0.0}


def test_an_unreachable_backend_keeps_its_model_but_gets_nothing(fleet_of: FleetOf, state_of: StateOf) -> None:
    state = state_of(Observation("cuda-0", error="refused"), cuda_0="m", rocm_0="m")
    state = absorb(state, Observation("cuda-0", error="refused"))
    found = route(fleet_of("cuda-0", "rocm-0"), state)
    assert found.shares == {"cuda-0": 0.0, "rocm-0": 1.0}
    assert blocked(found)["cuda-0"] == "unreachable: refused"


@pytest.mark.parametrize("state", [State.ISOLATED, State.FAULTED])
def test_an_open_breaker_blocks_and_says_why(fleet_of: FleetOf, state_of: StateOf, state: State) -> None:
    found = route(
        fleet_of("cuda-0", "rocm-0"),
        state_of(cuda_0="m", rocm_0="m"),
        breakers={"cuda-0": Breaker(state, reason="ECC error")},
    )
    assert found.shares == {"cuda-0": 0.0, "rocm-0": 1.0}
    assert blocked(found)["cuda-0"] == f"{state.value}: ECC error"


def test_a_degraded_backend_gets_less(fleet_of: FleetOf, state_of: StateOf) -> None:
    breakers = {"cuda-0": Breaker(State.DEGRADED)}
    found = route(fleet_of("cuda-0", "rocm-0"), state_of(cuda_0="m", rocm_0="m"), breakers=breakers)
    assert found.shares["cuda-0"] == pytest.approx(1 / 3)


def test_readiness_is_per_model(fleet_of: FleetOf, state_of: StateOf) -> None:
    """T7014: a server is not ready while any model loads; its other models are."""
    loading = ServedModel("m", (), {"1": ("LOADING", "")})
    half = Observation("cuda-0", models={"m": loading, "n": ServedModel("n", ("1",))})
    table = decide(fleet_of("cuda-0"), state_of(half), {}, {})
    assert table.routes["n"].shares == {"cuda-0": 1.0}
    assert table.routes["m"].shares == {"cuda-0": 0.0}
    assert "LOADING" in blocked(table.routes["m"])["cuda-0"]


def test_an_unloaded_model_is_not_ready_whatever_the_server_says(fleet_of: FleetOf, state_of: StateOf) -> None:
    """T7588: the server stays ready after an unload; the repository index is the truth."""
    gone = Observation("cuda-0", models={"m": ServedModel("m", (), {"1": ("UNAVAILABLE", "unloaded")})})
    assert route(fleet_of("cuda-0"), state_of(gone, cuda_0="m")).shares == {"cuda-0": 0.0}


def test_a_model_that_a_reachable_backend_no_longer_lists_is_forgotten(fleet_of: FleetOf, state_of: StateOf) -> None:
    state = absorb(state_of(cuda_0="m n"), Observation("cuda-0", models={"n": ServedModel("n", ("1",))}))
    assert list(decide(fleet_of("cuda-0"), state, {}, {}).routes) == ["n"]


def test_waiting_requests_lower_the_share(fleet_of: FleetOf, seen: Callable[..., Observation]) -> None:
    state = absorb(absorb(FleetState(), seen("cuda-0", "m", pending=32.0)), seen("rocm-0", "m", pending=0.0))
    assert route(fleet_of("cuda-0", "rocm-0"), state).shares["cuda-0"] == pytest.approx(1 / 3)


def test_large_requests_may_be_shared_out_differently(fleet_of: FleetOf, state_of: StateOf) -> None:
    fleet = fleet_of("cuda-0", "rocm-0", models={"m": {"large_from": 32, "large": {"cuda": 0.25}}})
    table = decide(fleet, state_of(cuda_0="m n", rocm_0="m n"), {}, {})
    sized, plain = table.routes["m"], table.routes["n"]
    assert sized.size_classes == (SizeClass.SMALL, SizeClass.LARGE)
    assert [c.share for c in sized.candidates] == [0.5, 0.5]
    assert [c.large_share for c in sized.candidates] == [0.2, 0.8]
    assert plain.size_classes == (SizeClass.SMALL,)


def test_load_heat_and_degradation_do_not_move_the_sequences_of_a_stateful_model(fleet_of: FleetOf) -> None:
    served = ServedModel("m", ("1",), config={"sequence_batching": {}})
    state = absorb(FleetState(), Observation("cuda-0", models={"m": served}, pending=500.0))
    state = absorb(state, Observation("rocm-0", models={"m": served}, pending=0.0))
    state = warm(state, ThermalReading("cuda-0", 0.0))
    found = route(fleet_of("cuda-0", "rocm-0"), state, breakers={"cuda-0": Breaker(State.DEGRADED)})
    assert found.shares == {"cuda-0": 0.5, "rocm-0": 0.5}


def test_a_drained_backend_gets_nothing_and_says_why(fleet_of: FleetOf, state_of: StateOf) -> None:
    table = decide(fleet_of("cuda-0", "rocm-0"), state_of(cuda_0="m", rocm_0="m"), {}, {}, {"cuda-0"})
    assert table.routes["m"].shares == {"cuda-0": 0.0, "rocm-0": 1.0}
    assert blocked(table.routes["m"])["cuda-0"] == "drained by a person"


def test_a_server_that_is_about_to_stop_gets_nothing_new_and_keeps_what_it_has(
    fleet_of: FleetOf, state_of: StateOf, seen: Callable[..., Observation]
) -> None:
    state = state_of(seen("cuda-0", "m", stopping=True), rocm_0="m")
    found = route(fleet_of("cuda-0", "rocm-0"), state)
    assert found.shares == {"cuda-0": 0.0, "rocm-0": 1.0}
    assert blocked(found)["cuda-0"] == "about to stop"
    assert [c.backend for c in found.candidates if c.draining] == ["cuda-0"]


def test_a_sequence_model_is_stateful_wherever_one_backend_says_so(fleet_of: FleetOf) -> None:
    config: dict[str, object] = {"sequence_batching": {}}
    state = absorb(FleetState(), Observation("cuda-0", models={"m": ServedModel("m", ("1",), config=config)}))
    assert route(fleet_of("cuda-0"), state).stateful
    plain = absorb(FleetState(), Observation("cuda-0", models={"m": ServedModel("m", ("1",))}))
    assert not route(fleet_of("cuda-0"), plain).stateful
