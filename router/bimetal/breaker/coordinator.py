"""The coordinator: what is true of every backend, from outcomes, probes and people. No I/O; times are the caller's."""

from collections.abc import Mapping
from dataclasses import replace

from bimetal.breaker.breaker import NEW, Breaker, Tier, fail, succeed, tick
from bimetal.breaker.outcome import Effect, Outcome
from bimetal.breaker.shared import UNKNOWN, Shared
from bimetal.fleet.settings import BreakerSettings
from bimetal.state.event import Event, storable


class Coordinator:
    """Holds what is true of every backend; each change of a breaker's state, drain or reachability is an event.

    A server that dies breaks every connection to it at once. That is one incident and counts as one failure, whichever
    gateway counts it: further lost connections are not counted until a probe has reached the server again.
    """

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._shared: dict[str, Shared] = {}
        self._lost: set[str] = set()

    @property
    def shared(self) -> Mapping[str, Shared]:
        """What is true, by backend; nothing is known of a missing one."""
        return self._shared

    @property
    def breakers(self) -> Mapping[str, Breaker]:
        """Breaker by backend; a missing one is new."""
        return {name: shared.breaker for name, shared in self._shared.items()}

    @property
    def drained(self) -> frozenset[str]:
        """Backends that a person wants empty."""
        return frozenset(name for name, shared in self._shared.items() if shared.drained.on)

    def heard(self, backend: str, outcome: Outcome, now: float) -> list[Event]:
        """Take in what became of one try; the events that follow, mostly none."""
        before = self._of(backend)
        if outcome.effect is Effect.SUCCESS:
            breaker = succeed(before.breaker, self._settings)
            return [] if breaker is before.breaker else self._become(backend, replace(before, breaker=breaker), now)
        if outcome.effect is Effect.LOST:
            if backend in self._lost:
                return []
            self._lost.add(backend)
        if outcome.effect in {Effect.LOST, Effect.FAILURE}:
            tier = outcome.tier or Tier.TRANSIENT
            breaker = fail(before.breaker, tier, storable(outcome.reason), now, self._settings)
            counted = breaker is not before.breaker
            return self._become(backend, replace(before, breaker=breaker, incidents=before.incidents + counted), now)
        return []

    def probed(self, backend: str, error: str | None, now: float) -> list[Event]:
        """Take in a probe. `error` None: it reached the backend, and the next lost connection is a new incident."""
        before = self._of(backend)
        if error is None:
            self._lost.discard(backend)
        after = replace(before, reached=before.reached.turned(error is None))
        self._shared[backend] = after
        if after == before:
            return []
        text = "reachable" if error is None else f"unreachable: {storable(error)}"
        return [Event(now, backend, "probe", text, key=f"reached {after.reached.turns}")]

    def tick(self, now: float) -> list[Event]:
        """End the isolations whose cool-down is over."""
        ticked = [(name, replace(s, breaker=tick(s.breaker, now))) for name, s in self._shared.items()]
        return [event for name, shared in ticked for event in self._become(name, shared, now)]

    def clear(self, backend: str, now: float) -> list[Event]:
        """A person declares the backend well, whatever its breaker says here or at a gateway that is not heard now."""
        before = self._of(backend)
        after = replace(before, breaker=NEW, clears=before.clears + 1)
        self._shared[backend] = after
        was = "" if before.breaker.state is NEW.state else f"{before.breaker.state} → {NEW.state}: "
        return [Event(now, backend, "breaker", f"{was}cleared by a person", key=f"clear {after.clears}")]

    def drain(self, backend: str, drained: bool, now: float) -> list[Event]:
        """A person wants the backend empty, or no longer so."""
        before = self._of(backend)
        if bool(before.drained.on) is drained:
            return []
        after = replace(before, drained=before.drained.turned(drained))
        self._shared[backend] = after
        text = "drained by a person" if drained else "drain ended by a person"
        return [Event(now, backend, "drain", text, key=f"drain {after.drained.turns}")]

    def adopt(self, backend: str, shared: Shared) -> None:
        """Take over what is true since another gateway, or an earlier run, has spoken."""
        if shared.incidents > self._of(backend).incidents:
            # It may be the incident whose broken connections are about to be reported here.
            self._lost.add(backend)
        self._shared[backend] = shared

    def _of(self, backend: str) -> Shared:
        return self._shared.get(backend, UNKNOWN)

    def _become(self, backend: str, after: Shared, now: float) -> list[Event]:
        before = self._of(backend).breaker
        self._shared[backend] = after
        if before.state is after.breaker.state:
            return []
        text = f"{before.state} → {after.breaker.state}"
        key = f"breaker {after.clears}.{after.incidents} {after.breaker.state}"
        reason = after.breaker.reason
        return [Event(now, backend, "breaker", f"{text}: {reason}" if reason else text, key=key)]
