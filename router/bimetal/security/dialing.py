"""gRPC connections with mutual TLS: those that the router takes, and those that it makes to Tritons."""

from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog

from bimetal.fleet.schema import Backend
from bimetal.fleet.security import InternalTls

log = structlog.get_logger(__name__)

Options = list[tuple[str, int | str]]


@dataclass(frozen=True)
class _Identity:
    """PEM bytes of an authority, a certificate chain and its key."""

    ca: bytes
    chain: bytes
    key: bytes


class IdentityFiles:
    """This host's identity, read anew when its files change; unreadable files leave the last good one in place."""

    def __init__(self, tls: InternalTls) -> None:
        self._paths = (tls.ca, tls.certificate, tls.private_key)
        self._seen = self._stamps()
        self._now = _read(*self._paths)

    def newest(self) -> tuple[_Identity, bool]:
        """The identity, and whether it is another than the last time."""
        try:
            stamps = self._stamps()
            if stamps == self._seen:
                return self._now, False
            self._now, self._seen = _read(*self._paths), stamps
        except OSError as error:
            log.warning("the certificate files cannot be read; the last ones stay in use", error=str(error))
            return self._now, False
        log.info("certificate files read anew")
        return self._now, True

    def _stamps(self) -> list[tuple[int, int]]:
        return [(s.st_mtime_ns, s.st_ino) for s in (path.stat() for path in self._paths)]


def _read(ca: Path, chain: Path, key: Path) -> _Identity:
    return _Identity(ca.read_bytes(), chain.read_bytes(), key.read_bytes())


class Dialer:
    """Says how to connect to a backend's gRPC port. The fleet file has no TLS backends without `tls`."""

    def __init__(self, tls: InternalTls | None = None) -> None:
        self._files = IdentityFiles(tls) if tls else None

    def credentials(self, backend: Backend) -> grpc.ChannelCredentials | None:
        """With the newest certificate of this host; None for plain text."""
        if not backend.tls or self._files is None:
            return None
        identity, _ = self._files.newest()
        return grpc.ssl_channel_credentials(identity.ca, identity.key, identity.chain)

    def options(self, backend: Backend) -> Options:
        """Whom the backend's certificate must be made out to: its name, not its address."""
        return [("grpc.ssl_target_name_override", backend.name)] if backend.tls else []

    def channel(self, backend: Backend, options: Options) -> grpc.aio.Channel:
        """A new channel to a backend."""
        credentials = self.credentials(backend)
        if credentials is None:
            return grpc.aio.insecure_channel(backend.grpc_address, options)
        return grpc.aio.secure_channel(backend.grpc_address, credentials, [*options, *self.options(backend)])


def server_credentials(tls: InternalTls) -> grpc.ServerCredentials:
    """Asks every client for a certificate of the authority; a renewed certificate serves the next connection."""
    files = IdentityFiles(tls)

    def configuration(identity: _Identity) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(identity.key, identity.chain)], identity.ca)

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        identity, is_new = files.newest()
        return configuration(identity) if is_new else None

    first, _ = files.newest()
    return grpc.dynamic_ssl_server_credentials(configuration(first), renewed, require_client_authentication=True)
