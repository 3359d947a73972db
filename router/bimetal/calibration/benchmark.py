"""Measures devices with torch: CUDA's and ROCm's builds of it look alike. torch is given, never imported here.

Each figure is the best of the rounds that fit into its budget: whatever else runs on the host only makes one slower.
"""

import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, Literal

from bimetal.calibration.document import Calibration, DeviceFigures
from bimetal.verify.host import this_host

_COPY_BYTES = 1 << 28
"""Larger than any cache: 256 MiB are 2.5 times the L2 and Infinity caches of a B200 and an MI300X."""
_ROUND_CALLS = 16
"""Work that is queued before it is waited for: one launch costs as much as a product of 1024 rows."""
_MOST_ROUNDS = 1000


@dataclass(frozen=True)
class Options:
    """`seconds` is the budget of each figure, of which a GPU has four; `gemm_size` the rows of both matrices."""

    seconds: float = 2.0
    gemm_size: int = 1024


class Benchmark:
    """Measures with one torch and one clock (seconds, monotonic)."""

    def __init__(self, torch: ModuleType | Any, clock: Callable[[], float], options: Options) -> None:
        self._torch, self._clock, self._options = torch, clock, options

    def run(self) -> Calibration:
        """Measure every GPU, or the CPU of a host that torch finds none on."""
        started = datetime.now(UTC)
        gpus = range(self._torch.cuda.device_count()) if self._torch.cuda.is_available() else range(0)
        devices = [self._gpu(index) for index in gpus] or [self._cpu()]
        vendor: Literal["nvidia", "amd", "cpu"] = "cpu"
        if devices[0].kind == "gpu":
            vendor = "amd" if self._torch.version.hip else "nvidia"
        return Calibration(
            host=platform.node() or "localhost",
            vendor=vendor,
            torch=str(self._torch.__version__),
            started=started,
            devices=tuple(devices),
        )

    def _gpu(self, index: int) -> DeviceFigures:
        torch, device = self._torch, f"cuda:{index}"
        properties = torch.cuda.get_device_properties(index)
        host = torch.empty(_COPY_BYTES, dtype=torch.uint8, pin_memory=True)
        there = torch.empty(_COPY_BYTES, dtype=torch.uint8, device=device)
        return DeviceFigures(
            name=properties.name,
            kind="gpu",
            pci_address=_pci_address(properties),
            gemm_size=self._options.gemm_size,
            gemm_type="float16",
            gemm_tflops=self._gemm(device, torch.float16),
            memory_bandwidth_gbs=self._memory(device),
            to_device_gbs=self._copy(there, host, device, 1),
            from_device_gbs=self._copy(host, there, device, 1),
        )

    def _cpu(self) -> DeviceFigures:
        return DeviceFigures(
            name=this_host(threads=1).cpu,
            kind="cpu",
            gemm_size=self._options.gemm_size,
            # Few CPUs multiply fp16 natively: that would measure an emulation.
            gemm_type="float32",
            gemm_tflops=self._gemm("cpu", self._torch.float32),
            memory_bandwidth_gbs=self._memory("cpu"),
        )

    def _gemm(self, device: str, kind: Any) -> float:
        size = self._options.gemm_size
        left, right = (self._torch.rand(size, size, device=device).to(kind) for _ in range(2))
        out = self._torch.empty(size, size, dtype=kind, device=device)
        seconds = self._best(lambda: self._torch.matmul(left, right, out=out), device)
        return float(2 * size**3 / seconds / 1e12)

    def _memory(self, device: str) -> float:
        source, target = (
            self._torch.empty(_COPY_BYTES, dtype=self._torch.uint8, device=device).fill_(1) for _ in range(2)
        )
        return self._copy(target, source, device, 2)

    def _copy(self, target: Any, source: Any, device: str, passes: int) -> float:
        """GB/s of a copy that goes over the memory or the link in question `passes` times."""
        seconds = self._best(lambda: target.copy_(source, non_blocking=True), device)
        return passes * _COPY_BYTES / seconds / 1e9

    def _best(self, work: Callable[[], Any], device: str) -> float:
        """Seconds of one call of `work`, in the best round after a first one, which pays for compilation and pages."""
        self._round(work, device)
        return min(self._round(work, device) for _ in self._rounds())

    def _rounds(self) -> Iterator[int]:
        end = self._clock() + self._options.seconds
        for number in range(_MOST_ROUNDS):
            yield number
            if self._clock() >= end:
                return

    def _round(self, work: Callable[[], Any], device: str) -> float:
        self._wait(device)
        begin = self._clock()
        for _ in range(_ROUND_CALLS):
            work()
        self._wait(device)
        return (self._clock() - begin) / _ROUND_CALLS

    def _wait(self, device: str) -> None:
        if device != "cpu":
            self._torch.cuda.synchronize(device)


def _pci_address(properties: Any) -> str | None:
    """As sysfs and gpu_probe write it; None for a torch that does not tell."""
    try:
        return f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
    except AttributeError:
        return None
