"""What is measured, with a fake torch on a fake clock: each call takes as long as the fake says."""

from types import SimpleNamespace
from typing import Any

import pytest

from bimetal.calibration.benchmark import Benchmark, Options
from bimetal.calibration.document import Calibration

COPY_BYTES = 1 << 28


class FakeTensor:
    """Knows where it is; a copy takes the time of the slower side."""

    def __init__(self, torch: "FakeTorch", device: str) -> None:
        self._torch, self.device = torch, device

    def to(self, kind: str) -> "FakeTensor":
        self._torch.kinds.append(kind)
        return self

    def fill_(self, _value: int) -> "FakeTensor":
        return self

    def copy_(self, source: "FakeTensor", *, non_blocking: bool) -> None:
        assert non_blocking
        over_the_link = source.device != self.device
        self._torch.now += 0.010 if over_the_link else 0.001


class FakeTorch:
    """A torch that computes nothing: a product takes 1 ms, and the very first call of all a second."""

    float16, float32, uint8 = "float16", "float32", "uint8"
    __version__ = "2.13.0+fake"

    def __init__(self, gpus: int, hip: str | None = None) -> None:
        self.now = 0.0
        self.kinds: list[str] = []
        self.products = 0
        self.version = SimpleNamespace(hip=hip)
        self.cuda = SimpleNamespace(
            is_available=lambda: gpus > 0,
            device_count=lambda: gpus,
            get_device_properties=lambda index: SimpleNamespace(
                name="fake GPU", pci_domain_id=0, pci_bus_id=0x0B + index, pci_device_id=0
            ),
            synchronize=lambda _device: None,
        )

    def empty(self, *_size: int, dtype: str, device: str = "cpu", pin_memory: bool = False) -> FakeTensor:  # noqa: ARG002 - torch has them
        return FakeTensor(self, device)

    def rand(self, *_size: int, device: str) -> FakeTensor:
        return FakeTensor(self, device)

    def matmul(self, _left: FakeTensor, _right: FakeTensor, *, out: FakeTensor) -> None:
        assert out
        self.now += 0.001 if self.products else 1.0
        self.products += 1


def calibrate(torch: Any) -> Calibration:
    return Benchmark(torch, lambda: torch.now, Options(seconds=0.1)).run()


def test_a_gpu_is_measured_in_half_precision_without_its_first_call_and_named_by_its_pci_address() -> None:
    [device] = calibrate(torch := FakeTorch(gpus=1)).devices
    assert (device.kind, device.name, device.pci_address) == ("gpu", "fake GPU", "0000:0b:00.0")
    assert set(torch.kinds) == {"float16"}
    assert device.gemm_tflops == pytest.approx(2 * 1024**3 / 0.001 / 1e12)
    # A copy inside the memory reads and writes each byte; one over the link passes it once.
    assert device.memory_bandwidth_gbs == pytest.approx(2 * COPY_BYTES / 0.001 / 1e9)
    assert device.to_device_gbs == device.from_device_gbs == pytest.approx(COPY_BYTES / 0.010 / 1e9)


@pytest.mark.parametrize(("hip", "vendor"), [(None, "nvidia"), ("6.4", "amd")])
def test_the_vendor_is_that_of_the_build_of_torch(hip: str | None, vendor: str) -> None:
    found = calibrate(FakeTorch(gpus=2, hip=hip))
    assert found.vendor == vendor
    assert [device.pci_address for device in found.devices] == ["0000:0b:00.0", "0000:0c:00.0"]
    assert found.bandwidth_gbs == pytest.approx(2 * found.devices[0].memory_bandwidth_gbs)


def test_without_a_gpu_the_cpu_is_measured_in_single_precision_and_said_to_be_one() -> None:
    found = calibrate(torch := FakeTorch(gpus=0))
    [device] = found.devices
    assert (found.vendor, device.kind, device.gemm_type) == ("cpu", "cpu", "float32")
    assert set(torch.kinds) == {"float32"}
    assert device.to_device_gbs is None
    assert device.from_device_gbs is None


def test_a_torch_that_does_not_tell_pci_addresses_gives_none() -> None:
    torch = FakeTorch(gpus=1)
    torch.cuda.get_device_properties = lambda _index: SimpleNamespace(name="fake GPU")
    [device] = calibrate(torch).devices
    assert device.pci_address is None


def test_each_figure_stays_within_its_budget() -> None:
    calibrate(torch := FakeTorch(gpus=1))
    # A round is 16 products of 1 ms, and the last one begins before 0.1 s are over; a first round comes on top.
    assert torch.products <= 16 * 9
