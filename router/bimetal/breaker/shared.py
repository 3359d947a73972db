"""What all gateways of a cluster hold to be true of one backend, and how two opinions become one. Pure.

Each gateway goes on from the last row that it saw in the store (`base`); meanwhile another may have changed that row.
`merge` says what is true then. In order:

1. A person's `clear` wins over everything that was said without knowing of it.
2. A failure wins over a recovery; of two failures, the one that leaves the worse state. Two that leave the same are one
   incident that both gateways saw, and count once.
3. Without a failure on either side the better state is true: the other gateway saw it recover.

Drains and reachability are switches: the position that was turned more often is the newer one.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from bimetal.breaker.breaker import NEW, SEVERITY, Breaker, State


class Switch(NamedTuple):
    """What anybody may turn on and off; `on` is None until somebody did."""

    turns: int
    on: bool | None

    def turned(self, on: bool) -> "Switch":
        """The switch in that position."""
        return self if self.on is on else Switch(self.turns + 1, on)


UNTOUCHED = Switch(0, None)


@dataclass(frozen=True)
class Shared:
    """One backend.

    Attributes:
        incidents: failures that its breaker has counted, ever.
        clears: how often a person declared it well.
        drained: whether a person wants it empty.
        reached: whether probes reach it, as the gateway says that last saw it change. For the timeline only: the table
            goes by each gateway's own probes.
    """

    breaker: Breaker = NEW
    incidents: int = 0
    clears: int = 0
    drained: Switch = UNTOUCHED
    reached: Switch = UNTOUCHED


UNKNOWN = Shared()


def alike(one: Shared, other: Shared) -> bool:
    """Whether they are the same for everybody: each gateway counts its own run of successes."""
    return _same(one.breaker, other.breaker) and replace(one, breaker=NEW) == replace(other, breaker=NEW)


def _same(one: Breaker, other: Breaker) -> bool:
    return replace(one, successes=0) == replace(other, successes=0)


def merge(base: Shared | None, ours: Shared, theirs: Shared) -> Shared:
    """What is true now.

    Args:
        base: what ours was made from; None if the store was never read.
        theirs: what the store holds now.
    """
    if base is None:
        return _carried_over(UNKNOWN, ours, theirs)
    return replace(
        _merge_breakers(base, ours, theirs),
        drained=max(ours.drained, theirs.drained),
        reached=max(ours.reached, theirs.reached),
    )


def news(base: Shared | None, ours: Shared, held: Shared) -> Shared | None:
    """What is to be written over what the store holds; None if that is all true already."""
    true = merge(base, ours, held)
    return None if alike(true, held) else true


def caught_up(sent: Shared, ours: Shared, held: Shared) -> Shared:
    """What is true here after an exchange.

    Args:
        sent: what ours was when the exchange began.
        ours: what it has become since.
        held: what the store holds now that `sent` was merged in.
    """
    return _carried_over(sent, ours, held)


def _merge_breakers(base: Shared, ours: Shared, theirs: Shared) -> Shared:
    if _history(theirs) < _history(base):
        return ours  # the store was emptied, or restored from an older copy
    if ours.clears != theirs.clears:
        return max(ours, theirs, key=_history)
    we_saw, they_saw = ours.incidents > base.incidents, theirs.incidents > base.incidents
    if we_saw and they_saw:
        return _worse(ours, theirs, new=ours.incidents - base.incidents)
    if we_saw or they_saw:
        return ours if we_saw else theirs
    return max(theirs, ours, key=_wellness)  # theirs, if they are equal: or two gateways would write for ever


def _carried_over(since: Shared, ours: Shared, onto: Shared) -> Shared:
    """What happened here since ours was `since`, as if it had happened to `onto`."""
    failures, clears = ours.incidents - since.incidents, ours.clears - since.clears
    if clears:
        true = replace(ours, incidents=onto.incidents + failures, clears=onto.clears + clears)
    elif failures:
        true = _worse(ours, onto, new=failures)
    elif _same(since.breaker, onto.breaker):
        true = replace(onto, breaker=ours.breaker)  # it recovered, or counts successes
    else:
        true = onto
    return replace(
        true,
        drained=_turned_since(since.drained, ours.drained, onto.drained),
        reached=_turned_since(since.reached, ours.reached, onto.reached),
    )


def _turned_since(since: Switch, ours: Switch, onto: Switch) -> Switch:
    if ours == since or ours.on is onto.on:
        return onto
    return Switch(onto.turns + ours.turns - since.turns, ours.on)


def _worse(ours: Shared, theirs: Shared, new: int) -> Shared:
    """Theirs unless ours is worse; ours then counts on from theirs, so that every gateway sees it as a new failure."""
    if _badness(ours.breaker) <= _badness(theirs.breaker):
        return theirs
    return replace(theirs, breaker=ours.breaker, incidents=theirs.incidents + new)


def _history(shared: Shared) -> tuple[int, int]:
    return shared.clears, shared.incidents


_ORDER = {state: place for place, state in enumerate(State)}


def _badness(breaker: Breaker) -> tuple[int, int, int]:
    return _ORDER[breaker.state], breaker.failures, SEVERITY[breaker.tier] if breaker.tier else -1


def _wellness(shared: Shared) -> tuple[int, ...]:
    return *(-part for part in _badness(shared.breaker)), shared.breaker.successes
