"""How hot a host's GPUs are, and when that is not known."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bimetal.fleet.schema import Fleet
from bimetal.probes.gpu_metrics import Freshness, GpuMetricsProbe, read_gpu_metrics
from bimetal.state.observation import ThermalReading
from tests.patience import PATIENCE_S

RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]
FIRST, SECOND = "0000:0b:00.0", "0000:0c:00.0"


def scrape(written_at: float, **margins: float) -> str:
    lines = [f"bimetal_gpu_probe_timestamp_seconds {written_at}", "node_load1 0.5"]
    for name, margin in margins.items():
        pci = {"first": FIRST, "second": SECOND}[name]
        lines.append(f'bimetal_gpu_temperature_celsius{{pci="{pci}",vendor="nvidia"}} {90 - margin}')
        lines.append(f'bimetal_gpu_slowdown_temperature_celsius{{pci="{pci}",vendor="nvidia"}} 90')
    return "\n".join(lines) + "\n"


def test_the_hottest_of_the_devices_that_serve_counts() -> None:
    metrics = read_gpu_metrics(scrape(1000, first=30, second=4))
    assert metrics.written_at == 1000
    assert [metrics.smallest(a) for a in (set(), {FIRST}, {SECOND}, {FIRST, SECOND})] == [4, 30, 4, 4]


def test_a_device_that_tells_nothing_makes_the_whole_unknown() -> None:
    """Not the coolest of the others: the silent one may be the hot one."""
    assert read_gpu_metrics(scrape(1000, first=30)).smallest({FIRST, SECOND}) is None
    assert read_gpu_metrics(scrape(1000)).smallest(set()) is None


@pytest.mark.parametrize("text", ["", "<html>502</html>", "bimetal_gpu_temperature_celsius{pci= 3\n"])
def test_text_that_is_no_metrics_says_nothing(text: str) -> None:
    metrics = read_gpu_metrics(text)
    assert (metrics.written_at, dict(metrics.margins_c)) == (None, {})


def test_a_file_that_is_written_no_more_grows_stale() -> None:
    """llm-d: herds from stale telemetry; stale is unknown."""
    freshness = Freshness(limit_s=180)
    assert freshness.is_fresh(1000.0, unix_now=1010.0, monotonic_now=0.0)
    assert freshness.is_fresh(1000.0, unix_now=1180.0, monotonic_now=170.0)
    assert not freshness.is_fresh(1000.0, unix_now=1181.0, monotonic_now=171.0)
    assert not freshness.is_fresh(None, unix_now=1181.0, monotonic_now=171.0)


@pytest.mark.parametrize("host_ahead_s", [-7200.0, 7200.0])
def test_a_clock_that_differs_is_believed_once_it_moves(host_ahead_s: float) -> None:
    freshness = Freshness(limit_s=180)
    written = [1000 + host_ahead_s, 1060 + host_ahead_s]
    assert not freshness.is_fresh(written[0], unix_now=1000.0, monotonic_now=0.0)
    assert freshness.is_fresh(written[1], unix_now=1060.0, monotonic_now=60.0)
    assert not freshness.is_fresh(written[1], unix_now=1300.0, monotonic_now=300.0)


def test_the_probe_reports_what_the_exporter_says_and_unknown_when_it_is_gone(
    fleet_of: Callable[..., Fleet], run_async: RunAsync
) -> None:
    async def scenario() -> list[float | None]:
        answers = [scrape(1000, first=4), scrape(1000, first=4, second=2)]
        heard: list[float | None] = []
        two = asyncio.Event()

        async def metrics(_: web.Request) -> web.Response:
            return web.Response(text=answers[min(len(heard), 1)])

        def report(reading: ThermalReading) -> None:
            heard.append(reading.margin_c)
            if len(heard) >= 2:
                two.set()

        app = web.Application()
        app.router.add_get("/metrics", metrics)
        server = TestServer(app)
        await server.start_server()
        fleet = fleet_of(
            "cuda-0",
            extras={"cuda-0": {"gpu_metrics_url": str(server.make_url("/metrics"))}},
            probes={"gpu_metrics_interval_s": 0.01},
        )
        async with aiohttp.ClientSession(auto_decompress=False) as http, asyncio.timeout(PATIENCE_S):
            probe = GpuMetricsProbe(fleet.backends[0], fleet.probes, report, http, lambda: 1010.0)
            task = asyncio.create_task(probe.run())
            await two.wait()
            await server.close()
            while heard[-1] is not None:
                await asyncio.sleep(0.01)
            task.cancel()
        return heard

    heard = run_async(scenario())
    assert heard[:2] == [4.0, 2.0]
    assert heard[-1] is None
