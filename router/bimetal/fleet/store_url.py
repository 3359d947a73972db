"""Where the state store is: SQLAlchemy URLs, as the fleet file may have them. Pure; no message repeats a URL."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, SecretStr
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from bimetal.fleet.security import is_loopback

_EXPECTED = "expected postgresql+psycopg://USER@HOST/DATABASE, or sqlite:////ABSOLUTE/PATH"


def sqlite_url(state_dir: Path) -> str:
    """The store of a single gateway."""
    return f"sqlite:///{state_dir / 'router.db'}"


def parse_store_url(text: str) -> URL:
    """Check a URL and name the driver that this project has. Raises ValueError, without the URL."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ValueError(f"no database URL: {_EXPECTED}") from None
    if {"password", "sslpassword"} & url.query.keys():
        raise ValueError("a password among the options would be shown: expected USER:PASSWORD@HOST, or passfile=/FILE")
    if url.drivername in {"postgresql", "postgres", "postgresql+psycopg"}:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername in {"sqlite", "sqlite+pysqlite"}:
        if not url.database or not Path(url.database).is_absolute():
            raise ValueError(f"a store in memory or at a relative path would be lost: {_EXPECTED}")
        return url
    raise ValueError(f"{url.drivername} is not supported: {_EXPECTED}")


def _checked(text: SecretStr) -> SecretStr:
    parse_store_url(text.get_secret_value())
    return text


StoreUrl = Annotated[SecretStr, AfterValidator(_checked)]
"""A checked URL, which may hold a password."""


def is_sqlite(url: URL) -> bool:
    """Whether it is a file, for the gateways of one host."""
    return url.get_backend_name() == "sqlite"


def leaves_unprotected(url: URL) -> bool:
    """Whether others could see or forge what it says: it is on another host whose certificate is not checked."""
    if is_sqlite(url) or _first(url.query.get("sslmode")) == "verify-full":
        return False
    hosts = [url.host] if url.host else []
    for given in _all(url.query.get("host")):
        hosts += [host.partition(":")[0] for host in given.split(",")]
    # A path is a Unix socket; no host at all is libpq's default socket.
    return any(not host.startswith("/") and not is_loopback(host) for host in hosts)


def _all(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def _first(value: Any) -> str | None:
    return next(iter(_all(value)), None)
