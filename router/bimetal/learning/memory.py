"""The learning's part of the store: documents in, documents out."""

from typing import TypeVar

from pydantic import ValidationError

from bimetal.errors import BimetalError, StoreError
from bimetal.learning.documents import LESSONS, STATISTICS, Lessons, Statistics
from bimetal.state.event import Event
from bimetal.store.store import Record, Store

_Document = TypeVar("_Document", Statistics, Lessons)


_WEEK_S = 7 * 86400.0


class Memory:
    """Statistics (each gateway's newest) and lessons (every version, for all gateways).

    Args:
        gateway: what tells this gateway from the others at one store, at most 20 characters.
    """

    def __init__(self, store: Store, gateway: str = "") -> None:
        self._store = store
        self._kind = f"{STATISTICS}/{gateway}" if gateway else STATISTICS

    def statistics(self) -> Statistics:
        """This gateway's; those of another, where it has none yet; empty if there are none. Raises StoreError."""
        records = {record.kind: record for record in self._store.newest_of_each(STATISTICS)}
        latest = max(records.values(), key=lambda record: record.at, default=None)
        record = records.get(self._kind, latest)
        return _read(Statistics, record) if record else Statistics()

    def measured(self, now: float) -> Statistics:
        """The arms of all gateways that have measured within a week, side by side. Raises StoreError."""
        records = [r for r in self._store.newest_of_each(STATISTICS) if now - r.at <= _WEEK_S]
        return Statistics(arms=tuple(arm for record in records for arm in _read(Statistics, record).arms))

    def save_statistics(self, statistics: Statistics, now: float) -> None:
        """Replace this gateway's. Raises StoreError."""
        self._store.record(Record(self._kind, now, "measured", statistics.model_dump_json()), keep=1)

    def lessons(self) -> tuple[int, Lessons]:
        """The newest version, and its number; (0, empty) if nothing was ever learned. Raises StoreError."""
        record = self._store.newest(LESSONS)
        return (record.version, _read(Lessons, record)) if record else (0, Lessons())

    def lessons_of(self, version: int) -> Lessons:
        """One version; 0 is the empty one that everything began with.

        Raises:
            BimetalError: there is no such version; names those that there are.
            StoreError: the store cannot be read.
        """
        records = {record.version: record for record in self._store.records(LESSONS)}
        if version == 0:
            return Lessons()
        if version not in records:
            known = ", ".join(str(v) for v in (0, *sorted(records)))
            raise BimetalError(f"there is no version {version} of the lessons.", f"Known versions: {known}.")
        return _read(Lessons, records[version])

    def save_lessons(self, lessons: Lessons, reason: str, now: float, events: list[Event]) -> int:
        """Add a version and its events in one transaction; the new version's number. Raises StoreError."""
        return self._store.record(Record(LESSONS, now, reason, lessons.model_dump_json()), events=events)


def _read(kind: type[_Document], record: Record) -> _Document:
    try:
        return kind.model_validate_json(record.document)
    except ValidationError as error:
        raise StoreError(
            f"the store's {record.kind} of version {record.version} cannot be read: {error.errors()[0]['msg']}.",
            "It was written by another release or changed by hand: delete that row of the table `learned`.",
        ) from error
