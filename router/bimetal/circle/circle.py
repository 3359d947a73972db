"""The circle: observe → decide → publish. The one place where the parts meet."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from bimetal.breaker.breaker import Breaker
from bimetal.breaker.coordinator import Coordinator
from bimetal.breaker.outcome import Effect, Try, classify
from bimetal.calibration import CalibrationBook
from bimetal.circle.scores import ScoreBook
from bimetal.circle.tally import Tally
from bimetal.errors import UnknownBackendError
from bimetal.fleet.schema import Fleet
from bimetal.learning.keeper import Keeper
from bimetal.policy.table import RoutingTable, decide
from bimetal.policy.weights import load_factor, temperature_factor
from bimetal.state.event import Event
from bimetal.state.fleet_state import FleetState, absorb, warm
from bimetal.state.observation import Observation, ThermalReading
from bimetal.store.journal import Journal
from bimetal.store.sharing import Sharing
from bimetal.store.store import Store

log = structlog.get_logger(__name__)

_TICK_S = 0.25
_SCORES_EVERY_S = 5.0
_MOST_DECISIONS_PER_S = 20


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
        self.decided = False
        self.tally = Tally()
        self._publish = publish
        self._look_again = look_again
        self._clock = clock
        self._scores = ScoreBook(fleet)
        self._calibrations = CalibrationBook(fleet)
        self._changed = asyncio.Event()
        self._coordinator = Coordinator(fleet.breaker)
        self._sharing = Sharing(
            store,
            Journal(fleet.state_dir / "journal.json"),
            self._coordinator,
            backends=[b.name for b in fleet.backends],
            changed=self._changed.set,
            clock=clock,
        )
        self._keeper = Keeper(fleet, store, self._note, clock)

    @property
    def breakers(self) -> Mapping[str, Breaker]:
        """Breaker by backend; a missing one is new."""
        return self._coordinator.breakers

    @property
    def drained(self) -> frozenset[str]:
        """Backends that a person wants empty."""
        return self._coordinator.drained

    @property
    def store_error(self) -> str | None:
        """Why the store could not be used last time; None if it could."""
        return self._sharing.error

    def observed(self, new: Observation) -> None:
        """Take in a probe's finding."""
        before = self.state.observations.get(new.backend)
        self.state = absorb(self.state, new)
        if before is None or self._matters(before, new):
            self._changed.set()
        self._note(self._coordinator.probed(new.backend, new.error, self._sharing.now()))

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
            self._note(self._coordinator.heard(attempt.backend, outcome, self._sharing.now()))
            if outcome.effect in {Effect.LOST, Effect.FAILURE}:
                self._sharing.note()  # also one that changes no state: the other gateways count on from it

    def clear(self, backend: str) -> None:
        """A person declares a backend well. Raises UnknownBackendError."""
        self._check_name(backend)
        self._note(self._coordinator.clear(backend, self._sharing.now()))

    def drain(self, backend: str) -> None:
        """No new request for this backend until `undrain`. Raises UnknownBackendError."""
        self._drain(backend, True)

    def undrain(self, backend: str) -> None:
        """The backend gets its share again. Raises UnknownBackendError."""
        self._drain(backend, False)

    def _drain(self, backend: str, drained: bool) -> None:
        self._check_name(backend)
        self._note(self._coordinator.drain(backend, drained, self._sharing.now()))

    def _check_name(self, backend: str) -> None:
        names = [b.name for b in self.fleet.backends]
        if backend not in names:
            raise UnknownBackendError(f"no backend is named {backend!r}; there are {', '.join(names)}.")

    async def run(self) -> None:
        """Decide and publish whenever something changed, until cancelled; what is not in the store then is written."""
        # Before the first decision, so that a restart moves nothing. A store that hangs delays it by a few seconds.
        await asyncio.gather(self._sharing.exchange(), self._keeper.recall())
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_time())
                tasks.create_task(self._keep_scores())
                tasks.create_task(self._keeper.run())
                tasks.create_task(self._sharing.run())
                await self._first_round()
                while True:
                    await self._changed.wait()
                    self._changed.clear()
                    await self._decide()
                    await asyncio.sleep(1 / _MOST_DECISIONS_PER_S)
        finally:
            await self._sharing.exchange()

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
            self.fleet, self.state, self.breakers, scores, self.drained, beliefs=beliefs, bandwidths=bandwidths
        )
        if new != self.table or not self.decided:
            self.table, self.decided = new, True
            await self._publish()

    async def _keep_time(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._note(self._coordinator.tick(self._sharing.now()))

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
            or before.stopping != new.stopping
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
            self._sharing.note(events)
            self._changed.set()
