"""The document of a calibration: one host, and figures for each of its devices."""

from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from bimetal.documents import read_document
from bimetal.errors import BimetalError

_AGAIN = "Run ansible/playbooks/calibrate.yml for that host again, or remove the file."


class CalibrationError(BimetalError):
    """A calibration cannot be used; names the file, the field and what was expected."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DeviceFigures(_Model):
    """What one device did.

    `gemm_tflops`: products of two square matrices (`gemm_size` rows) of `gemm_type`, in 10^12 operations a second, a
    multiply-add being two. `memory_bandwidth_gbs`: 10^9 bytes a second that a copy inside its memory reads and writes.
    `to_device_gbs`, `from_device_gbs`: copies between it and locked memory of the host; None on a CPU.
    """

    name: str
    kind: Literal["gpu", "cpu"]
    pci_address: str | None = None
    gemm_size: int = Field(ge=1)
    gemm_type: Literal["float16", "float32"]
    gemm_tflops: float = Field(gt=0)
    memory_bandwidth_gbs: float = Field(gt=0)
    to_device_gbs: float | None = Field(default=None, gt=0)
    from_device_gbs: float | None = Field(default=None, gt=0)


class Calibration(_Model):
    """Everything one run of `bimetal calibrate` found.

    `temperatures_c` are the hottest sensors of its GPUs by PCI address right after it, from the role gpu_probe.
    """

    format: Literal[1] = 1
    host: str = Field(min_length=1)
    vendor: Literal["nvidia", "amd", "cpu"]
    torch: str
    started: AwareDatetime
    devices: tuple[DeviceFigures, ...] = Field(min_length=1)
    temperatures_c: dict[str, float] = Field(default_factory=dict)

    @property
    def bandwidth_gbs(self) -> float:
        """Memory bandwidth of all devices together in GB/s."""
        return sum(device.memory_bandwidth_gbs for device in self.devices)


def read_calibration(file: Path) -> Calibration:
    """Read and validate one document.

    Raises:
        CalibrationError: names the file, the first bad field and what was expected.
    """
    return read_document(file, Calibration, "calibration", CalibrationError, _AGAIN)
