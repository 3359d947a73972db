"""The whole way round: measured times come back as a published table, and outlive a restart."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bimetal.breaker.outcome import Try
from bimetal.circle.circle import Circle
from bimetal.fleet.schema import Fleet
from bimetal.learning.documents import Lessons, PoolTime
from bimetal.learning.memory import Memory
from bimetal.state.observation import Observation
from bimetal.store.store import Store
from tests.patience import PATIENCE_S

RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]

EXTRAS = {
    name: {"devices": [{"model": "x", "memory_bandwidth_gbs": gbs}]}
    for name, gbs in (("cuda-0", 3000), ("rocm-0", 300))
}
TIMES_S = {"cuda-0": 0.016, "rocm-0": 0.004}
"""The bandwidths promise the opposite."""


class Bench:
    """A circle with both backends observed and a clock of its own."""

    def __init__(self, fleet: Fleet, store: Store) -> None:
        self.now = 1000.0
        self.store = store
        self._news = asyncio.Event()
        self.circle = Circle(fleet, store, self._publish, lambda _: None, lambda: self.now)
        self._task = asyncio.create_task(self.circle.run())

    async def _publish(self) -> None:
        self._news.set()

    @property
    def shares(self) -> dict[str, float]:
        route = self.circle.table.routes.get("m")
        return route.shares if route else {}

    async def published(self, condition: Callable[[dict[str, float]], bool]) -> None:
        """Wait for a table whose shares of model m are so."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition(self.shares):
                self._news.clear()
                await self._news.wait()

    def serve(self, requests: int) -> None:
        """Let the backends serve as the table says."""
        for name, share in self.shares.items():
            attempt = Try(name, "m", grpc_status=0, seconds=TIMES_S[name])
            self.circle.tried([attempt] * round(share * requests))

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
def make_bench(
    fleet_of: Callable[..., Fleet], tmp_path: Path, seen: Callable[..., Observation]
) -> Callable[..., Bench]:
    def make(**sections: Any) -> Bench:
        fleet = fleet_of("cuda-0", "rocm-0", extras=EXTRAS, **sections)
        bench = Bench(fleet, Store(f"sqlite:///{tmp_path / 'router.db'}"))
        for name in TIMES_S:
            bench.circle.observed(seen(name, "m"))
        return bench

    return make


def test_a_wrong_prior_is_corrected_within_500_requests_and_stays_so_after_a_restart(
    make_bench: Callable[..., Bench], run_async: RunAsync
) -> None:
    async def scenario() -> None:
        first = make_bench()
        await first.published(lambda shares: shares.get("cuda-0", 0) > 0.9)
        served = 0
        while first.shares["rocm-0"] < 0.5:
            first.serve(120)
            served += 120
            before = first.shares
            first.now += 2
            await first.published(lambda shares, before=before: shares != before)  # type: ignore[misc]  # mypy infers no lambda with a default
        assert served <= 500
        await first.stop()
        second = make_bench()
        second.now = first.now
        await second.published(lambda shares: "rocm-0" in shares)
        assert second.shares == first.shares
        await second.stop()
        events = [e for e in second.store.events(50) if e.kind == "learning"]
        assert {e.backend for e in events} == {"cuda-0", "rocm-0"}

    run_async(scenario())


def test_a_store_that_hangs_delays_no_belief(
    make_bench: Callable[..., Bench], run_async: RunAsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bimetal.store.database._BUSY_S", 2 * PATIENCE_S)  # longer than the test waits

    async def scenario() -> None:
        bench = make_bench()
        await bench.published(lambda shares: shares.get("cuda-0", 0) > 0.9)
        with closing(sqlite3.connect(tmp_path / "router.db")) as writer:
            writer.execute("BEGIN IMMEDIATE")
            for _ in range(3):
                bench.serve(60)
                before = bench.shares
                bench.now += 2
                await bench.published(lambda shares, before=before: shares != before)  # type: ignore[misc]  # mypy infers no lambda with a default
        await bench.stop()

    run_async(scenario())


def test_lessons_learned_beside_a_running_router_move_its_shares(
    make_bench: Callable[..., Bench], run_async: RunAsync, tmp_path: Path
) -> None:
    async def scenario() -> None:
        bench = make_bench()
        await bench.published(lambda shares: shares.get("cuda-0", 0) > 0.9)
        times = tuple(
            PoolTime(model="m", pool=n[:4], size_class="small", seconds=s, requests=500, computed_on="gpu")
            for n, s in TIMES_S.items()
        )
        other = Store(f"sqlite:///{tmp_path / 'router.db'}")
        Memory(other).save_lessons(Lessons(times=times), "by a test", 1.0, [])
        other.close()
        bench.now += 61
        await bench.published(lambda shares: shares["rocm-0"] > 0.5)
        await bench.stop()

    run_async(scenario())


def test_nothing_is_learned_where_it_is_disabled(make_bench: Callable[..., Bench], run_async: RunAsync) -> None:
    async def scenario() -> None:
        bench = make_bench(learning={"enabled": False})
        await bench.published(lambda shares: shares.get("cuda-0", 0) > 0.9)
        bench.serve(500)
        assert bench.circle._keeper.beliefs == {}
        await bench.stop()
        assert bench.store.newest_of_each("statistics") == []

    run_async(scenario())


def test_streams_and_sequences_teach_no_times(
    make_bench: Callable[..., Bench], run_async: RunAsync, seen: Callable[..., Observation]
) -> None:
    async def scenario() -> None:
        bench = make_bench()
        models = {}
        for model, config in (
            ("stream", {"model_transaction_policy": {"decoupled": True}}),
            ("sum", {"sequence_batching": {}}),
        ):
            served = seen("cuda-0", model).models[model]
            models[model] = type(served)(model, served.versions, config=config)
        bench.circle.observed(Observation("cuda-0", models=models))
        bench.circle.tried([Try("cuda-0", model, grpc_status=0, seconds=9.0) for model in models] * 50)
        await bench.stop()
        assert Memory(bench.store).statistics().arms == ()

    run_async(scenario())
