"""The tables of the store, and rows as values."""

from sqlalchemy import Boolean, Connection, Float, Index, Integer, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from bimetal.breaker.breaker import Breaker, State, Tier
from bimetal.breaker.shared import Shared, Switch


class _Base(DeclarativeBase):
    pass


class BackendRow(_Base):
    """What is true of one backend; `version` grows with every write, and a write names the version that it replaces."""

    __tablename__ = "backend"
    name: Mapped[str] = mapped_column(String(63), primary_key=True)
    version: Mapped[int] = mapped_column(Integer)
    state: Mapped[str] = mapped_column(String(16))
    failures: Mapped[int] = mapped_column(Integer)
    successes: Mapped[int] = mapped_column(Integer)
    tier: Mapped[str | None] = mapped_column(String(16))
    until: Mapped[float | None] = mapped_column(Float(53))
    """Unix time by the database's clock."""
    reason: Mapped[str] = mapped_column(Text)
    incidents: Mapped[int] = mapped_column(Integer)
    clears: Mapped[int] = mapped_column(Integer)
    drain_turns: Mapped[int] = mapped_column(Integer)
    drained: Mapped[bool | None] = mapped_column(Boolean)
    reach_turns: Mapped[int] = mapped_column(Integer)
    reached: Mapped[bool | None] = mapped_column(Boolean)


class EventRow(_Base):
    """The timeline. Several gateways may write one event: the first does."""

    __tablename__ = "timeline"
    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    at: Mapped[float] = mapped_column(Float(53))
    backend: Mapped[str] = mapped_column(String(63))
    kind: Mapped[str] = mapped_column(String(32))
    text: Mapped[str] = mapped_column(Text)
    key: Mapped[str | None] = mapped_column(String(64))
    __table_args__ = (Index("timeline_at", "at"), Index("timeline_key", "backend", "key", unique=True))


class LearnedRow(_Base):
    """Versions of documents; none is ever changed."""

    __tablename__ = "learned"
    kind: Mapped[str] = mapped_column(String(32), primary_key=True)
    version: Mapped[int] = mapped_column(Integer, primary_key=True)
    at: Mapped[float] = mapped_column(Float(53))
    reason: Mapped[str] = mapped_column(Text)
    document: Mapped[str] = mapped_column(Text)


def create_missing(connection: Connection) -> None:
    """Make the tables that are not there."""
    _Base.metadata.create_all(connection)


def shared_of(row: BackendRow) -> Shared:
    """Raises ValueError for a state or tier that this release does not know."""
    tier = Tier(row.tier) if row.tier else None
    return Shared(
        Breaker(State(row.state), row.failures, row.successes, tier, row.until, row.reason),
        row.incidents,
        row.clears,
        Switch(row.drain_turns, row.drained),
        Switch(row.reach_turns, row.reached),
    )


def columns_of(shared: Shared) -> dict[str, object]:
    """The columns that `shared_of` reads."""
    breaker = shared.breaker
    return {
        "state": breaker.state.value,
        "failures": breaker.failures,
        "successes": breaker.successes,
        "tier": breaker.tier.value if breaker.tier else None,
        "until": breaker.until,
        "reason": breaker.reason,
        "incidents": shared.incidents,
        "clears": shared.clears,
        "drain_turns": shared.drained.turns,
        "drained": shared.drained.on,
        "reach_turns": shared.reached.turns,
        "reached": shared.reached.on,
    }
