"""Beliefs in the routing table: they move shares, and never past a guard."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bimetal.breaker.breaker import Breaker, State
from bimetal.control.report import explain
from bimetal.fleet.schema import Fleet
from bimetal.learning.evidence import Evidence, Key
from bimetal.policy.table import OperatorScore, decide
from bimetal.state.fleet_state import FleetState, absorb
from bimetal.state.observation import Observation, ServedModel

FleetOf = Callable[..., Fleet]
StateOf = Callable[..., FleetState]

NAMES = ("cuda-0", "rocm-0", "cpu-0")
FAST, SLOW = Evidence(0.004, 92), Evidence(0.016, 92)


def beliefs(size: str = "small", **evidence: Evidence) -> dict[Key, Evidence]:
    return {Key("m", name.replace("_", "-"), size): e for name, e in evidence.items()}


def bandwidths(**gbs: float) -> dict[str, dict[str, Any]]:
    return {
        name.replace("_", "-"): {"devices": [{"model": "x", "memory_bandwidth_gbs": value}]}
        for name, value in gbs.items()
    }


def test_a_wrong_prior_is_overruled(fleet_of: FleetOf, state_of: StateOf) -> None:
    fleet = fleet_of("cuda-0", "rocm-0", extras=bandwidths(cuda_0=3000, rocm_0=300))
    state = state_of(cuda_0="m", rocm_0="m")
    table = decide(fleet, state, {}, {}, beliefs=beliefs(cuda_0=SLOW, rocm_0=FAST))
    assert table.routes["m"].shares["rocm-0"] > 0.9


def test_equal_backends_stay_equal_however_often_each_was_measured(fleet_of: FleetOf, state_of: StateOf) -> None:
    scores = {("m", pool): OperatorScore(3, ()) for pool in ("cuda", "rocm", "cpu")}
    known = beliefs(cuda_0=Evidence(0.0040, 90), rocm_0=Evidence(0.0044, 12))
    table = decide(fleet_of(*NAMES), state_of(cuda_0="m", rocm_0="m", cpu_0="m"), {}, scores, beliefs=known)
    assert len(set(table.routes["m"].shares.values())) == 1


def test_a_believed_slow_backend_keeps_the_floor(fleet_of: FleetOf, state_of: StateOf) -> None:
    fleet = fleet_of("cuda-0", "rocm-0", extras=bandwidths(cuda_0=3000, rocm_0=3))
    state = state_of(cuda_0="m", rocm_0="m")
    assert decide(fleet, state, {}, {}).routes["m"].shares == {"cuda-0": 0.97, "rocm-0": 0.03}


def test_learning_can_be_disabled(fleet_of: FleetOf, state_of: StateOf) -> None:
    fleet = fleet_of("cuda-0", "rocm-0", extras=bandwidths(cuda_0=3000, rocm_0=3), learning={"enabled": False})
    shares = decide(fleet, state_of(cuda_0="m", rocm_0="m"), {}, {}).routes["m"].shares
    assert shares["rocm-0"] == pytest.approx(0.001, abs=1e-4)


@pytest.mark.parametrize("state", [State.ISOLATED, State.FAULTED])
def test_the_fastest_gets_nothing_while_its_breaker_is_open(fleet_of: FleetOf, state_of: StateOf, state: State) -> None:
    table = decide(
        fleet_of("cuda-0", "rocm-0"),
        state_of(cuda_0="m", rocm_0="m"),
        {"rocm-0": Breaker(state)},
        {},
        beliefs=beliefs(cuda_0=SLOW, rocm_0=FAST),
    )
    assert table.routes["m"].shares == {"cuda-0": 1.0, "rocm-0": 0.0}


@pytest.mark.parametrize(("poor", "better"), [(0, 1), (0, 4), (1, 2), (2, 3)])
def test_the_fastest_gets_nothing_beside_a_better_class(
    fleet_of: FleetOf, state_of: StateOf, poor: int, better: int
) -> None:
    scores = {("m", "cuda"): OperatorScore(better, ()), ("m", "rocm"): OperatorScore(poor, ())}
    table = decide(
        fleet_of("cuda-0", "rocm-0"),
        state_of(cuda_0="m", rocm_0="m"),
        {},
        scores,
        beliefs=beliefs(cuda_0=SLOW, rocm_0=FAST),
    )
    assert table.routes["m"].shares == {"cuda-0": 1.0, "rocm-0": 0.0}


def test_what_a_blocked_or_worse_backend_was_measured_at_does_not_change_the_others(
    fleet_of: FleetOf, state_of: StateOf
) -> None:
    fleet, state = fleet_of(*NAMES), state_of(cuda_0="m", rocm_0="m", cpu_0="m")
    scores = {("m", pool): OperatorScore(score, ()) for pool, score in (("cuda", 4), ("rocm", 4), ("cpu", 1))}
    measured = beliefs(cuda_0=SLOW, rocm_0=FAST)
    without = decide(fleet, state, {}, scores, beliefs=measured)
    with_it = decide(fleet, state, {}, scores, beliefs={**measured, **beliefs(cpu_0=Evidence(1e-4, 92))})
    assert with_it.routes["m"].shares == without.routes["m"].shares


def test_large_requests_follow_their_own_times(fleet_of: FleetOf, state_of: StateOf) -> None:
    fleet = fleet_of("cuda-0", "rocm-0", models={"m": {"large_from": 16, "large": {"rocm": 0.5}}})
    known = {**beliefs(cuda_0=FAST, rocm_0=SLOW), **beliefs("large", cuda_0=SLOW, rocm_0=FAST)}
    cuda, rocm = decide(fleet, state_of(cuda_0="m", rocm_0="m"), {}, {}, beliefs=known).routes["m"].candidates
    assert cuda.share > 0.9
    assert rocm.large_share > 0.9


def test_sequences_are_not_moved_by_times(fleet_of: FleetOf) -> None:
    config: dict[str, object] = {"sequence_batching": {}}
    served = {"m": ServedModel("m", ("1",), config=config)}
    state = FleetState()
    for name in ("cuda-0", "rocm-0"):
        state = absorb(state, Observation(name, models=served))
    table = decide(fleet_of("cuda-0", "rocm-0"), state, {}, {}, beliefs=beliefs(cuda_0=SLOW, rocm_0=FAST))
    assert table.routes["m"].shares == {"cuda-0": 0.5, "rocm-0": 0.5}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    scores=st.lists(st.none() | st.integers(0, 5), min_size=3, max_size=3),
    states=st.lists(st.sampled_from(State), min_size=3, max_size=3),
    times=st.lists(st.none() | st.tuples(st.floats(1e-4, 10), st.floats(1, 100)), min_size=3, max_size=3),
)
def test_whatever_is_measured_shares_sum_to_one_and_keep_floor_and_guards(
    fleet_of: FleetOf,
    state_of: StateOf,
    scores: list[int | None],
    states: list[State],
    times: list[tuple[float, float] | None],
) -> None:
    fleet, state = fleet_of(*NAMES), state_of(cuda_0="m", rocm_0="m", cpu_0="m")
    known = {Key("m", name): Evidence(*t) for name, t in zip(NAMES, times, strict=True) if t}
    breakers = {name: Breaker(s) for name, s in zip(NAMES, states, strict=True)}
    judged = {("m", n.split("-")[0]): OperatorScore(s, ()) for n, s in zip(NAMES, scores, strict=True)}
    shares = decide(fleet, state, breakers, judged, beliefs=known).routes["m"].shares
    assert shares == decide(fleet, state, breakers, judged, beliefs=known).routes["m"].shares

    closed = {n for n in NAMES if breakers[n].state in {State.ISOLATED, State.FAULTED}}
    kind = {n: (0, 1, 2, 3, 3, 3)[3 if s is None else s] for n, s in zip(NAMES, scores, strict=True)}
    best = max((kind[n] for n in NAMES if n not in closed), default=None)
    for name, share in shares.items():
        if name in closed or kind[name] != best:
            assert share == 0
        else:
            assert share >= fleet.learning.floor - 1e-9
    assert sum(shares.values()) == pytest.approx(0 if best is None else 1)


def test_explain_shows_what_was_measured_and_what_it_counts(fleet_of: FleetOf, state_of: StateOf) -> None:
    fleet = fleet_of("cuda-0", "rocm-0", extras=bandwidths(cuda_0=3000, rocm_0=300))
    known = beliefs(cuda_0=SLOW, rocm_0=Evidence(0.004, 92, remembered=20, version=3, learned_at=1.7e9))
    table = decide(fleet, state_of(cuda_0="m", rocm_0="m"), {}, {}, beliefs=known)
    cuda, rocm = explain("m", fleet, table)["backends"]
    assert rocm["evidence"] == {
        "seconds": 0.004, "requests": 92, "remembered": 20, "version": 3, "learned_at": 1.7e9,
    }  # fmt: skip
    assert "measured: 4 ms a request without waiting: weight x 1; counts as 92 requests" in rocm["reasons"][0]
    assert rocm["reasons"][1] == (
        "20 of these requests stand for its pool's time, measured on this cluster up to 2023-11-14 (lessons 3)"
    )
    assert rocm["reasons"][2] == "memory bandwidth is 10% of the fastest candidate's"
    assert cuda["factors"]["measured"] < 0.02
