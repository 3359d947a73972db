"""What collectors hand on: readings per GPU, faults of GPUs, and failures of the collectors themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

Json = dict[str, Any]
Reading = TypeVar("Reading")


class ReadingError(Exception):
    """A collector cannot give a reading. That says nothing about the GPU.

    `failure` is a word for programs (absent, mismatch, driver_unreachable, …), `next_step` one for people.
    """

    def __init__(self, message: str, next_step: str, failure: str = "failed") -> None:
        super().__init__(message)
        self.next_step = next_step
        self.failure = failure


@dataclass(frozen=True)
class Fault:
    """A GPU that is not well. `pci_address` is None where the tool did not say which."""

    pci_address: str | None
    kind: str
    message: str
    source: str


@dataclass(frozen=True)
class CollectorResult:
    """How a collector fared: `ok`, or a failure in a word and in a sentence."""

    name: str
    ok: bool
    failure: str | None = None
    error: str | None = None
    next_step: str | None = None

    def as_json(self) -> Json:
        """For the document, keyed by name there."""
        return {key: value for key, value in asdict(self).items() if key != "name"}


def attempt(name: str, read: Callable[[], Reading]) -> tuple[Reading | None, CollectorResult]:
    """Run one collector; its failure is a result and stops nothing else."""
    try:
        return read(), CollectorResult(name, True)
    except ReadingError as error:
        return None, CollectorResult(name, False, error.failure, str(error), error.next_step)


@dataclass
class VendorReadings:
    """What the tools of one vendor gave: readings by PCI address, and whatever else they told."""

    gpus: dict[str, Json] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    versions: dict[str, str | None] = field(default_factory=dict)
    collectors: list[CollectorResult] = field(default_factory=list)

    def collect(self, name: str, read: Callable[[], None]) -> bool:
        """Run one collector and record how it fared; returns whether it gave a reading."""
        _, result = attempt(name, read)
        self.collectors.append(result)
        return result.ok

    def report(self, faults: list[Fault]) -> None:
        """Add faults that no earlier collector reported."""
        known = {(fault.pci_address, fault.kind) for fault in self.faults}
        self.faults += [fault for fault in faults if (fault.pci_address, fault.kind) not in known]

    def add(self, pci_address: str, reading: Json) -> None:
        """Add to what is known of a GPU: an earlier collector's value stays, null is filled in."""
        known = self.gpus.setdefault(pci_address, {})
        for key, value in reading.items():
            if known.get(key) is None:
                known[key] = value


_ADDRESS = re.compile(r"^(?:PCI:)?([0-9a-f]{1,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-9a-f]))?$", re.IGNORECASE)


def pci_address(text: str) -> str:
    """One spelling for all: `00000000:0B:00.0`, `000:0B:00.0`, `PCI:0000:0b:00` → `0000:0b:00.0`, as sysfs has it.

    Raises ReadingError for anything else.
    """
    match = _ADDRESS.match(text.strip())
    if match is None:
        raise ReadingError(
            f"'{text}' is no PCI address: expected domain:bus:device.function",
            "Report the tool's version and its output.",
            failure="mismatch",
        )
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function or 0}".lower()
