"""Two gateways and one truth: what is merged, and that they agree in the end whatever happened in between."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bimetal.breaker.breaker import NEW, Breaker, State, Tier
from bimetal.breaker.coordinator import Coordinator
from bimetal.breaker.outcome import Effect, Outcome
from bimetal.breaker.shared import Shared, Switch, alike, caught_up, merge, news
from bimetal.fleet.settings import BreakerSettings

DEGRADED = Breaker(State.DEGRADED, 1, tier=Tier.TRANSIENT, reason="reset")
ISOLATED = Breaker(State.ISOLATED, 3, tier=Tier.TRANSIENT, until=300.0, reason="no answer")
FAULTED = Breaker(State.FAULTED, 1, tier=Tier.HARDWARE, reason="ECC")


def test_one_incident_seen_by_both_counts_once_whatever_each_says_of_it() -> None:
    """litellm 871 had a failure counted by each thread of its own."""
    ours, theirs = Shared(DEGRADED, incidents=1), Shared(replace(DEGRADED, reason="closed"), incidents=1)
    assert merge(Shared(), ours, theirs) == theirs


def test_the_worse_of_two_failures_is_true_and_new_to_the_other() -> None:
    ours, theirs = Shared(FAULTED, incidents=5), Shared(DEGRADED, incidents=5)
    assert merge(Shared(incidents=4), ours, theirs) == Shared(FAULTED, incidents=6)
    assert merge(Shared(incidents=4), theirs, ours) == ours


def test_a_failure_is_not_lost_to_a_recovery_that_did_not_know_of_it() -> None:
    base = Shared(DEGRADED, incidents=1)
    recovered, failed = Shared(NEW, incidents=1), Shared(FAULTED, incidents=2)
    assert merge(base, failed, recovered) == merge(base, recovered, failed) == failed


def test_what_another_gateway_saw_recover_is_well() -> None:
    base = Shared(ISOLATED, incidents=3)
    assert merge(base, base, Shared(NEW, incidents=3)).breaker == NEW
    assert merge(base, Shared(NEW, incidents=3), base).breaker == NEW


@pytest.mark.parametrize("breaker", [NEW, DEGRADED, ISOLATED, FAULTED])
def test_a_person_s_clear_wins_over_older_states(breaker: Breaker) -> None:
    base = Shared(FAULTED, incidents=1)
    cleared, older = Shared(NEW, incidents=1, clears=1), Shared(breaker, incidents=7)
    assert merge(base, cleared, older) == merge(base, older, cleared) == cleared


def test_a_failure_after_the_clear_is_true() -> None:
    again = Shared(FAULTED, incidents=2, clears=1)
    assert merge(Shared(FAULTED, incidents=1), again, Shared(NEW, incidents=1, clears=1)) == again


def test_the_last_word_on_a_drain_is_true() -> None:
    drained, undrained = Shared(drained=Switch(1, True)), Shared(drained=Switch(2, False))
    assert merge(Shared(), drained, undrained) == merge(Shared(), undrained, drained) == undrained


@pytest.mark.parametrize("theirs", [Shared(FAULTED, incidents=9, clears=2), Shared(NEW, incidents=9, clears=2)])
def test_what_was_heard_before_the_store_was_read_is_added_to_it(theirs: Shared) -> None:
    heard = Shared(FAULTED, incidents=1, drained=Switch(1, True), reached=Switch(1, True))
    true = merge(None, heard, replace(theirs, drained=Switch(4, False), reached=Switch(3, True)))
    assert (true.breaker, true.clears) == (FAULTED, 2)
    assert true.drained == Switch(5, True)
    assert true.reached == Switch(3, True)


def test_a_clear_before_the_store_was_read_clears_what_it_holds() -> None:
    true = merge(None, Shared(clears=1), Shared(FAULTED, incidents=9, clears=2))
    assert (true.breaker, true.clears) == (NEW, 3)


@pytest.mark.parametrize("restored", [Shared(), Shared(NEW, incidents=3)])
def test_a_store_restored_from_an_older_copy_forgets_nothing(restored: Shared) -> None:
    known = Shared(FAULTED, incidents=4, drained=Switch(1, True))
    assert merge(known, known, restored) == known


def test_each_gateway_counts_its_own_run_of_successes() -> None:
    base = Shared(replace(DEGRADED, failures=0), incidents=1)
    counting = replace(base, breaker=replace(base.breaker, successes=7))
    assert alike(base, counting)
    assert merge(base, counting, base) == counting


# Two gateways in any order of everything that can happen.

SETTINGS = BreakerSettings(recover_after=2, transient_cooldown_s=10, persistent_cooldown_s=20)
OUTCOMES = [
    Outcome(Effect.SUCCESS),
    Outcome(Effect.LOST, Tier.TRANSIENT, "reset"),
    Outcome(Effect.FAILURE, Tier.TRANSIENT, "no answer"),
    Outcome(Effect.FAILURE, Tier.PERSISTENT, "out of memory"),
    Outcome(Effect.FAILURE, Tier.HARDWARE, "ECC"),
]


@dataclass
class Gateway:
    """A coordinator of one backend, and its exchange with a row in three steps, as threads and networks allow them."""

    row: list[Shared]
    name: str
    coordinator: Coordinator = field(default_factory=lambda: Coordinator(SETTINGS))
    base: Shared | None = None
    sent: Shared | None = None
    answer: Shared | None = None

    @property
    def ours(self) -> Shared:
        return self.coordinator.shared.get("a", Shared())

    def hear(self, outcome: Outcome, now: float) -> None:
        # Each words it in its own way, as gateways do.
        said = replace(outcome, reason=f"{outcome.reason} at {self.name}") if outcome.reason else outcome
        self.coordinator.heard("a", said, now)

    def ask(self) -> None:
        if self.sent is None:
            self.sent = self.ours

    def write(self) -> None:
        if self.sent is not None and self.answer is None:
            self.row[0] = news(self.base, self.sent, self.row[0]) or self.row[0]
            self.answer = self.row[0]

    def take(self) -> None:
        if self.sent is not None and self.answer is not None:
            true = caught_up(self.sent, self.ours, self.answer)
            if not alike(true, self.ours):
                self.coordinator.adopt("a", true)
            self.base, self.sent, self.answer = self.answer, None, None

    def exchange(self) -> None:
        self.take()
        self.ask()
        self.write()
        self.take()


acts = st.one_of(
    st.sampled_from(OUTCOMES),
    st.sampled_from(["clear", "drain", "undrain", "ask", "write", "take", "exchange", "reached", "unreached", "wait"]),
)


def perform(gateway: Gateway, act: Outcome | str, now: float) -> None:
    it = gateway.coordinator
    if isinstance(act, Outcome):
        gateway.hear(act, now)
        return
    steps: dict[str, Callable[[], object]] = {
        "clear": lambda: it.clear("a", now),
        "drain": lambda: it.drain("a", True, now),
        "undrain": lambda: it.drain("a", False, now),
        "reached": lambda: it.probed("a", None, now),
        "unreached": lambda: it.probed("a", "refused", now),
        "wait": lambda: it.tick(now),
        "ask": gateway.ask,
        "write": gateway.write,
        "take": gateway.take,
        "exchange": gateway.exchange,
    }
    steps[act]()


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.booleans(), acts), max_size=40))
def test_two_gateways_agree_whatever_happened_and_in_which_order(steps: list[tuple[bool, Outcome | str]]) -> None:
    row = [Shared()]
    pair = [Gateway(row, "one"), Gateway(row, "two")]
    now, faulted, cleared = 0.0, False, False
    for second, act in steps:
        now += 3 * (act == "wait")
        perform(pair[second], act, now)
        faulted |= act is OUTCOMES[-1]
        cleared |= act == "clear"
    for gateway in pair * 3:  # the first ends one that was begun; the last tells each what the other has written
        gateway.exchange()
    assert alike(pair[0].ours, pair[1].ours)
    assert alike(pair[0].ours, row[0])
    before = row[0]
    for gateway in pair:
        gateway.exchange()
    assert row[0] is before, "they are at rest: nobody writes any more"
    if faulted and not cleared:
        assert row[0].breaker.state is State.FAULTED
