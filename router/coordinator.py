"""The coordinator: turns outcomes into breaker states, once per incident. No I/O; times come from the caller."""

from collections.abc import Mapping

from router.feedback.outcome import Effect, Outcome
from router.fleet import BreakerSettings
from router.policy.breaker import NEW, Breaker, State, Tier, fail, succeed, tick
from router.store import Event


class Coordinator:
    """Holds the breaker of every backend.

    A server that dies breaks every connection to it at once. That is one incident and counts as one failure: further
    lost connections are not counted until a probe has reached the server again.

    """

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._breakers: dict[str, Breaker] = {}
        self._lost: set[str] = set()

    @property
    def breakers(self) -> Mapping[str, Breaker]:
        """Breaker by backend; a missing one is new."""
        return self._breakers

    def heard(self, backend: str, outcome: Outcome, now: float) -> list[Event]:
        """Take in what became of one try; the events that follow, mostly none."""
        before = self._breakers.get(backend, NEW)
        if outcome.effect is Effect.SUCCESS:
            return self._become(backend, succeed(before, self._settings), now)
        if outcome.effect is Effect.LOST:
            if backend in self._lost:
                return []
            self._lost.add(backend)
        if outcome.effect in {Effect.LOST, Effect.FAILURE}:
            after = fail(before, outcome.tier or Tier.TRANSIENT, outcome.reason, now, self._settings)
            return self._become(backend, after, now)
        return []

    def recall(self, remembered: Mapping[str, Breaker]) -> None:
        """Take over what the store remembers, except where something newer has been heard."""
        for name, breaker in remembered.items():
            if self._breakers.get(name, NEW) == NEW or breaker.state is State.FAULTED:
                self._breakers[name] = breaker

    def reached(self, backend: str) -> None:
        """A probe has reached the backend: the next lost connection is a new incident."""
        self._lost.discard(backend)

    def tick(self, now: float) -> list[Event]:
        """End the isolations whose cool-down is over."""
        return [e for name, b in list(self._breakers.items()) for e in self._become(name, tick(b, now), now)]

    def clear(self, backend: str, now: float) -> list[Event]:
        """A person declares the backend well, whatever its breaker says."""
        return self._become(backend, NEW, now, why="cleared by a person")

    def _become(self, backend: str, after: Breaker, now: float, why: str = "") -> list[Event]:
        before = self._breakers.get(backend, NEW)
        self._breakers[backend] = after
        if before.state is after.state:
            return []
        text = f"{before.state} → {after.state}"
        reason = why or after.reason
        return [Event(now, backend, "breaker", f"{text}: {reason}" if reason else text)]
