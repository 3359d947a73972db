"""The circle: observe → decide → publish. The one place where the parts meet."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from router.calibration import CalibrationBook
from router.coordinator import Coordinator
from router.errors import StoreError, UnknownBackendError
from router.feedback.outcome import Effect, Try, classify
from router.feedback.tally import Tally
from router.fleet import Fleet
from router.fleet_state import FleetState, absorb, warm
from router.learning.keeper import Keeper
from router.observation import Observation, ThermalReading
from router.policy.breaker import Breaker
from router.policy.table import RoutingTable, decide
from router.policy.weights import load_factor, temperature_factor
from router.scores import ScoreBook
from router.store import Event, Remembered, Store

log = structlog.get_logger(__name__)

_TICK_S = 0.25
_SCORES_EVERY_S = 5.0
_MOST_DECISIONS_PER_S = 20
_MOST_UNSAVED = 1000


class Circle:
    """Holds the newest of everything and keeps the published table true to it.

    Args:
        publish: called after each decision that changed the table.
        look_again: asks for a probe of one backend now.
        clock: Unix time in seconds.
    """

    def __init__(
        self,
        fleet: Fleet,
        store: Store,
        publish: Callable[[], Awaitable[None]],
        look_again: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self.fleet = fleet
        self.state = FleetState()
        self.table = RoutingTable()
        self.store_error: str | None = None
        self.decided = False
        self.tally = Tally()
        self._store = store
        self._publish = publish
        self._look_again = look_again
        self._clock = clock
        self._scores = ScoreBook(fleet)
        self._calibrations = CalibrationBook(fleet)
        self._unsaved: list[Event] = []
        self._changed = asyncio.Event()
        self._coordinator = Coordinator(fleet.breaker)
        self._keeper = Keeper(fleet, store, self._note, clock)
        self._drained: frozenset[str] = frozenset()
        self._recalled = False

    @property
    def breakers(self) -> Mapping[str, Breaker]:
        """Breaker by backend; a missing one is new."""
        return self._coordinator.breakers

    def observed(self, new: Observation) -> None:
        """Take in a probe's finding."""
        before = self.state.observations.get(new.backend)
        self.state = absorb(self.state, new)
        if new.reachable:
            self._coordinator.reached(new.backend)
        if before is None or self._matters(before, new):
            self._changed.set()
        if before is None or before.reachable != new.reachable:
            text = "reachable" if new.reachable else f"unreachable: {new.error}"
            self._note([Event(self._clock(), new.backend, "probe", text)])

    def felt(self, new: ThermalReading) -> None:
        """Take in how hot a backend's devices are."""
        before = self._temperature_factor(new.backend)
        self.state = warm(self.state, new)
        if before != self._temperature_factor(new.backend):
            self._changed.set()

    def tried(self, tries: list[Try], entries: int = 0) -> None:
        """Take in what became of tries, which were in so many entries of the access log."""
        self.tally.entries += entries
        self._keeper.hear([t for t in tries if self._tells_a_time(t)], self._waiting)
        for attempt in tries:
            outcome = classify(attempt)
            if outcome.effect in {Effect.LOST, Effect.MOVED}:
                self._look_again(attempt.backend)
            self.tally.take(attempt, outcome, self._clock())
            self._note(self._coordinator.heard(attempt.backend, outcome, self._clock()))

    @property
    def drained(self) -> frozenset[str]:
        """Backends that a person wants empty."""
        return self._drained

    def clear(self, backend: str) -> None:
        """A person declares a backend well. Raises UnknownBackendError."""
        self._check_name(backend)
        self._note(self._coordinator.clear(backend, self._clock()))

    def drain(self, backend: str) -> None:
        """No new request for this backend until `undrain`. Raises UnknownBackendError."""
        self._set_drained(backend, self._drained | {backend}, "drained by a person")

    def undrain(self, backend: str) -> None:
        """The backend gets its share again. Raises UnknownBackendError."""
        self._set_drained(backend, self._drained - {backend}, "drain ended by a person")

    def _set_drained(self, backend: str, drained: frozenset[str], text: str) -> None:
        self._check_name(backend)
        if drained != self._drained:
            self._drained = drained
            self._note([Event(self._clock(), backend, "drain", text)])

    def _check_name(self, backend: str) -> None:
        names = [b.name for b in self.fleet.backends]
        if backend not in names:
            raise UnknownBackendError(f"no backend is named {backend!r}; there are {', '.join(names)}.")

    async def run(self) -> None:
        """Decide and publish whenever something changed, until cancelled; what is unsaved then is saved."""
        await self._save()
        await self._keeper.recall()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_time())
                tasks.create_task(self._keep_scores())
                tasks.create_task(self._keeper.run())
                await self._first_round()
                while True:
                    await self._changed.wait()
                    self._changed.clear()
                    await self._decide()
                    await asyncio.sleep(1 / _MOST_DECISIONS_PER_S)
        finally:
            await self._save()

    async def _first_round(self) -> None:
        """Wait until every backend was probed and its models scored, so that a restart moves no share."""
        while len(self.state.observations) < len(self.fleet.backends):
            await self._changed.wait()
            self._changed.clear()
        await self._scores.refresh(self.state, self._keeper.learned)
        await self._calibrations.refresh()
        self._changed.set()

    async def _decide(self) -> None:
        scores, beliefs = self._scores.scores, self._keeper.beliefs
        bandwidths = self._calibrations.bandwidths
        new = decide(
            self.fleet, self.state, self.breakers, scores, self._drained, beliefs=beliefs, bandwidths=bandwidths
        )
        if new != self.table or not self.decided:
            self.table, self.decided = new, True
            await self._publish()
        await self._save()

    async def _keep_time(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._note(self._coordinator.tick(self._clock()))
            if self._unsaved or not self._recalled:
                self._changed.set()  # the store was down: try again

    async def _keep_scores(self) -> None:
        while True:
            await asyncio.sleep(_SCORES_EVERY_S)
            if await self._scores.refresh(self.state, self._keeper.learned) | await self._calibrations.refresh():
                self._changed.set()

    def _matters(self, before: Observation, new: Observation) -> bool:
        half = self.fleet.policy.pending_half
        return (
            before.error != new.error
            or before.models != new.models
            or load_factor(before.pending, half) != load_factor(new.pending, half)
        )

    def _temperature_factor(self, backend: str) -> float:
        return temperature_factor(self.state.thermal_margins.get(backend), self.fleet.policy.cool_margin_c)

    def _tells_a_time(self, attempt: Try) -> bool:
        """A stream lasts as long as its client wishes, and what is stateful is not moved by times."""
        served = self.state.served(attempt.backend, attempt.model)
        return served is not None and not served.decoupled and not served.stateful

    def _waiting(self, backend: str) -> float | None:
        observation = self.state.observations.get(backend)
        return observation.pending if observation else None

    def _note(self, events: list[Event]) -> None:
        for event in events:
            log.info(event.kind, backend=event.backend, text=event.text)
        if events:
            self._unsaved += events
            self._changed.set()

    async def _save(self) -> None:
        """Write what has happened since the last success; a store that is down is tried again at the next tick.

        Nothing is written before the store was read once: it may hold a fault that this process has not heard of.
        """
        events = list(self._unsaved)
        if self._recalled and not events:
            return
        try:
            if not self._recalled:
                remembered = await asyncio.to_thread(self._store.load)
                self._coordinator.recall(remembered.breakers)
                self._drained |= remembered.drained
                self._recalled = True
                self._changed.set()
            await asyncio.to_thread(self._store.save, Remembered(dict(self.breakers), self._drained), events)
        except StoreError as error:
            self._unsaved = self._unsaved[-_MOST_UNSAVED:]
            self._store_failed(error)
            return
        self._unsaved = self._unsaved[len(events) :]
        self.store_error = None

    def _store_failed(self, error: StoreError) -> None:
        if self.store_error is None:
            log.error("the router goes on from memory", error=str(error))
        self.store_error = str(error)
