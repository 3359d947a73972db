"""The breaker's state machine, driven by an injected clock."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bimetal.breaker.breaker import NEW, Breaker, State, Tier, fail, succeed, tick
from bimetal.fleet.settings import BreakerSettings

SETTINGS = BreakerSettings()


def after_failures(n: int, tier: Tier = Tier.TRANSIENT, now: float = 0.0, start: Breaker = NEW) -> Breaker:
    for _ in range(n):
        start = fail(start, tier, "no answer", now, SETTINGS)
    return start


def after_successes(n: int, start: Breaker) -> Breaker:
    for _ in range(n):
        start = succeed(start, SETTINGS)
    return start


def test_one_timeout_degrades() -> None:
    assert after_failures(1).state is State.DEGRADED


def test_ten_successes_in_a_row_heal_and_nine_do_not() -> None:
    degraded = after_failures(1)
    assert after_successes(9, degraded).state is State.DEGRADED
    assert after_successes(10, degraded) == NEW


def test_a_failure_between_successes_starts_their_count_anew() -> None:
    shaken = after_failures(1, start=after_successes(9, after_failures(1)))
    assert after_successes(9, shaken).state is State.DEGRADED
    assert after_successes(10, shaken).state is State.HEALTHY


def test_three_failures_in_a_row_isolate() -> None:
    assert after_failures(2).state is State.DEGRADED
    assert after_failures(3).state is State.ISOLATED


def test_failures_that_are_not_in_a_row_do_not_isolate() -> None:
    breaker = NEW
    for _ in range(20):
        breaker = succeed(after_failures(2, start=breaker), SETTINGS)
    assert breaker.state is State.DEGRADED


@pytest.mark.parametrize(("tier", "cooldown"), [(Tier.TRANSIENT, 300.0), (Tier.PERSISTENT, 1800.0)])
def test_an_isolation_ends_when_its_cooldown_does_and_not_before(tier: Tier, cooldown: float) -> None:
    isolated = after_failures(3, tier, now=1000.0)
    assert tick(isolated, 1000.0 + cooldown - 0.001).state is State.ISOLATED
    assert tick(isolated, 1000.0 + cooldown) == NEW


def test_one_out_of_memory_in_a_run_gives_the_whole_run_the_long_cooldown() -> None:
    run = fail(after_failures(1, Tier.PERSISTENT), Tier.TRANSIENT, "reset", 0.0, SETTINGS)
    run = fail(run, Tier.TRANSIENT, "reset", 0.0, SETTINGS)
    assert (run.state, run.tier, run.until) == (State.ISOLATED, Tier.PERSISTENT, 1800.0)


def test_an_old_out_of_memory_does_not_lengthen_a_later_isolation() -> None:
    healed = after_successes(1, after_failures(1, Tier.PERSISTENT))
    assert after_failures(3, Tier.TRANSIENT, start=healed).until == 300.0


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_a_hardware_error_faults_from_any_state(failures: int) -> None:
    assert after_failures(1, Tier.HARDWARE, start=after_failures(failures)).state is State.FAULTED


def test_faulted_is_for_ever() -> None:
    faulted = after_failures(1, Tier.HARDWARE)
    assert tick(after_successes(100, after_failures(3, start=faulted)), 10**12) == faulted


def test_what_still_arrives_during_an_isolation_neither_ends_nor_prolongs_it() -> None:
    isolated = after_failures(3, now=0.0)
    assert after_successes(20, isolated) == isolated
    assert after_failures(5, Tier.PERSISTENT, now=200.0, start=isolated) == isolated


def test_every_number_is_configurable() -> None:
    settings = BreakerSettings(degrade_after=2, isolate_after=4, recover_after=3, transient_cooldown_s=7)
    breaker, states = NEW, []
    for _ in range(4):
        breaker = fail(breaker, Tier.TRANSIENT, "x", 0.0, settings)
        states.append(breaker.state.value)
    assert states == ["Healthy", "Degraded", "Degraded", "Isolated"]
    assert breaker.until == 7.0


STEPS: dict[str, Callable[[Breaker, float], Breaker]] = {
    "succeed": lambda b, _: succeed(b, SETTINGS),
    "tick": tick,
    **{t.value: lambda b, now, t=t: fail(b, t, "x", now, SETTINGS) for t in Tier},  # type: ignore[misc]  # mypy infers no lambda with a default
}


@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.floats(0, 500)), max_size=60))
def test_whatever_happens_only_the_drawn_transitions_occur(steps: list[tuple[str, float]]) -> None:
    allowed = {
        ("Healthy", "Degraded"),
        ("Degraded", "Healthy"),
        ("Degraded", "Isolated"),
        ("Isolated", "Healthy"),
        ("Healthy", "Faulted"),
        ("Degraded", "Faulted"),
        ("Isolated", "Faulted"),
    }
    breaker, now = NEW, 0.0
    for step, later in steps:
        now += later
        after = STEPS[step](breaker, now)
        assert after.state is breaker.state or (breaker.state.value, after.state.value) in allowed
        assert (after.state is State.ISOLATED) == (after.until is not None)
        breaker = after
