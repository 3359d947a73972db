"""The keeper: runs the learner beside the circle and keeps its memory in the store."""

import asyncio
import hashlib
import socket
from collections.abc import Callable

import structlog

from bimetal.breaker.outcome import Try
from bimetal.errors import StoreError
from bimetal.fleet.schema import Fleet
from bimetal.learning.evidence import Beliefs
from bimetal.learning.learner import Learner
from bimetal.learning.memory import Memory
from bimetal.learning.operator_fold import learned_cells
from bimetal.operators.matrix.matrix import Learned, Place
from bimetal.state.event import Event
from bimetal.store.store import Store

log = structlog.get_logger(__name__)

_REVIEW_EVERY_S = 0.5
_SAVE_EVERY_S = 60.0


class Keeper:
    """Learns from tries and tells what is believed. Does nothing where the fleet file disables learning.

    A store that is down stops nothing; and nothing is written before it was read once, for it holds a week's times.

    Args:
        note: takes the events of changed beliefs; called only when there are some.
        clock: Unix time in seconds.
    """

    def __init__(
        self, fleet: Fleet, store: Store, note: Callable[[list[Event]], None], clock: Callable[[], float]
    ) -> None:
        self._settings = fleet.learning
        self._learner = Learner(fleet.learning, {b.name: b.pool for b in fleet.backends})
        # Stable over restarts; a host may run several routers, each with a state directory of its own.
        here = hashlib.sha256(f"{socket.gethostname()}:{fleet.state_dir}".encode()).hexdigest()[:16]
        self._memory = Memory(store, gateway=here)
        self._note = note
        self._clock = clock
        self._recalled = False
        self._changed = False
        self._learned: dict[Place, Learned] = {}
        self._saved_at = 0.0
        self._failed = False

    @property
    def beliefs(self) -> Beliefs:
        """The evidence to weigh with."""
        return self._learner.beliefs

    @property
    def learned(self) -> dict[Place, Learned]:
        """What the newest lessons say of operators; empty where the fleet file disables learning."""
        return self._learned

    def hear(self, tries: list[Try], waiting: Callable[[str], float | None]) -> None:
        """Take in what became of tries; `waiting` gives the requests in a backend's queues, None if unknown."""
        if self._settings.enabled:
            self._learner.hear(tries, waiting, self._clock())

    async def recall(self) -> None:
        """Read the store before the first decision, so that a restart moves no share."""
        if self._settings.enabled:
            await self._synchronise()

    async def run(self) -> None:
        """Review and save until cancelled."""
        if not self._settings.enabled:
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._review())
                tasks.create_task(self._save())
        finally:
            await self._synchronise()

    async def _review(self) -> None:
        while True:
            await asyncio.sleep(_REVIEW_EVERY_S)
            changes = self._learner.review(self._clock())
            if changes:
                self._changed = True
                self._note(changes)

    async def _save(self) -> None:
        """Beside the reviews: a store that hangs delays no belief."""
        while True:
            await asyncio.sleep(_REVIEW_EVERY_S)
            if self._changed or not self._recalled or self._clock() - self._saved_at >= _SAVE_EVERY_S:
                await self._synchronise()

    async def _synchronise(self) -> None:
        """Read what is new in the store, write what is new here."""
        self._changed = False
        try:
            if not self._recalled:
                self._learner.recall(await asyncio.to_thread(self._memory.statistics))
                self._recalled = True
            version, lessons = await asyncio.to_thread(self._memory.lessons)
            self._learner.teach(lessons, version)
            self._learned = learned_cells(lessons.operators, version)
            await asyncio.to_thread(self._memory.save_statistics, self._learner.statistics(), self._clock())
        except StoreError as error:
            self._store_failed(error)
            return
        self._saved_at, self._failed = self._clock(), False

    def _store_failed(self, error: StoreError) -> None:
        self._changed = True
        if not self._failed:
            log.error("what was learned cannot be kept; the router goes on from memory", error=str(error))
        self._failed = True
