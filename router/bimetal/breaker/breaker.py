"""The circuit breaker of one backend, in tiers.

    Healthy  --1 failure (a time-out, say)-->  Degraded
    Degraded --10 successes in a row------->  Healthy
    Degraded --3 failures in a row--------->  Isolated
    Isolated --its cool-down ends---------->  Healthy
    any      --a hardware error------------>  Faulted, until a person clears it

A run of failures keeps its worst tier, and the tier sets the cool-down: transient 5 minutes, persistent
(out of memory) 30 minutes, hardware (ECC) for ever. Numbers come from `BreakerSettings`. A breaker is a value:
`succeed`, `fail` and `tick` return the next one. Times are seconds of an injected wall clock, because a cool-down must
survive a restart of the router.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from bimetal.fleet.settings import BreakerSettings


class State(StrEnum):
    """What the breaker lets through: all, a reduced weight, nothing for a while, nothing until cleared."""

    HEALTHY = "Healthy"
    DEGRADED = "Degraded"
    ISOLATED = "Isolated"
    FAULTED = "Faulted"


class Tier(StrEnum):
    """How long a failure is expected to last."""

    TRANSIENT = "transient"
    PERSISTENT = "persistent"
    HARDWARE = "hardware"


SEVERITY = {Tier.TRANSIENT: 0, Tier.PERSISTENT: 1, Tier.HARDWARE: 2}


@dataclass(frozen=True)
class Breaker:
    """One backend's breaker.

    Attributes:
        failures: failures since the last success.
        successes: successes since the last failure; counted while Degraded.
        tier: worst tier of the current run of failures, or of the isolation; None without one.
        until: wall-clock second at which Isolated ends; None in other states.
        reason: what the last failure said; "" without one.
    """

    state: State = State.HEALTHY
    failures: int = 0
    successes: int = 0
    tier: Tier | None = None
    until: float | None = None
    reason: str = ""


NEW = Breaker()
"""A breaker without history; also what every recovery returns to."""


def succeed(breaker: Breaker, settings: BreakerSettings) -> Breaker:
    """The breaker after a request succeeded. Isolated and Faulted do not listen: stragglers prove nothing."""
    if breaker.state in {State.ISOLATED, State.FAULTED}:
        return breaker
    if breaker.state is State.HEALTHY:
        return NEW if breaker.failures else breaker
    successes = breaker.successes + 1
    if successes >= settings.recover_after:
        return NEW
    return replace(breaker, failures=0, successes=successes)


def fail(breaker: Breaker, tier: Tier, reason: str, now: float, settings: BreakerSettings) -> Breaker:
    """The breaker after a failure of `tier` at `now` that said `reason`."""
    if breaker.state is State.FAULTED:
        return breaker
    if tier is Tier.HARDWARE:
        return Breaker(State.FAULTED, failures=breaker.failures + 1, tier=tier, reason=reason)
    if breaker.state is State.ISOLATED:
        return breaker
    failures = breaker.failures + 1
    run = breaker.tier if breaker.failures and breaker.tier else tier
    worst = max(run, tier, key=SEVERITY.__getitem__)
    if failures >= settings.isolate_after:
        cooldown = settings.persistent_cooldown_s if worst is Tier.PERSISTENT else settings.transient_cooldown_s
        return Breaker(State.ISOLATED, failures, tier=worst, until=now + cooldown, reason=reason)
    degraded = breaker.state is State.DEGRADED or failures >= settings.degrade_after
    return Breaker(State.DEGRADED if degraded else State.HEALTHY, failures, tier=worst, reason=reason)


def tick(breaker: Breaker, now: float) -> Breaker:
    """The breaker as time passes: an isolation whose cool-down has ended is over."""
    if breaker.state is State.ISOLATED and breaker.until is not None and now >= breaker.until:
        return NEW
    return breaker
