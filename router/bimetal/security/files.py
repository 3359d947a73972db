"""Looks at the security files before anything is served, so that what is wrong is said at the start."""

import ssl
import stat
from collections.abc import Callable
from pathlib import Path

import structlog

from bimetal.errors import FleetFileError, SecretFileError
from bimetal.fleet.file import point_at
from bimetal.fleet.schema import Fleet
from bimetal.fleet.store_url import parse_store_url
from bimetal.security.secrets import check_mode, read_api_keys, read_token

log = structlog.get_logger(__name__)


def check_security_files(fleet_file: Path, fleet: Fleet) -> None:
    """Read every certificate, key and secret that the fleet file names.

    Raises:
        FleetFileError: one is missing, unreadable, open to others, or does not fit; names file, line and key.
    """
    security = fleet.security
    checks: list[tuple[tuple[str, ...], Callable[[], object]]] = []
    if security.gateway.certificate and security.gateway.private_key:
        certificate, key = security.gateway.certificate, security.gateway.private_key
        checks.append((("gateway", "private_key"), lambda: _check_pair(certificate, key)))
    if security.gateway.api_keys:
        keys = security.gateway.api_keys
        checks.append((("gateway", "api_keys"), lambda: read_api_keys(keys)))
    if security.internal:
        tls = security.internal
        checks.append((("internal", "ca"), lambda: _check_ca(tls.ca)))
        checks.append((("internal", "private_key"), lambda: _check_pair(tls.certificate, tls.private_key)))
    if security.admin_token:
        token = security.admin_token
        checks.append((("admin_token",), lambda: read_token(token)))
    _check_store_url(fleet_file, fleet)
    for key_in_section, check in checks:
        try:
            check()
        except SecretFileError as error:
            where = point_at(fleet_file, ("security", *key_in_section))
            raise FleetFileError(f"{where}: {error.what}", error.next_step) from error
    if security.insecure:
        log.warning("security.insecure is set: ports that other hosts reach may be open to all of them")


def _check_store_url(fleet_file: Path, fleet: Fleet) -> None:
    mode = stat.S_IMODE(fleet_file.stat().st_mode)
    if parse_store_url(fleet.database_url).password and mode & 0o077:
        raise FleetFileError(
            f"{point_at(fleet_file, ('store_url',))}: the URL holds a password and the file's mode is {mode:04o}: "
            "expected 0600, so that only its owner can read it.",
            "Better: name a password file instead (?passfile=/FILE, docs/security.md).",
        )


def _check_pair(certificate: Path, key: Path) -> None:
    for path in (certificate, key):
        _check_readable(path)
    check_mode(key, stat.S_IMODE(key.stat().st_mode))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise SecretFileError(
            f"{certificate} and {key}: expected a PEM certificate and its own key, without a password: {error}.",
            "Make a new pair as docs/security.md shows.",
        ) from error


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _check_ca(path: Path) -> None:
    _check_readable(path)
    try:
        ssl.create_default_context(cafile=str(path))
    except ssl.SSLError as error:
        raise SecretFileError(
            f"{path}: expected the PEM certificate of an authority: {error}.", "See docs/security.md."
        ) from error


def _check_readable(path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise SecretFileError(
            f"{path}: it cannot be read: {error.strerror}.", "Correct the path, or make it."
        ) from error
