"""From outcomes to breakers: one incident, one failure; every transition an event."""

from router.coordinator import Coordinator
from router.feedback.outcome import Effect, Outcome
from router.fleet import BreakerSettings
from router.policy.breaker import NEW, Breaker, State, Tier

LOST = Outcome(Effect.LOST, Tier.TRANSIENT, "reset")
TIMEOUT = Outcome(Effect.FAILURE, Tier.TRANSIENT, "no answer")
GOOD = Outcome(Effect.SUCCESS)


def coordinator(**breakers: Breaker) -> Coordinator:
    made = Coordinator(BreakerSettings())
    made.recall(breakers)
    return made


def state(it: Coordinator) -> State:
    return it.breakers.get("a", NEW).state


def test_a_server_that_dies_with_many_requests_in_flight_is_one_failure() -> None:
    it = coordinator()
    for _ in range(50):
        it.heard("a", LOST, 0.0)
    assert state(it) is State.DEGRADED


def test_a_server_that_breaks_every_request_but_answers_probes_is_isolated() -> None:
    it = coordinator()
    for _ in range(3):
        it.heard("a", LOST, 0.0)
        it.reached("a")
    assert state(it) is State.ISOLATED


def test_other_failures_count_each() -> None:
    it = coordinator()
    for _ in range(3):
        it.heard("a", TIMEOUT, 0.0)
    assert state(it) is State.ISOLATED


def test_one_backend_says_nothing_about_another() -> None:
    it = coordinator()
    for _ in range(3):
        it.heard("b", TIMEOUT, 0.0)
    assert state(it) is State.HEALTHY


def test_each_transition_is_one_event_in_words() -> None:
    it = coordinator()
    events = [e for _ in range(5) for e in it.heard("a", TIMEOUT, 7.0)]
    assert [e.text for e in events] == ["Healthy → Degraded: no answer", "Degraded → Isolated: no answer"]
    assert {(e.at, e.backend, e.kind) for e in events} == {(7.0, "a", "breaker")}


def test_time_ends_an_isolation_and_says_so() -> None:
    it = coordinator(a=Breaker(State.ISOLATED, 3, tier=Tier.TRANSIENT, until=100.0))
    assert it.tick(99.9) == []
    assert [e.text for e in it.tick(100.0)] == ["Isolated → Healthy"]


def test_a_person_clears_a_fault_and_nothing_else_does() -> None:
    it = coordinator(a=Breaker(State.FAULTED, 1, tier=Tier.HARDWARE, reason="ECC"))
    it.tick(10.0**10)
    it.heard("a", GOOD, 0.0)
    assert state(it) is State.FAULTED
    assert [e.text for e in it.clear("a", 0.0)] == ["Faulted → Healthy: cleared by a person"]


def test_what_the_store_remembers_gives_way_to_what_was_heard_since_except_a_fault() -> None:
    it = coordinator()
    for backend in ("a", "b"):
        it.heard(backend, TIMEOUT, 0.0)
    isolated = Breaker(State.ISOLATED, 3, tier=Tier.TRANSIENT, until=9.0)
    faulted = Breaker(State.FAULTED, 1, tier=Tier.HARDWARE)
    it.recall({"a": isolated, "b": faulted, "c": isolated})
    assert [it.breakers[n].state for n in "abc"] == [State.DEGRADED, State.FAULTED, State.ISOLATED]


def test_neutral_outcomes_change_nothing() -> None:
    it = coordinator()
    for effect in (Effect.NEUTRAL, Effect.MOVED):
        assert it.heard("a", Outcome(effect), 0.0) == []
    assert it.breakers.get("a", NEW) == NEW
