"""What must outlive a restart: breaker states, the timeline of events and what was learned.

SQLite by default, any SQLAlchemy URL.

A store that is down stops nothing: the router goes on from memory, `Store.error` says so, and what could not be written
is written when it is back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Float, Index, Integer, String, Text, create_engine, delete, func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from router.errors import StoreError
from router.policy.breaker import NEW, Breaker, State, Tier


class _Base(DeclarativeBase):
    pass


class _BreakerRow(_Base):
    __tablename__ = "breaker"
    backend: Mapped[str] = mapped_column(String(63), primary_key=True)
    state: Mapped[str] = mapped_column(String(16))
    failures: Mapped[int] = mapped_column(Integer)
    successes: Mapped[int] = mapped_column(Integer)
    tier: Mapped[str | None] = mapped_column(String(16))
    until: Mapped[float | None] = mapped_column(Float)
    reason: Mapped[str] = mapped_column(Text)


class _DrainRow(_Base):
    __tablename__ = "drain"
    backend: Mapped[str] = mapped_column(String(63), primary_key=True)


class _EventRow(_Base):
    __tablename__ = "event"
    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    at: Mapped[float] = mapped_column(Float)
    backend: Mapped[str] = mapped_column(String(63))
    kind: Mapped[str] = mapped_column(String(32))
    text: Mapped[str] = mapped_column(Text)
    __table_args__ = (Index("event_at", "at"),)


@dataclass(frozen=True)
class Remembered:
    """What the store knows of the backends: breakers with a history, and the drained ones."""

    breakers: Mapping[str, Breaker]
    drained: frozenset[str]


class _LearnedRow(_Base):
    __tablename__ = "learned"
    kind: Mapped[str] = mapped_column(String(32), primary_key=True)
    version: Mapped[int] = mapped_column(Integer, primary_key=True)
    at: Mapped[float] = mapped_column(Float)
    reason: Mapped[str] = mapped_column(Text)
    document: Mapped[str] = mapped_column(Text)


@dataclass(frozen=True)
class Event:
    """Something that happened to a backend; `at` is a Unix time in seconds."""

    at: float
    backend: str
    kind: str
    text: str


@dataclass(frozen=True)
class Record:
    """One version of a document of its kind; the store numbers the versions of each kind from 1."""

    kind: str
    at: float
    reason: str
    document: str
    version: int = 0


class Store:
    """Reads once at start, writes after each change.

    Args:
        url: an SQLAlchemy database URL.
    """

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url)
        self._url = self._engine.url.render_as_string(hide_password=True)
        self._has_tables = False

    def load(self) -> Remembered:
        """What was last saved; creates the tables in an empty database.

        Raises:
            StoreError: the database cannot be opened or read.
        """
        try:
            self._make_tables()
            with Session(self._engine) as session:
                breakers = {row.backend: _breaker(row) for row in session.scalars(select(_BreakerRow))}
                return Remembered(breakers, frozenset(session.scalars(select(_DrainRow.backend))))
        except (SQLAlchemyError, ValueError) as error:
            raise self._error("read", error) from error

    def save(self, known: Remembered, events: list[Event]) -> None:
        """Write what is known now, and the events that led to it, in one transaction.

        Raises:
            StoreError: nothing was written.
        """
        try:
            self._make_tables()
            with Session(self._engine) as session, session.begin():
                session.execute(delete(_BreakerRow))
                session.execute(delete(_DrainRow))
                session.add_all(_row(name, b) for name, b in known.breakers.items() if b != NEW)
                session.add_all(_DrainRow(backend=name) for name in known.drained)
                session.add_all(_event_row(e) for e in events)
        except SQLAlchemyError as error:
            raise self._error("written", error) from error

    def events(self, limit: int) -> list[Event]:
        """The newest events, newest first. Raises StoreError."""
        newest = select(_EventRow).order_by(_EventRow.id.desc()).limit(limit)
        try:
            with Session(self._engine) as session:
                return [Event(r.at, r.backend, r.kind, r.text) for r in session.scalars(newest)]
        except SQLAlchemyError as error:
            raise self._error("read", error) from error

    def newest(self, kind: str) -> Record | None:
        """The newest version of a kind. Raises StoreError."""
        records = self.records(kind, limit=1)
        return records[0] if records else None

    def records(self, kind: str, limit: int | None = None) -> list[Record]:
        """The versions of a kind, newest first. Raises StoreError."""
        wanted = select(_LearnedRow).where(_LearnedRow.kind == kind).order_by(_LearnedRow.version.desc()).limit(limit)
        try:
            self._make_tables()
            with Session(self._engine) as session:
                return [Record(r.kind, r.at, r.reason, r.document, r.version) for r in session.scalars(wanted)]
        except SQLAlchemyError as error:
            raise self._error("read", error) from error

    def record(self, new: Record, events: Sequence[Event] = (), keep: int | None = None) -> int:
        """Add a version, and events, in one transaction; the version's number.

        Args:
            keep: how many of the newest versions of the kind stay; None keeps all.

        Raises:
            StoreError: nothing was written.
        """
        newest = select(func.max(_LearnedRow.version)).where(_LearnedRow.kind == new.kind)
        try:
            self._make_tables()
            with Session(self._engine) as session, session.begin():
                version = (session.scalar(newest) or 0) + 1
                session.add(
                    _LearnedRow(kind=new.kind, version=version, at=new.at, reason=new.reason, document=new.document)
                )
                session.add_all(_event_row(e) for e in events)
                if keep is not None:
                    old = _LearnedRow.version <= version - keep
                    session.execute(delete(_LearnedRow).where(_LearnedRow.kind == new.kind, old))
        except SQLAlchemyError as error:
            raise self._error("written", error) from error
        return version

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def _make_tables(self) -> None:
        if not self._has_tables:
            _Base.metadata.create_all(self._engine)
            self._has_tables = True

    def _error(self, verb: str, error: Exception) -> StoreError:
        return StoreError(
            f"the state store {self._url} cannot be {verb}: {getattr(error, 'orig', None) or error}.",
            "Check that its folder or server exists, is writable and has space.",
        )


def _breaker(row: _BreakerRow) -> Breaker:
    return Breaker(
        State(row.state),
        row.failures,
        row.successes,
        Tier(row.tier) if row.tier else None,
        row.until,
        row.reason,
    )


def _row(name: str, b: Breaker) -> _BreakerRow:
    return _BreakerRow(
        backend=name,
        state=b.state.value,
        failures=b.failures,
        successes=b.successes,
        tier=b.tier.value if b.tier else None,
        until=b.until,
        reason=b.reason,
    )


def _event_row(event: Event) -> _EventRow:
    return _EventRow(at=event.at, backend=event.backend, kind=event.kind, text=event.text)
