"""The learning's part of the store: documents in, documents out."""

from typing import TypeVar

from pydantic import ValidationError

from router.errors import BimetalError, StoreError
from router.learning.documents import LESSONS, STATISTICS, Lessons, Statistics
from router.store import Event, Record, Store

_Document = TypeVar("_Document", Statistics, Lessons)


class Memory:
    """Statistics (the newest only) and lessons (every version)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def statistics(self) -> Statistics:
        """The newest; empty if there are none. Raises StoreError."""
        record = self._store.newest(STATISTICS)
        return _read(Statistics, record) if record else Statistics()

    def save_statistics(self, statistics: Statistics, now: float) -> None:
        """Replace the statistics. Raises StoreError."""
        self._store.record(Record(STATISTICS, now, "measured", statistics.model_dump_json()), keep=1)

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
