"""A circle on the bench: two backends that serve model m, a clock that stands still, and what it published."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bimetal.circle.circle import Circle
from bimetal.fleet.schema import Fleet
from bimetal.store.store import Store
from tests.patience import PATIENCE_S
from tests.router.conftest import observation

NAMES = ("cuda-0", "rocm-0")
EVEN = {"cuda-0": 0.5, "rocm-0": 0.5}
DEGRADED = {"cuda-0": 0.333, "rocm-0": 0.667}
WITHOUT = {"cuda-0": 0.0, "rocm-0": 1.0}
LOST = frozenset({"upstream_connection_failure"})
ECC = "uncorrectable ECC error"


class Bench:
    """A circle with a record of what it published and asked for."""

    def __init__(self, fleet: Fleet, store: Store) -> None:
        self.now = 1000.0
        self.store = store
        self.published: list[dict[str, dict[str, float]]] = []
        self.looked_at: list[str] = []
        self._news = asyncio.Event()
        self.circle = Circle(fleet, store, self._publish, self.looked_at.append, lambda: self.now)

    async def _publish(self) -> None:
        self.published.append(
            {m: {b: round(s, 3) for b, s in r.shares.items()} for m, r in self.circle.table.routes.items()}
        )
        self._news.set()

    async def until(self, shares: dict[str, float]) -> None:
        """Wait until the last published shares of model m are these."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.published or self.published[-1].get("m") != shares:
                self._news.clear()
                await self._news.wait()

    async def saved(self) -> None:
        """What happened so far is in the store, unless that is down."""
        await self.circle._sharing.exchange()


@asynccontextmanager
async def running(fleet: Fleet, store: Store, see: tuple[str, ...] = NAMES) -> AsyncIterator[Bench]:
    """A circle at work whose backends `see` were probed."""
    bench = Bench(fleet, store)
    task = asyncio.create_task(bench.circle.run())
    for name in see:
        bench.circle.observed(observation(name, "m"))
    try:
        yield bench
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
