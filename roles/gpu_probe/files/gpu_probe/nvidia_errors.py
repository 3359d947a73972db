"""Whole-output failures of nvidia-smi: a lost GPU is a fault of the GPU, the rest are failures of the driver."""

from __future__ import annotations

import re

from . import cells
from .host import ToolRun
from .reading import Fault, ReadingError, pci_address

# Wrapped by some versions, without the space after GPU in others: matched on text with single spaces.
_HANDLE = re.compile(
    r"Unable to determine the device handle for GPU ?([0-9A-Fa-f]+:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]): "
    r"(GPU is lost|[A-Za-z ]{1,40})"
)
_DOCTOR = "Run ansible/playbooks/doctor.yml: it finds the cause and the next step."
_FAILURES = (
    ("couldn't communicate with the NVIDIA driver", "driver_unreachable", _DOCTOR),
    ("Driver/library version mismatch", "version_mismatch", "Reboot, or unload and load the nvidia modules."),
    ("Failed to initialize NVML", "nvml", _DOCTOR),
    ("No devices were found", "no_devices", "Look at the kernel log: the driver refused every GPU that it saw."),
)


def faults(output: str, source: str) -> list[Fault]:
    """GPUs that the driver cannot reach any more, one fault for each."""
    found = []
    for address, words in _HANDLE.findall(" ".join(output.split())):
        kind = "lost" if words == cells.LOST else "unreachable"
        found.append(Fault(pci_address(address), kind, f"the driver has no handle of it: {words.strip()}", source))
    return found


def check(run: ToolRun) -> None:
    """Raise ReadingError when a run of nvidia-smi gave no reading.

    Exit status and stream differ by version and failure, so the words decide first.
    """
    if not run.found:
        raise ReadingError(
            "nvidia-smi is not installed", "Install the driver's tools with role nvidia_driver.", "absent"
        )
    if run.problem is not None:
        raise ReadingError(run.problem, "Look at the kernel log for Xid 79 or a hung task; a reboot may be needed.")
    for words, failure, next_step in _FAILURES:
        if words in " ".join(run.output.split()):
            raise ReadingError(f"nvidia-smi says: {words}", next_step, failure)
    if run.status != 0:
        first = (run.output.splitlines() or ["nothing"])[0]
        raise ReadingError(f"nvidia-smi ended with status {run.status} and printed: {first}", _DOCTOR)
