"""Counters that outlive a run: an event is counted once, when it is new.

A gauge of the last Xid would stay at its value until a restart, and every scrape of it would look like a new error.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from .kernel_log import Event
from .reading import ReadingError

Key = tuple[str, str, str]  # kind, PCI address or "unknown", code or ""


@dataclass
class Counters:
    """Totals since the state file was made, and how far the sources have been counted."""

    boot_id: str | None = None
    log_seconds: float = -1.0
    log_events_at_that_second: int = 0
    totals: dict[Key, int] = field(default_factory=dict)
    levels: dict[Key, int] = field(default_factory=dict)

    def add_events(self, boot_id: str | None, events: list[Event]) -> None:
        """Count the events of the kernel log that no earlier run counted; another boot has another log."""
        if boot_id != self.boot_id:
            self.boot_id, self.log_seconds, self.log_events_at_that_second = boot_id, -1.0, 0
        same = [event for event in events if event.seconds == self.log_seconds]
        new = same[self.log_events_at_that_second :] + [event for event in events if event.seconds > self.log_seconds]
        for event in new:
            key = (event.kind, event.pci_address or "unknown", event.code or "")
            self.totals[key] = self.totals.get(key, 0) + 1
        if new:
            self.log_seconds = max(event.seconds for event in new)
            self.log_events_at_that_second = sum(event.seconds == self.log_seconds for event in events)

    def add_level(self, key: Key, level: int | None) -> None:
        """Count what a driver's own counter rose by. It begins again when the driver is loaded; None adds nothing."""
        if level is None:
            return
        before = self.levels.get(key, 0)
        self.totals[key] = self.totals.get(key, 0) + (level - before if level >= before else level)
        self.levels[key] = level


def dump(counters: Counters) -> str:
    """The state file's text."""
    document = asdict(counters)
    for name in ("totals", "levels"):
        document[name] = [[*key, value] for key, value in sorted(document[name].items())]
    return json.dumps(document, indent=1) + "\n"


def load(text: str | None) -> Counters:
    """The state of the last run; of None, a new one. Raises ReadingError for a file that is none of ours."""
    if text is None:
        return Counters()
    try:
        document = json.loads(text)
        for name in ("totals", "levels"):
            document[name] = {(kind, address, code): value for kind, address, code, value in document[name]}
        return Counters(**document)
    except (ValueError, KeyError, TypeError) as error:
        raise ReadingError(
            f"the state file is unreadable ({error}): expected JSON that the probe wrote",
            "Nothing: it is written anew, and counters begin at what the kernel log still has.",
            failure="mismatch",
        ) from error
