"""Two routers, one store: what one has seen, the other acts on (litellm 871: each thread had its own cool-downs)."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bimetal.breaker.breaker import State
from bimetal.breaker.outcome import Try
from bimetal.breaker.shared import UNKNOWN, Shared
from bimetal.fleet.schema import Fleet
from bimetal.state.observation import Observation
from bimetal.store.database import MOST_S
from bimetal.store.journal import Journal
from bimetal.store.store import Store
from tests.patience import PATIENCE_S
from tests.postgres import Postgres
from tests.router.bench import DEGRADED, ECC, EVEN, LOST, NAMES, WITHOUT, Bench, running
from tests.router.conftest import observation

RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]
Scenario = Callable[[Bench, Bench], Coroutine[Any, Any, None]]
FAULT = Try("cuda-0", "m", grpc_status=13, message=ECC)
BROKEN = Try("cuda-0", "m", flags=LOST)
TIMEOUT = Try("cuda-0", "m", flags=frozenset({"upstream_request_timeout"}))


@pytest.fixture
def play(fleet_of: Callable[..., Fleet], run_async: RunAsync, tmp_path: Path) -> Callable[..., None]:
    """Plays a scenario of two circles at the database of that URL, once both are in step with it."""

    def it(scenario: Scenario, url: str, *, ahead_s: float = 0.0) -> None:
        async def both() -> None:
            fleets = [fleet_of(*NAMES, state_dir=tmp_path / name) for name in ("one", "other")]
            stores = Store(url), Store(url, clock=lambda: time.time() + ahead_s)
            async with running(fleets[0], stores[0]) as one, running(fleets[1], stores[1]) as other:
                other.now += ahead_s
                for bench in (one, other):
                    await bench.until(EVEN)
                await scenario(one, other)
            for store in stores:
                store.close()

        run_async(both())

    return it


def true_of(bench: Bench) -> Shared:
    return bench.store.exchange({"cuda-0": UNKNOWN}, {}).held["cuda-0"].shared


def breaker_events(bench: Bench) -> list[str]:
    return [e.text for e in reversed(bench.store.events(100)) if e.kind == "breaker"]


def test_a_fault_a_clear_and_a_drain_at_one_gateway_act_at_the_other(play: Callable[..., None], store_url: str) -> None:
    async def scenario(one: Bench, other: Bench) -> None:
        one.circle.tried([FAULT])
        await other.until(WITHOUT)
        other.circle.clear("cuda-0")
        await one.until(EVEN)
        one.circle.drain("cuda-0")
        await other.until(WITHOUT)
        assert other.circle.drained == {"cuda-0"}
        other.circle.undrain("cuda-0")
        await one.until(EVEN)

    play(scenario, store_url)


def test_a_triton_that_both_see_die_is_one_incident_one_failure_and_one_event(
    play: Callable[..., None], store_url: str
) -> None:
    async def scenario(one: Bench, other: Bench) -> None:
        for bench in (one, other):
            bench.circle.tried([BROKEN] * 50)
            bench.circle.observed(Observation("cuda-0", error="refused"))
        for bench in (one, other):
            await bench.saved()
        for bench in (one, other):
            bench.circle.observed(observation("cuda-0", "m"))
            await bench.until(DEGRADED)
            await bench.saved()
        true = true_of(one)
        assert (true.incidents, true.breaker.failures, true.breaker.state) == (1, 1, State.DEGRADED)
        kinds = [e.kind for e in reversed(one.store.events(9)) if e.backend == "cuda-0"]
        assert kinds[-3:] == ["breaker", "probe", "probe"]
        assert len(breaker_events(one)) == 1

    play(scenario, store_url)


def test_what_breaks_at_one_gateway_after_the_other_has_said_so_is_the_same_incident(
    play: Callable[..., None], store_url: str
) -> None:
    async def scenario(one: Bench, other: Bench) -> None:
        one.circle.tried([BROKEN])
        await other.until(DEGRADED)
        other.circle.tried([BROKEN])
        await other.saved()
        assert true_of(one).breaker.failures == 1

    play(scenario, store_url)


def test_a_server_s_words_are_stored_whatever_they_are(play: Callable[..., None], store_url: str) -> None:
    """No database takes a NUL, and JSON may hold half a surrogate pair: it must not block the store for ever."""

    async def scenario(one: Bench, other: Bench) -> None:
        one.circle.tried([Try("cuda-0", "m", grpc_status=13, message="ECC error \0 \ud800 é")])
        one.circle.observed(Observation("cuda-0", error="refused \0 \ud800"))
        await other.until(WITHOUT)
        await one.saved()
        assert breaker_events(one) == ["Healthy → Faulted: ECC error ? ? é"]

    play(scenario, store_url)


def test_failures_at_both_gateways_count_together(play: Callable[..., None], store_url: str) -> None:
    async def scenario(one: Bench, other: Bench) -> None:
        for bench in (one, other, one):
            bench.circle.tried([TIMEOUT])
            for each in (one, other, one):
                await each.saved()
        await other.until(WITHOUT)
        assert [b.circle.breakers["cuda-0"].state for b in (one, other)] == [State.ISOLATED] * 2
        why = "no answer within the gateway's request_timeout_s"
        assert breaker_events(one) == [f"Healthy → Degraded: {why}", f"Degraded → Isolated: {why}"]

    play(scenario, store_url)


def test_a_cool_down_ends_at_the_same_moment_whatever_the_hosts_clocks_say(
    play: Callable[..., None], postgres: Postgres
) -> None:
    """An hour apart, and the cool-down takes five minutes: by its own clock the other would have ended it at once."""

    async def scenario(one: Bench, other: Bench) -> None:
        clocks = [bench.circle._sharing.now() for bench in (one, other)]
        assert clocks == [pytest.approx(one.now, abs=1)] * 2
        one.circle.tried([TIMEOUT] * 3)
        await other.until(WITHOUT)
        other.now += 301
        await one.until(EVEN)
        assert breaker_events(one)[-1] == "Isolated → Healthy"

    play(scenario, postgres.url(postgres.new_database()), ahead_s=3600.0)


def test_both_go_on_from_memory_and_agree_when_the_database_is_back(
    play: Callable[..., None], postgres: Postgres
) -> None:
    async def scenario(one: Bench, other: Bench) -> None:
        await asyncio.to_thread(postgres.stop)
        one.circle.drain("rocm-0")
        other.circle.tried([FAULT])
        await one.until({"cuda-0": 1.0, "rocm-0": 0.0})
        await other.until(WITHOUT)
        for bench in (one, other):
            await bench.saved()
            assert "cannot be" in (bench.circle.store_error or "")
        await asyncio.to_thread(postgres.start)
        for bench in (one, other):
            await bench.until({"cuda-0": 0.0, "rocm-0": 0.0})
            await bench.saved()
            assert bench.circle.store_error is None
        assert {e.text for e in one.store.events(100)} >= {"drained by a person", f"Healthy → Faulted: {ECC}"}

    play(scenario, postgres.url(postgres.new_database()))


def test_a_router_stops_in_time_while_its_database_hangs(
    fleet_of: Callable[..., Fleet], postgres: Postgres, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        store = Store(postgres.url(postgres.new_database()))
        async with AsyncExitStack() as stack:
            bench = await stack.enter_async_context(running(fleet_of(*NAMES), store))
            await bench.until(EVEN)
            with postgres.hung():
                bench.circle.drain("cuda-0")
                async with asyncio.timeout(10 * MOST_S):
                    await stack.aclose()
                assert bench.circle.store_error
        store.close()

    run_async(scenario())


def test_a_database_that_hangs_delays_no_decision_and_what_is_said_meanwhile_is_kept(
    play: Callable[..., None], postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bimetal.store.database.MOST_S", 2 * PATIENCE_S)  # longer than the test waits

    async def scenario(one: Bench, other: Bench) -> None:
        journal = Journal(one.circle.fleet.state_dir / "journal.json")
        with postgres.hung():
            one.circle.drain("cuda-0")
            one.circle.tried([FAULT])
            await one.until(WITHOUT)
            async with asyncio.timeout(PATIENCE_S):
                while not {"breaker", "drain"} <= {e.kind for e in journal.recall().unwritten}:
                    await asyncio.sleep(0.01)
            assert one.circle.store_error is None, "the exchange with the store was not given up: nothing waited for it"
        await other.until(WITHOUT)
        await one.saved()
        true = true_of(other)
        assert (true.breaker.state, true.drained.on, true.incidents) == (State.FAULTED, True, 1)

    play(scenario, postgres.url(postgres.new_database()))
