"""The circle with its parts in place: what is observed comes out as a published table."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper, save

from bimetal.breaker.breaker import Breaker, State, Tier
from bimetal.breaker.outcome import Try
from bimetal.breaker.shared import Shared
from bimetal.errors import UnknownBackendError
from bimetal.fleet.schema import Fleet
from bimetal.state.observation import Observation, ThermalReading
from bimetal.store.store import Store
from tests.router.bench import DEGRADED, ECC, EVEN, LOST, NAMES, WITHOUT, Bench, running
from tests.router.conftest import observation

RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]
Scenario = Callable[[Bench], Coroutine[Any, Any, None]]


@pytest.fixture
def fleet(fleet_of: Callable[..., Fleet]) -> Fleet:
    return fleet_of(*NAMES)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(f"sqlite:///{tmp_path / 'router.db'}")
    yield made
    made.close()


@pytest.fixture
def play(fleet: Fleet, store: Store, run_async: RunAsync) -> Callable[..., None]:
    """Plays scenarios, each with a circle of its own, one after the other on one store."""

    def each(*scenarios: Scenario, **options: Any) -> None:
        async def one(scenario: Scenario) -> None:
            async with running(fleet, store, **options) as bench:
                await scenario(bench)

        for scenario in scenarios:
            run_async(one(scenario))

    return each


def test_nothing_is_published_before_every_backend_was_probed(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        bench.circle.observed(observation("cuda-0", "m"))
        await asyncio.sleep(0)
        bench.circle.observed(observation("rocm-0", "m"))
        await bench.until(EVEN)
        assert len(bench.published) == 1

    play(scenario, see=())


def test_a_dead_backend_is_out_with_the_next_table(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.until(EVEN)
        bench.circle.observed(Observation("cuda-0", error="refused"))
        await bench.until(WITHOUT)

    play(scenario)


def test_a_backend_that_gets_hot_gives_up_requests_until_it_is_cool_or_silent(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        for margin in (40.0, None):
            bench.circle.felt(ThermalReading("cuda-0", 0.0))
            await bench.until({"cuda-0": 0.333, "rocm-0": 0.667})
            bench.circle.felt(ThermalReading("cuda-0", margin))
            await bench.until(EVEN)

    play(scenario)


def test_a_lost_connection_is_looked_into_at_once_and_degrades(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        bench.circle.tried([Try("cuda-0", "m", flags=LOST)])
        assert bench.looked_at == ["cuda-0"]
        await bench.until(DEGRADED)

    play(scenario)


def test_a_fault_survives_a_restart_until_a_person_clears_it(play: Callable[..., None]) -> None:
    async def before(bench: Bench) -> None:
        bench.circle.tried([Try("cuda-0", "m", grpc_status=13, message=ECC)])
        await bench.until(WITHOUT)

    async def after(bench: Bench) -> None:
        await bench.until(WITHOUT)
        bench.circle.clear("cuda-0")
        await bench.until(EVEN)

    play(before, after)


def test_an_isolation_ends_by_the_clock_alone(play: Callable[..., None], store: Store) -> None:
    isolated = Breaker(State.ISOLATED, 3, tier=Tier.TRANSIENT, until=1300.0)
    store.exchange({"cuda-0": Shared(isolated, incidents=3)}, {})

    async def scenario(bench: Bench) -> None:
        await bench.until(WITHOUT)
        bench.now = 1300.0
        await bench.until(EVEN)

    play(scenario)


def test_a_store_that_is_down_stops_nothing_and_is_caught_up_with_later(
    fleet: Fleet, tmp_path: Path, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        folder = tmp_path / "later"
        store = Store(f"sqlite:///{folder / 'router.db'}")
        async with running(fleet, store) as bench:
            bench.circle.tried([Try("cuda-0", "m", grpc_status=13, message=ECC)])
            await bench.until(WITHOUT)
            assert "cannot be" in (bench.circle.store_error or "")
            folder.mkdir()
            await bench.saved()
            assert bench.circle.store_error is None
        held = store.exchange({"cuda-0": Shared()}, {}).held
        assert held["cuda-0"].shared.breaker.state is State.FAULTED
        assert [e.text for e in store.events(9) if e.kind == "breaker"] == [f"Healthy → Faulted: {ECC}"]
        store.close()

    run_async(scenario())


def test_what_happened_in_a_long_outage_is_written_bit_by_bit(
    fleet: Fleet, tmp_path: Path, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        folder = tmp_path / "later"
        store = Store(f"sqlite:///{folder / 'router.db'}")
        async with running(fleet, store) as bench:
            await bench.until(EVEN)
            for _ in range(600):
                bench.circle.drain("cuda-0")
                bench.circle.undrain("cuda-0")
            folder.mkdir()
            await bench.saved()
            assert bench.circle.store_error is None
            for _ in range(2):
                await bench.saved()
        assert [e.kind for e in store.events(2000)].count("drain") == 1200
        store.close()

    run_async(scenario())


def test_a_restart_while_the_store_is_down_forgets_nothing(fleet: Fleet, tmp_path: Path, run_async: RunAsync) -> None:
    async def scenario() -> None:
        folder = tmp_path / "later"
        store = Store(f"sqlite:///{folder / 'router.db'}")
        async with running(fleet, store) as first:
            first.circle.tried([Try("cuda-0", "m", grpc_status=13, message=ECC)])
            first.circle.drain("rocm-0")
            await first.until({"cuda-0": 0.0, "rocm-0": 0.0})
        async with running(fleet, store) as second:
            await second.until({"cuda-0": 0.0, "rocm-0": 0.0})
            assert len(second.published) == 1
            second.circle.undrain("rocm-0")
            await second.until(WITHOUT)
        folder.mkdir()
        async with running(fleet, store) as third:
            await third.until(WITHOUT)
            await third.saved()
        true = store.exchange({"cuda-0": Shared()}, {}).held["cuda-0"].shared
        assert (true.breaker.state, true.incidents) == (State.FAULTED, 1)
        kinds = [e.kind for e in reversed(store.events(9))]
        assert [kind for kind in kinds if kind != "probe"] == ["breaker", "drain", "drain"]
        store.close()

    run_async(scenario())


def test_a_journal_that_cannot_be_read_stops_nothing(play: Callable[..., None], fleet: Fleet) -> None:
    (fleet.state_dir / "journal.json").write_text("{")

    async def scenario(bench: Bench) -> None:
        await bench.until(EVEN)
        bench.circle.drain("cuda-0")
        await bench.until(WITHOUT)

    play(scenario, scenario_after_the_journal_was_written_anew)


async def scenario_after_the_journal_was_written_anew(bench: Bench) -> None:
    await bench.until(WITHOUT)


def test_the_operators_of_a_models_file_decide_its_first_table(play: Callable[..., None], fleet: Fleet) -> None:
    """The incident: RoPE models went to nodes that were bad at it."""
    for pool in ("cuda", "rocm"):
        _write_rope(fleet.pools[pool].repository / "m" / "1" / "model.onnx")

    async def scenario(bench: Bench) -> None:
        await bench.until({"cuda-0": 1.0, "rocm-0": 0.0})
        assert len(bench.published) == 1

    play(scenario)


def _write_rope(file: Path) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 4, 8]) for n in "xy")
    caches = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, 4]) for n in ("cos", "sin")]
    node = helper.make_node("RotaryEmbedding", ["x", "cos", "sin"], ["y"])
    model = helper.make_model(
        helper.make_graph([node], "rope", [x, *caches], [y]), opset_imports=[helper.make_opsetid("", 23)]
    )
    file.parent.mkdir(parents=True)
    save(model, file)


def test_clearing_an_unknown_backend_names_the_known_ones(play: Callable[..., None]) -> None:
    async def scenario(bench: Bench) -> None:
        with pytest.raises(UnknownBackendError, match="cuda-0, rocm-0"):
            bench.circle.clear("cuda-9")

    play(scenario)


def test_a_store_that_was_down_at_the_start_does_not_lose_the_fault_it_holds(
    fleet: Fleet, tmp_path: Path, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        folder, away = tmp_path / "store", tmp_path / "away"
        folder.mkdir()
        before = Store(f"sqlite:///{folder / 'router.db'}")
        faulted = Shared(Breaker(State.FAULTED, 1, tier=Tier.HARDWARE, reason="ECC"), incidents=1)
        before.exchange({"cuda-0": faulted}, {})
        before.close()
        folder.rename(away)
        store = Store(f"sqlite:///{folder / 'router.db'}")
        async with running(fleet, store) as bench:
            await bench.until(EVEN)
            away.rename(folder)
            await bench.until(WITHOUT)
        assert store.exchange({"cuda-0": Shared()}, {}).held["cuda-0"].shared.breaker.state is State.FAULTED
        store.close()

    run_async(scenario())


def test_a_drain_survives_a_restart_and_ends_when_a_person_says_so(play: Callable[..., None]) -> None:
    async def before(bench: Bench) -> None:
        bench.circle.drain("cuda-0")
        await bench.until(WITHOUT)

    async def after(bench: Bench) -> None:
        await bench.until(WITHOUT)
        assert len(bench.published) == 1
        bench.circle.undrain("cuda-0")
        await bench.until(EVEN)

    play(before, after)
