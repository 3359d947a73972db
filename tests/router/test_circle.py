"""The circle with its parts in place: what is observed comes out as a published table."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper, save

from router.circle import Circle
from router.errors import UnknownBackendError
from router.feedback.outcome import Try
from router.fleet import Fleet
from router.observation import Observation, ThermalReading
from router.policy.breaker import Breaker, State, Tier
from router.store import Remembered, Store

RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]
LOST = frozenset({"upstream_connection_failure"})


class Bench:
    """A circle with a clock that stands still, and a record of what it published and asked for."""

    def __init__(self, fleet: Fleet, store: Store) -> None:
        self.now = 1000.0
        self.published: list[dict[str, dict[str, float]]] = []
        self.looked_at: list[str] = []
        self._news = asyncio.Event()
        self.circle = Circle(fleet, store, self._publish, self.looked_at.append, lambda: self.now)
        self._task = asyncio.create_task(self.circle.run())

    async def _publish(self) -> None:
        self.published.append(
            {m: {b: round(s, 3) for b, s in r.shares.items()} for m, r in self.circle.table.routes.items()}
        )
        self._news.set()

    async def until(self, shares: dict[str, float]) -> None:
        """Wait until the last published shares of model m are these."""
        async with asyncio.timeout(5):
            while not self.published or self.published[-1].get("m") != shares:
                self._news.clear()
                await self._news.wait()

    async def saved(self) -> None:
        """Wait until what happened so far is in the store."""
        async with asyncio.timeout(5):
            while self.circle._unsaved or not self.circle._recalled:
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"sqlite:///{tmp_path / 'router.db'}")


def test_nothing_is_published_before_every_backend_was_probed(
    fleet_of: Callable[..., Fleet], store: Store, run_async: RunAsync, seen: Callable[..., Observation]
) -> None:
    async def scenario() -> None:
        bench = Bench(fleet_of("cuda-0", "rocm-0"), store)
        bench.circle.observed(seen("cuda-0", "m"))
        await asyncio.sleep(0)
        bench.circle.observed(seen("rocm-0", "m"))
        await bench.until({"cuda-0": 0.5, "rocm-0": 0.5})
        assert len(bench.published) == 1
        await bench.stop()

    run_async(scenario())


def test_a_dead_backend_is_out_with_the_next_table(
    fleet_of: Callable[..., Fleet], store: Store, run_async: RunAsync, seen: Callable[..., Observation]
) -> None:
    async def scenario() -> None:
        bench = Bench(fleet_of("cuda-0", "rocm-0"), store)
        for name in ("cuda-0", "rocm-0"):
            bench.circle.observed(seen(name, "m"))
        await bench.until({"cuda-0": 0.5, "rocm-0": 0.5})
        bench.circle.observed(Observation("cuda-0", error="refused"))
        await bench.until({"cuda-0": 0.0, "rocm-0": 1.0})
        await bench.stop()

    run_async(scenario())


def test_a_backend_that_gets_hot_gives_up_requests_until_it_is_cool_or_silent(
    fleet_of: Callable[..., Fleet], store: Store, run_async: RunAsync, seen: Callable[..., Observation]
) -> None:
    async def scenario() -> None:
        bench = Bench(fleet_of("cuda-0", "rocm-0"), store)
        for name in ("cuda-0", "rocm-0"):
            bench.circle.observed(seen(name, "m"))
        for margin in (40.0, None):
            bench.circle.felt(ThermalReading("cuda-0", 0.0))
            await bench.until({"cuda-0": 0.333, "rocm-0": 0.667})
            bench.circle.felt(ThermalReading("cuda-0", margin))
            await bench.until({"cuda-0": 0.5, "rocm-0": 0.5})
        await bench.stop()

    run_async(scenario())


def test_a_lost_connection_is_looked_into_at_once_and_degrades(
    fleet_of: Callable[..., Fleet], store: Store, run_async: RunAsync, seen: Callable[..., Observation]
) -> None:
    async def scenario() -> None:
        bench = Bench(fleet_of("cuda-0", "rocm-0"), store)
        for name in ("cuda-0", "rocm-0"):
            bench.circle.observed(seen(name, "m"))
        bench.circle.tried([Try("cuda-0", "m", flags=LOST)])
        assert bench.looked_at == ["cuda-0"]
        await bench.until({"cuda-0": 0.333, "rocm-0": 0.667})
        await bench.stop()

    run_async(scenario())


def test_a_fault_survives_a_restart_until_a_person_clears_it(
    fleet_of: Callable[..., Fleet], store: Store, run_async: RunAsync, seen: Callable[..., Observation]
) -> None:
    async def scenario() -> None:
        first = Bench(fleet_of("cuda-0", "rocm-0"), store)
        for name in ("cuda-0", "rocm-0"):
            first.circle.observed(seen(name, "m"))
        first.circle.tried([Try("cuda-0", "m", grpc_status=13, message="uncorrectable ECC error")])
        await first.until({"cuda-0": 0.0, "rocm-0": 1.0})
        await first.saved()
        await first.stop()
        second = Bench(fleet_of("cuda-0", "rocm-0"), store)
        for name in ("cuda-0", "rocm-0"):
            second.circle.observed(seen(name, "m"))
        await second.until({"cuda-0": 0.0, "rocm-0": 1.0})
        second.circle.clear("cuda-0")
        await second.until({"cuda-0": 0.5, "rocm-0": 0.5})
        await second.stop()

    run_async(scenario())


def test_an_isolation_ends_by_the_clock_alone(
    fleet_of: Callable[..., Fleet], store: Store, run_async: RunAsync, seen: Callable[..., Observation]
) -> None:
    async def scenario() -> None:
        store.load()
        isolated = Breaker(State.ISOLATED, 3, tier=Tier.TRANSIENT, until=1300.0)
        store.save(Remembered({"cuda-0": isolated}, frozenset()), [])
        bench = Bench(fleet_of("cuda-0", "rocm-0"), store)
        for name in ("cuda-0", "rocm-0"):
            bench.circle.observed(seen(name, "m"))
        await bench.until({"cuda-0": 0.0, "rocm-0": 1.0})
        bench.now = 1300.0
        await bench.until({"cuda-0": 0.5, "rocm-0": 0.5})
        await bench.stop()

    run_async(scenario())


def test_a_store_that_is_down_stops_nothing_and_is_caught_up_with_later(
    fleet_of: Callable[..., Fleet], tmp_path: Path, run_async: RunAsync, seen: Callable[..., Observation]
) -> None:
    async def scenario() -> None:
        folder = tmp_path / "later"
        store = Store(f"sqlite:///{folder / 'router.db'}")
        bench = Bench(fleet_of("cuda-0", "rocm-0"), store)
        for name in ("cuda-0", "rocm-0"):
            bench.circle.observed(seen(name, "m"))
        bench.circle.tried([Try("cuda-0", "m", grpc_status=13, message="uncorrectable ECC error")])
        await bench.until({"cuda-0": 0.0, "rocm-0": 1.0})
        assert "cannot be" in (bench.circle.store_error or "")
        folder.mkdir()
        await bench.saved()
        await bench.stop()
        assert bench.circle.store_error is None
        assert store.load().breakers["cuda-0"].state is State.FAULTED
        store.close()

    run_async(scenario())


def test_the_operators_of_a_models_file_decide_its_first_table(
    fleet_of: Callable[..., Fleet], store: Store, run_async: RunAsync, seen: Callable[..., Observation]
) -> None:
    """The incident: RoPE models went to nodes that were bad at it."""

    async def scenario() -> None:
        fleet = fleet_of("cuda-0", "rocm-0")
        for pool in ("cuda", "rocm"):
            _write_rope(fleet.pools[pool].repository / "m" / "1" / "model.onnx")
        bench = Bench(fleet, store)
        for name in ("cuda-0", "rocm-0"):
            bench.circle.observed(seen(name, "m"))
        await bench.until({"cuda-0": 1.0, "rocm-0": 0.0})
        assert len(bench.published) == 1
        await bench.stop()

    run_async(scenario())


def _write_rope(file: Path) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 4, 8]) for n in "xy")
    caches = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, 4]) for n in ("cos", "sin")]
    node = helper.make_node("RotaryEmbedding", ["x", "cos", "sin"], ["y"])
    model = helper.make_model(
        helper.make_graph([node], "rope", [x, *caches], [y]), opset_imports=[helper.make_opsetid("", 23)]
    )
    file.parent.mkdir(parents=True)
    save(model, file)


def test_clearing_an_unknown_backend_names_the_known_ones(
    fleet_of: Callable[..., Fleet], store: Store, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        bench = Bench(fleet_of("cuda-0", "rocm-0"), store)
        with pytest.raises(UnknownBackendError, match="cuda-0, rocm-0"):
            bench.circle.clear("cuda-9")
        await bench.stop()

    run_async(scenario())


def test_a_store_that_was_down_at_the_start_does_not_lose_the_fault_it_holds(
    fleet_of: Callable[..., Fleet], tmp_path: Path, run_async: RunAsync, seen: Callable[..., Observation]
) -> None:
    async def scenario() -> None:
        folder, away = tmp_path / "store", tmp_path / "away"
        folder.mkdir()
        before = Store(f"sqlite:///{folder / 'router.db'}")
        faulted = Breaker(State.FAULTED, 1, tier=Tier.HARDWARE, reason="ECC")
        before.save(Remembered({"cuda-0": faulted}, frozenset()), [])
        before.close()
        folder.rename(away)
        store = Store(f"sqlite:///{folder / 'router.db'}")
        bench = Bench(fleet_of("cuda-0", "rocm-0"), store)
        for name in ("cuda-0", "rocm-0"):
            bench.circle.observed(seen(name, "m"))
        await bench.until({"cuda-0": 0.5, "rocm-0": 0.5})
        away.rename(folder)
        await bench.until({"cuda-0": 0.0, "rocm-0": 1.0})
        await bench.stop()
        assert store.load().breakers["cuda-0"].state is State.FAULTED
        store.close()

    run_async(scenario())


def test_a_drain_survives_a_restart_and_ends_when_a_person_says_so(
    fleet_of: Callable[..., Fleet], store: Store, run_async: RunAsync, seen: Callable[..., Observation]
) -> None:
    async def scenario() -> None:
        first = Bench(fleet_of("cuda-0", "rocm-0"), store)
        for name in ("cuda-0", "rocm-0"):
            first.circle.observed(seen(name, "m"))
        first.circle.drain("cuda-0")
        await first.until({"cuda-0": 0.0, "rocm-0": 1.0})
        await first.stop()
        second = Bench(fleet_of("cuda-0", "rocm-0"), store)
        for name in ("cuda-0", "rocm-0"):
            second.circle.observed(seen(name, "m"))
        await second.until({"cuda-0": 0.0, "rocm-0": 1.0})
        assert len(second.published) == 1
        second.circle.undrain("cuda-0")
        await second.until({"cuda-0": 0.5, "rocm-0": 0.5})
        await second.stop()

    run_async(scenario())
