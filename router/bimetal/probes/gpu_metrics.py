"""How far a host's GPUs are from slowing down, from the metrics of the role gpu_probe behind node_exporter."""

import asyncio
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from bimetal.fleet.schema import Backend
from bimetal.fleet.settings import ProbeSettings
from bimetal.state.observation import ThermalReading

_NOW = "bimetal_gpu_temperature_celsius"
_SLOWDOWN = "bimetal_gpu_slowdown_temperature_celsius"
_WRITTEN = "bimetal_gpu_probe_timestamp_seconds"
_MOST_BYTES = 16 * 2**20


@dataclass(frozen=True)
class GpuMetrics:
    """What one scrape says.

    Attributes:
        written_at: when the probe ran, in seconds since the epoch by the host's clock; None if it does not say.
        margins_c: by PCI address, °C up to the temperature at which the hardware slows down; GPUs of which either
            temperature is unknown are missing.
    """

    written_at: float | None
    margins_c: Mapping[str, float]

    def smallest(self, addresses: Set[str]) -> float | None:
        """The margin of the hottest of these GPUs, of all of the host's if none is named; None if any is unknown."""
        found = [self.margins_c.get(address) for address in addresses or self.margins_c]
        known = [margin for margin in found if margin is not None]
        return min(known) if known and len(known) == len(found) else None


def read_gpu_metrics(text: str) -> GpuMetrics:
    """Read a scrape of node_exporter. What is not in Prometheus' text format says nothing."""
    samples: dict[str, dict[str, float]] = {_NOW: {}, _SLOWDOWN: {}, _WRITTEN: {}}
    ours = "".join(line for line in text.splitlines(keepends=True) if line.startswith(tuple(samples)))
    try:
        for family in text_string_to_metric_families(ours):
            for sample in family.samples:
                samples[sample.name][sample.labels.get("pci", "")] = sample.value
    except (ValueError, KeyError):
        return GpuMetrics(None, {})
    both = samples[_NOW].keys() & samples[_SLOWDOWN].keys()
    return GpuMetrics(samples[_WRITTEN].get(""), {pci: samples[_SLOWDOWN][pci] - samples[_NOW][pci] for pci in both})


class Freshness:
    """Whether the probe behind node_exporter still runs: node_exporter goes on publishing an old file.

    The clocks of host and router may differ, so a time stamp that moves is as good as a recent one.

    Args:
        limit_s: seconds without either after which it counts as stopped.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._last: float | None = None
        self._moved_at = float("-inf")

    def is_fresh(self, written_at: float | None, unix_now: float, monotonic_now: float) -> bool:
        """Take in one time stamp; whether what came with it may be believed."""
        if written_at is None:
            return False
        if self._last is not None and written_at != self._last:
            self._moved_at = monotonic_now
        self._last = written_at
        recent = abs(unix_now - written_at) <= self._limit_s
        return recent or monotonic_now - self._moved_at <= self._limit_s


class GpuMetricsProbe:
    """Watches the GPUs of one backend's host and hands every finding to `report`."""

    def __init__(
        self,
        backend: Backend,
        settings: ProbeSettings,
        report: Callable[[ThermalReading], None],
        http: aiohttp.ClientSession,
        clock: Callable[[], float],
    ) -> None:
        assert backend.gpu_metrics_url
        self._url = backend.gpu_metrics_url
        self._backend = backend
        self._addresses = {d.pci for d in backend.devices if d.pci}
        self._settings = settings
        self._report = report
        self._http = http
        self._clock = clock
        self._freshness = Freshness(settings.gpu_metrics_stale_s)

    async def run(self) -> None:
        """Scrape until cancelled."""
        while True:
            self._report(ThermalReading(self._backend.name, await self._margin()))
            await asyncio.sleep(self._settings.gpu_metrics_interval_s)

    async def _margin(self) -> float | None:
        """None for everything that is not a fresh answer: unknown, which is neither hot nor cool."""
        try:
            timeout = aiohttp.ClientTimeout(total=self._settings.timeout_s)
            async with self._http.get(self._url, timeout=timeout) as answer:
                text = await _bounded_text(answer) if answer.ok else ""
        except (aiohttp.ClientError, TimeoutError):
            return None
        metrics = read_gpu_metrics(text)
        now = asyncio.get_running_loop().time()
        if not self._freshness.is_fresh(metrics.written_at, self._clock(), now):
            return None
        return metrics.smallest(self._addresses)


async def _bounded_text(answer: aiohttp.ClientResponse) -> str:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(2**16):
        body += chunk
        if len(body) > _MOST_BYTES:
            return ""
    return body.decode(errors="replace")
