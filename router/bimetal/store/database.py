"""The database below the store: transactions that end in time, whatever the server does, and errors without secrets."""

import os
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

from sqlalchemy import create_engine, event, func, select
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError
from sqlalchemy.orm import Session

from bimetal.errors import StoreError
from bimetal.fleet.store_url import is_sqlite, parse_store_url

MOST_S = 3.0
"""A transaction takes milliseconds; one that takes this long meets a server that hangs, and is given up."""
_CONNECT_S = 2
_BUSY_S = 5.0
"""How long SQLite waits for other processes that write, each until its disk has it."""
_MORE_TRIES = 3
"""Where another gateway makes a table at the same moment, it is there at the next try."""
# So that a server never keeps the locks of a gateway that is gone or stopped in the middle.
_SERVER_LIMITS_MS = {"statement_timeout": 2500, "lock_timeout": 2000, "idle_in_transaction_session_timeout": 5000}

Verb = Literal["read", "written"]


class Database:
    """Opens transactions.

    Args:
        url: as `parse_store_url` takes it; ValueError if it does not.
        create: makes what is missing in an empty database.
        clock: Unix time in seconds.
    """

    def __init__(self, url: str, create: Callable[[Connection], None], clock: Callable[[], float]) -> None:
        parsed = parse_store_url(url)
        self._password = parsed.password
        self._shown = parsed.render_as_string(hide_password=True)
        self._local = is_sqlite(parsed)
        self._engine = _sqlite_engine(parsed) if self._local else _postgresql_engine(parsed)
        self._create = create
        self._clock = clock
        self._created = False

    @contextmanager
    def transaction(self, verb: Verb) -> Iterator[Session]:
        """One transaction, which ends within a few seconds, and only wholly.

        Raises:
            StoreError: it failed; nothing was written, or the answer to its commit was lost.
        """
        try:
            self._make_tables()
            with Session(self._engine) as session, self._in_time(session.connection()):
                try:
                    yield session
                    session.commit()
                except BaseException:
                    session.rollback()  # in time, too: it asks the server
                    raise
        except (SQLAlchemyError, sqlite3.Error, ValueError) as error:
            self._created = False  # somebody may have dropped the tables
            raise self._error(verb, error) from error

    def seconds_ahead(self, session: Session) -> tuple[float, float]:
        """How far the database's clock is ahead of ours, and how wrong that may be (half the time of asking)."""
        if self._local:
            return 0.0, 0.0  # a file is read by one host only
        before = self._clock()
        there = float(session.scalar(select(func.extract("epoch", func.clock_timestamp()))) or before)
        after = self._clock()
        return there - (before + after) / 2, (after - before) / 2

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def _make_tables(self) -> None:
        if self._created:
            return
        with self._engine.connect() as connection, self._in_time(connection):
            for last in (*[False] * _MORE_TRIES, True):
                try:
                    with connection.begin():
                        self._create(connection)
                    break
                except (IntegrityError, OperationalError, ProgrammingError):
                    if last or connection.invalidated:
                        raise
        self._created = True

    @contextmanager
    def _in_time(self, connection: Connection) -> Iterator[None]:
        """Hangs up when the time is over: libpq itself waits for ever for a server that is there and says nothing."""
        if self._local:
            yield
            return
        # A socket of our own for the same connection: its number cannot be somebody else's by then.
        with socket.socket(fileno=os.dup(_fileno(connection))) as line:
            timer = threading.Timer(MOST_S, _hang_up, [line])
            timer.daemon = True
            timer.start()
            try:
                yield
            finally:
                timer.cancel()
                timer.join()

    def _error(self, verb: Verb, error: Exception) -> StoreError:
        said = " ".join(str(getattr(error, "orig", None) or error).split())
        if self._password:
            said = said.replace(str(self._password), "***")
        return StoreError(
            f"the state store {self._shown} cannot be {verb}: {said.rstrip('.?')}.",
            "Check that its folder or server exists, is writable and has space.",
        )


def _sqlite_engine(url: Any) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _BUSY_S})

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        # Readers and the one writer of several processes do not wait for each other. It is a property of the file: that
        # another process sets it at this moment is as good.
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode=WAL")

    return engine


def _postgresql_engine(url: Any) -> Engine:
    limits = " ".join(f"-c {name}={ms}" for name, ms in _SERVER_LIMITS_MS.items())
    arguments = {"connect_timeout": _CONNECT_S, "options": limits, "application_name": "bimetal"}
    given = {name: value for name, value in arguments.items() if name not in url.query}
    return create_engine(url, connect_args=given, pool_timeout=MOST_S, pool_size=2)


def _hang_up(line: socket.socket) -> None:
    with suppress(OSError):  # the server was faster
        line.shutdown(socket.SHUT_RDWR)


def _fileno(connection: Connection) -> int:
    driver: Any = connection.connection.dbapi_connection
    number: int = driver.fileno()
    return number
