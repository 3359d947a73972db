"""The road between coordinator and store: what is true here is written, what is true elsewhere is taken over."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

import structlog

from bimetal.breaker.coordinator import Coordinator
from bimetal.breaker.shared import UNKNOWN, Shared, alike, caught_up
from bimetal.errors import BimetalError, StoreError
from bimetal.state.event import Event
from bimetal.store.journal import Journal, Page
from bimetal.store.store import Exchange, Held, Store

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 0.5
"""So that what another gateway has seen acts here within a second."""
_LEAST_PAUSE_S = 0.05
_MOST_UNWRITTEN = 10_000
_MOST_EVENTS = 500
"""In one exchange, so that what a long outage has left is written in time on a slow machine, too."""


class Sharing:
    """Keeps coordinator and store in step; a store that is down is tried again, and nothing waits for it.

    Args:
        backends: names of the fleet's; rows of others in the store do not concern us.
        changed: called when something is true here that the table does not show yet.
        clock: Unix time in seconds.
    """

    def __init__(
        self,
        store: Store,
        journal: Journal,
        coordinator: Coordinator,
        *,
        backends: Iterable[str],
        changed: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.error: str | None = None
        self._store = store
        self._journal = journal
        self._recalled = False
        self._journal_error: str | None = None
        self._coordinator = coordinator
        self._backends = tuple(backends)
        self._changed = changed
        self._clock = clock
        self._ahead = 0.0
        self._held: dict[str, Held] = {}
        self._unwritten: list[Event] = []
        self._noted = asyncio.Event()
        self._wanted = asyncio.Event()
        self._one_exchange = asyncio.Lock()
        self._one_page = asyncio.Lock()

    def now(self) -> float:
        """Unix time by the store's clock, so that a cool-down ends at the same moment at every gateway."""
        return self._clock() + self._ahead

    def note(self, events: Iterable[Event] = ()) -> None:
        """Something became true here: the journal keeps it at once, the store at the next exchange, which is soon."""
        # Keys count on from the store's rows, which were not read yet.
        self._unwritten += events if self._held else (replace(event, key=None) for event in events)
        self._noted.set()
        self._wanted.set()

    async def run(self) -> None:
        """Exchange with the store, and keep the journal, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_noted())
            tasks.create_task(self._keep_in_step())

    async def _keep_noted(self) -> None:
        """Beside the exchange: the store may hang."""
        while True:
            await self._noted.wait()
            self._noted.clear()
            await self._keep()

    async def _keep_in_step(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            await self.exchange()
            await asyncio.sleep(_LEAST_PAUSE_S)

    async def exchange(self) -> None:
        """Write and read once, to the end even when cancelled. A store that is down is an `error`, not an exception."""
        await asyncio.shield(self._exchange())

    async def _exchange(self) -> None:
        async with self._one_exchange:
            self._wanted.clear()
            if not self._recalled:
                await self._recall()
            sent = {name: self._coordinator.shared.get(name, UNKNOWN) for name in self._backends}
            events = tuple(self._unwritten[:_MOST_EVENTS])
            try:
                answer = await asyncio.to_thread(self._store.exchange, sent, dict(self._held), events)
            except StoreError as error:
                self._failed(error)
            else:
                self._unwritten = self._unwritten[len(events) :]
                if self._unwritten:
                    self._wanted.set()
                self._take(sent, answer)
                if self.error:
                    log.info("the store is back")
                self.error = None
            await self._keep()

    async def _recall(self) -> None:
        """Go on where an earlier run stopped."""
        self._recalled = True
        try:
            page = await asyncio.to_thread(self._journal.recall)
        except BimetalError as error:
            self._journal_failed(error)
            return
        self._held = dict(page.bases)
        self._unwritten = [*page.unwritten, *self._unwritten]
        for name in self._backends:
            true = caught_up(UNKNOWN, self._coordinator.shared.get(name, UNKNOWN), page.ours.get(name, UNKNOWN))
            self._adopt(name, true)

    async def _keep(self) -> None:
        async with self._one_page:
            page = Page(dict(self._coordinator.shared), dict(self._held), tuple(self._unwritten))
            if page == self._journal.kept:
                return
            try:
                await asyncio.to_thread(self._journal.keep, page)
            except BimetalError as error:
                self._journal_failed(error)
            else:
                self._journal_error = None

    def _take(self, sent: dict[str, Shared], answer: Exchange) -> None:
        if abs(answer.seconds_ahead - self._ahead) > answer.uncertainty:
            self._ahead = answer.seconds_ahead
        for name, held in answer.held.items():
            self._held[name] = held
            self._adopt(name, caught_up(sent[name], self._coordinator.shared.get(name, UNKNOWN), held.shared))

    def _adopt(self, name: str, true: Shared) -> None:
        ours = self._coordinator.shared.get(name, UNKNOWN)
        if alike(ours, true):
            return
        self._coordinator.adopt(name, true)
        if ours.breaker.state is not true.breaker.state:
            text = f"{ours.breaker.state} → {true.breaker.state} (from the store)"
            log.info("breaker", backend=name, text=text, reason=true.breaker.reason)
        if bool(ours.drained.on) is not bool(true.drained.on):
            log.info("drain", backend=name, text=f"{'drained' if true.drained.on else 'drain ended'} (from the store)")
        self._changed()

    def _journal_failed(self, error: BimetalError) -> None:
        if self._journal_error is None:
            log.error("without its journal a restart forgets what the store has not got", error=str(error))
        self._journal_error = str(error)

    def _failed(self, error: StoreError) -> None:
        self._unwritten = self._unwritten[-_MOST_UNWRITTEN:]
        if self.error is None:
            log.error("the router goes on from memory", error=str(error))
        self.error = str(error)
