"""The secrets themselves, read from files that only their owner can read. Never logged, never shown."""

import hashlib
import hmac
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from bimetal.errors import SecretFileError
from bimetal.fleet.security import Security

_LEAST_LENGTH = 16
"""Characters of a secret: 16 of `openssl rand -hex` are 64 bits, which nobody guesses over a network."""

_BEARER = b"bearer "


class Secrets:
    """The admin token and the API keys, held as digests so that no traceback or dump can show them.

    Args:
        admin_token: None if administration needs none.
        api_keys: none if requests need none.
    """

    def __init__(self, admin_token: str | None = None, api_keys: Iterable[str] = ()) -> None:
        self._admin_token = None if admin_token is None else _digest(admin_token.encode())
        self._api_keys = tuple(_digest(key.encode()) for key in api_keys)

    @classmethod
    def of(cls, security: Security) -> "Secrets":
        """Those that the fleet's files hold. Raises SecretFileError."""
        token = read_token(security.admin_token) if security.admin_token else None
        return cls(token, read_api_keys(security.gateway.api_keys) if security.gateway.api_keys else ())

    @property
    def guards_admin(self) -> bool:
        """Whether administration needs a token."""
        return self._admin_token is not None

    @property
    def guards_requests(self) -> bool:
        """Whether requests need an API key."""
        return bool(self._api_keys)

    def is_admin(self, candidate: bytes) -> bool:
        """Whether that is the admin token; takes as long for a wrong one as for the right one."""
        return self._admin_token is not None and hmac.compare_digest(self._admin_token, _digest(candidate))

    def is_api_key(self, candidate: bytes) -> bool:
        """Whether that is one of the API keys; every key is compared, whichever fits."""
        digest = _digest(candidate)
        return sum(hmac.compare_digest(key, digest) for key in self._api_keys) > 0


def bearer(header: bytes) -> bytes:
    """The secret in an `authorization` header: what follows "Bearer ", in any case of letters, or all of it."""
    return header[len(_BEARER) :] if header[: len(_BEARER)].lower() == _BEARER else header


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def read_token(path: Path) -> str:
    """The one secret in a file. Raises SecretFileError."""
    lines = _read_lines(path)
    if len(lines) != 1:
        raise SecretFileError(f"{path}: expected one line with a token, found {len(lines)}.", _MAKE)
    return lines[0]


def read_api_keys(path: Path) -> list[str]:
    """The keys of a file, in its order. Raises SecretFileError."""
    lines = _read_lines(path)
    if not lines:
        raise SecretFileError(f"{path}: expected one API key per line, found none.", _MAKE)
    if len(set(lines)) < len(lines):
        raise SecretFileError(f"{path}: a key stands there twice.", "Remove one of the two lines.")
    return lines


_MAKE = "Make one: (umask 077; openssl rand -hex 32 > FILE)."


def _read_lines(path: Path) -> list[str]:
    try:
        with path.open(encoding="ascii") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            lines = [line.strip() for line in file]
    except OSError as error:
        raise SecretFileError(
            f"{path}: the secret cannot be read: {error.strerror}.", "Run as its owner, or correct the path."
        ) from error
    except UnicodeDecodeError:
        # Not chained: the error would quote the bytes.
        raise SecretFileError(f"{path}: expected ASCII characters only.", _MAKE) from None
    check_mode(path, mode)
    secrets = [line for line in lines if line and not line.startswith("#")]
    for secret in secrets:
        if len(secret) < _LEAST_LENGTH or not secret.isprintable() or " " in secret:
            raise SecretFileError(
                f"{path}: expected secrets of at least {_LEAST_LENGTH} characters without blanks; one is not.", _MAKE
            )
    return secrets


def check_mode(path: Path, mode: int) -> None:
    """Raises SecretFileError if anyone but the owner may touch the file."""
    if mode & 0o077:
        raise SecretFileError(
            f"{path}: its mode is {mode:04o}: expected 0600, so that only its owner can read it.",
            f"Run: chmod 600 {path}",
        )
