"""The store: what all gateways of a cluster share, and what must outlive a restart.

The truth about each backend, the timeline of events, and what was learned. An SQLite file by default, which gateways of
one host may share; PostgreSQL where several hosts have one.

A store that is down stops nothing: the router goes on from memory, and what could not be written is written when it is
back. Every call ends within seconds.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Insert, Update, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from bimetal.breaker.shared import UNKNOWN, Shared, news
from bimetal.errors import StoreError
from bimetal.state.event import Event
from bimetal.store.database import Database
from bimetal.store.tables import BackendRow, EventRow, LearnedRow, columns_of, create_missing, shared_of

_MOST_CONFLICTS = 10


@dataclass(frozen=True)
class Held:
    """What the store holds of one backend; version 0 where it holds nothing."""

    version: int = 0
    shared: Shared = UNKNOWN


NOTHING = Held()


@dataclass(frozen=True)
class Exchange:
    """What the store holds after ours was merged in; how many seconds its clock is ahead of ours, and how exactly."""

    held: Mapping[str, Held]
    seconds_ahead: float
    uncertainty: float


@dataclass(frozen=True)
class Record:
    """One version of a document of its kind; the store numbers the versions of each kind from 1."""

    kind: str
    at: float
    reason: str
    document: str
    version: int = 0


class Store:
    """Opens nothing before it is asked.

    Args:
        url: an SQLAlchemy database URL; ValueError if it is not supported.
        clock: Unix time in seconds.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self._database = Database(url, create_missing, clock)

    def exchange(self, ours: Mapping[str, Shared], bases: Mapping[str, Held], events: Sequence[Event] = ()) -> Exchange:
        """Merge what is true here with what the store holds, and write what is new, with the events that led to it.

        A row is written only over the version that was merged; where another gateway was faster, its row is read and
        merged again.

        Args:
            ours: of every backend that concerns us.
            bases: what the store held when ours went on from it; a missing one was never read.
            events: those whose key the timeline has already are left out.

        Raises:
            StoreError: nothing was written; or all was, and the answer was lost: then it may be written again.
        """
        with self._database.transaction("read") as session:
            held = _read(session, ours)
            ahead, uncertainty = self._database.seconds_ahead(session)
        changed = [name for name in sorted(ours) if news(_shared(bases.get(name)), ours[name], held[name].shared)]
        if changed or events:
            with self._database.transaction("written") as session:
                for name in changed:
                    held[name] = _settle(session, name, bases.get(name), ours[name], held[name])
                _add(session, events)
        return Exchange(held, ahead, uncertainty)

    def events(self, limit: int) -> list[Event]:
        """The newest events, newest first. Raises StoreError."""
        newest = select(EventRow).order_by(EventRow.id.desc()).limit(limit)
        with self._database.transaction("read") as session:
            return [Event(r.at, r.backend, r.kind, r.text, r.key) for r in session.scalars(newest)]

    def newest(self, kind: str) -> Record | None:
        """The newest version of a kind. Raises StoreError."""
        records = self.records(kind, limit=1)
        return records[0] if records else None

    def newest_of_each(self, beginning: str) -> list[Record]:
        """The newest version of each kind whose name begins so, by name. Raises StoreError."""
        kinds = select(LearnedRow.kind).where(LearnedRow.kind.startswith(beginning, autoescape=True)).distinct()
        with self._database.transaction("read") as session:
            names = sorted(session.scalars(kinds))
        return [record for name in names if (record := self.newest(name))]

    def records(self, kind: str, limit: int | None = None) -> list[Record]:
        """The versions of a kind, newest first. Raises StoreError."""
        wanted = select(LearnedRow).where(LearnedRow.kind == kind).order_by(LearnedRow.version.desc()).limit(limit)
        with self._database.transaction("read") as session:
            return [Record(r.kind, r.at, r.reason, r.document, r.version) for r in session.scalars(wanted)]

    def record(self, new: Record, events: Sequence[Event] = (), keep: int | None = None) -> int:
        """Add a version, and events, in one transaction; the version's number.

        Args:
            keep: how many of the newest versions of the kind stay; None keeps all.

        Raises:
            StoreError: nothing was written.
        """
        for _ in range(_MOST_CONFLICTS):
            try:
                return self._record(new, events, keep)
            except StoreError as error:
                if not isinstance(error.__cause__, IntegrityError):
                    raise
                taken = error  # another gateway took the number at the same moment
        raise taken

    def _record(self, new: Record, events: Sequence[Event], keep: int | None) -> int:
        newest = select(func.max(LearnedRow.version)).where(LearnedRow.kind == new.kind)
        with self._database.transaction("written") as session:
            version = (session.scalar(newest) or 0) + 1
            row = {"kind": new.kind, "version": version, "at": new.at, "reason": new.reason, "document": new.document}
            session.execute(insert(LearnedRow).values(row))
            _add(session, events)
            if keep is not None:
                old = LearnedRow.version <= version - keep
                session.execute(delete(LearnedRow).where(LearnedRow.kind == new.kind, old))
        return version

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()


def _settle(session: Session, name: str, base: Held | None, ours: Shared, held: Held) -> Held:
    """Merge and write until nobody was faster; what the store holds then."""
    for _ in range(_MOST_CONFLICTS):
        true = news(_shared(base), ours, held.shared)
        if true is None:
            return held
        if _swap(session, name, held.version, true):
            return Held(held.version + 1, true)
        held = _read(session, [name])[name]
    raise StoreError(f"the state store's row of {name} is changed all the time.", "It is tried again in a moment.")


def _shared(held: Held | None) -> Shared | None:
    return held.shared if held else None


def _read(session: Session, names: Iterable[str]) -> dict[str, Held]:
    held = dict.fromkeys(names, NOTHING)
    rows = select(BackendRow).where(BackendRow.name.in_(held)).execution_options(populate_existing=True)
    held |= {row.name: Held(row.version, shared_of(row)) for row in session.scalars(rows)}
    return held


def _swap(session: Session, name: str, version: int, shared: Shared) -> bool:
    """Replace that version of a backend's row; False if the store does not hold it any more."""
    columns = columns_of(shared) | {"version": version + 1}
    statement: Insert | Update
    if version == 0:
        statement = _insert_new(session, BackendRow).values(name=name, **columns)
    else:
        statement = update(BackendRow).where(BackendRow.name == name, BackendRow.version == version).values(columns)
    return session.connection().execute(statement.returning(BackendRow.name)).first() is not None


def _add(session: Session, events: Sequence[Event]) -> None:
    if events:
        session.connection().execute(_insert_new(session, EventRow), [asdict(event) for event in events])


def _insert_new(session: Session, table: type) -> Insert:
    """Inserts the rows that are not there yet."""
    if session.get_bind().dialect.name == "sqlite":
        return sqlite.insert(table).on_conflict_do_nothing()
    return postgresql.insert(table).on_conflict_do_nothing()
