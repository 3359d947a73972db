"""From outcomes to breakers: one incident, one failure; every transition an event."""

from bimetal.breaker.breaker import NEW, Breaker, State, Tier
from bimetal.breaker.coordinator import Coordinator
from bimetal.breaker.outcome import Effect, Outcome
from bimetal.breaker.shared import Shared
from bimetal.fleet.settings import BreakerSettings

LOST = Outcome(Effect.LOST, Tier.TRANSIENT, "reset")
TIMEOUT = Outcome(Effect.FAILURE, Tier.TRANSIENT, "no answer")
GOOD = Outcome(Effect.SUCCESS)


def coordinator(**breakers: Breaker) -> Coordinator:
    made = Coordinator(BreakerSettings())
    for name, breaker in breakers.items():
        made.adopt(name, Shared(breaker))
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
        it.probed("a", None, 0.0)
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


def test_an_incident_that_another_gateway_has_counted_is_not_counted_again() -> None:
    it = coordinator()
    it.adopt("a", Shared(Breaker(State.DEGRADED, 1, tier=Tier.TRANSIENT), incidents=1))
    assert it.heard("a", LOST, 0.0) == []
    assert it.shared["a"].incidents == 1
    it.probed("a", None, 1.0)
    it.heard("a", LOST, 2.0)
    assert it.shared["a"].incidents == 2


def test_two_gateways_word_one_incident_differently_and_give_it_one_key() -> None:
    one, other = coordinator(), coordinator()
    for it, outcome in ((one, LOST), (other, Outcome(Effect.LOST, Tier.TRANSIENT, "closed"))):
        it.probed("a", None, 0.0)
        it.heard("a", outcome, 1.0)
        it.probed("a", outcome.reason, 1.0)
    assert [e.key for e in one.probed("a", None, 2.0)] == [e.key for e in other.probed("a", None, 2.0)] != [None]
    assert [e.key for e in one.heard("a", TIMEOUT, 3.0)] == []
    assert [e.key for e in one.heard("a", TIMEOUT, 4.0)] == ["breaker 0.3 Isolated"]


def test_a_probe_is_an_event_when_it_finds_something_else_than_the_last() -> None:
    it = coordinator()
    events = [e for error in (None, None, "refused", "timed out", None) for e in it.probed("a", error, 0.0)]
    assert [e.text for e in events] == ["reachable", "unreachable: refused", "reachable"]


def test_a_drain_is_an_event_and_ends_with_one() -> None:
    it = coordinator()
    events = [e for drained in (False, True, True, False) for e in it.drain("a", drained, 0.0)]
    assert [e.text for e in events] == ["drained by a person", "drain ended by a person"]
    assert it.drained == frozenset()


def test_a_clear_of_what_is_well_here_is_still_said_for_the_other_gateways() -> None:
    it = coordinator()
    assert [e.text for e in it.clear("a", 0.0)] == ["cleared by a person"]
    assert it.shared["a"].clears == 1


def test_neutral_outcomes_change_nothing() -> None:
    it = coordinator()
    for effect in (Effect.NEUTRAL, Effect.MOVED):
        assert it.heard("a", Outcome(effect), 0.0) == []
    assert it.breakers.get("a", NEW) == NEW
