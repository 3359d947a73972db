"""Events of GPUs in the kernel log, from `dmesg`: Xid of NVIDIA's driver, resets and RAS of amdgpu."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .host import Host
from .reading import ReadingError, pci_address

SOURCE = "dmesg"
_LINE = re.compile(r"^\[\s*(\d+\.\d+)\] (.*)$")
_ADDRESS = r"(?:(?P<address>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d):? )?"
_EVENTS = (
    ("xid", re.compile(r"NVRM: Xid \((?P<address>PCI:[0-9a-f:.]+)\): (?P<code>\d+)", re.IGNORECASE)),
    ("reset", re.compile(rf"amdgpu:? {_ADDRESS}.*GPU reset begin")),
    ("ring_timeout", re.compile(rf"amdgpu\S* {_ADDRESS}.*ring (?P<code>\S+) timeout")),
    ("ras", re.compile(rf"amdgpu:? {_ADDRESS}.*[1-9]\d* (?P<code>uncorrectable) hardware errors? detected")),
)
# How a kernel refuses a module without a signature that it trusts (kernel/module/signing.c, security/lockdown).
# "module verification failed" is not among them: that kernel loads the module and taints itself.
_REFUSED = re.compile(r"Loading of .* is rejected|unsigned module loading is restricted")


@dataclass(frozen=True)
class Event:
    """One line of the log. `seconds` since boot; `code` the Xid or the ring; address None where the line has none."""

    seconds: float
    kind: str
    pci_address: str | None
    code: str | None


@dataclass(frozen=True)
class KernelLog:
    """What the log says about GPUs."""

    events: list[Event]
    refused_module_lines: list[str]


def read(host: Host) -> KernelLog:
    """Raises ReadingError where the log may not be read."""
    run = host.run("dmesg")
    if run.status != 0:
        raise ReadingError(
            f"the kernel log cannot be read: {run.problem or run.output.strip()}",
            "Run the probe as root.",
            "failed" if run.found else "absent",
        )
    return parse(run.stdout)


def parse(text: str) -> KernelLog:
    """Lines with a time stamp are read; others (a wrapped line) are not."""
    events = []
    refused = []
    for line in text.splitlines():
        stamped = _LINE.match(line)
        if stamped is None:
            continue
        seconds, message = float(stamped.group(1)), stamped.group(2)
        if _REFUSED.search(message):
            refused.append(message)
        event = _event(seconds, message)
        if event:
            events.append(event)
    return KernelLog(events, refused)


def _event(seconds: float, message: str) -> Event | None:
    for kind, pattern in _EVENTS:
        match = pattern.search(message)
        if match:
            groups = match.groupdict()
            address = groups.get("address")
            return Event(seconds, kind, pci_address(address) if address else None, groups.get("code"))
    return None
