"""Mutual TLS over gRPC, with real certificates and a real server."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bimetal.fleet.schema import Backend
from bimetal.fleet.security import InternalTls
from bimetal.security.dialing import Dialer, server_credentials
from tests.e2e.secure_cluster import Authority, Identity
from tests.patience import PATIENCE_S

RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]


class _Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # generated, untyped
    async def Check(self, _request: Any, _context: Any) -> Any:  # noqa: N802  # the protocol's name
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


def _tls(authority: Authority, identity: Identity) -> InternalTls:
    return InternalTls(ca=authority.file, certificate=identity.certificate, private_key=identity.private_key)


def _backend(name: str, port: int) -> Backend:
    ports = {"http_port": 1, "grpc_port": port, "metrics_port": 2}
    return Backend.model_validate({"name": name, "pool": "cpu", "host": "127.0.0.1", "tls": True, **ports})


@contextmanager
def _served(run_async: RunAsync, tls: InternalTls) -> Iterator[int]:
    """A server with that identity, and its port."""

    async def start() -> tuple[Any, int]:
        server = grpc.aio.server()
        health_pb2_grpc.add_HealthServicer_to_server(_Health(), server)
        port = server.add_secure_port("127.0.0.1:0", server_credentials(tls))
        await server.start()
        return server, port

    server, port = run_async(start())
    try:
        yield port
    finally:
        run_async(server.stop(0))


def _ask(run_async: RunAsync, channel_of: Callable[[], grpc.aio.Channel]) -> grpc.StatusCode:
    async def ask() -> grpc.StatusCode:
        async with channel_of() as channel:
            try:
                await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
            except grpc.aio.AioRpcError as error:
                return error.code()
        return grpc.StatusCode.OK

    code: grpc.StatusCode = run_async(ask())
    return code


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.mark.parametrize(
    ("made_out_to", "code"), [("cpu-0", "OK"), ("cpu-1", "UNAVAILABLE"), ("127.0.0.1", "UNAVAILABLE")]
)
def test_a_triton_is_trusted_if_its_certificate_is_made_out_to_its_backends_name(
    run_async: RunAsync, authority: Authority, made_out_to: str, code: str
) -> None:
    dialer = Dialer(_tls(authority, authority.issue("host", "127.0.0.1")))
    with _served(run_async, _tls(authority, authority.issue("triton", made_out_to))) as port:
        assert _ask(run_async, lambda: dialer.channel(_backend("cpu-0", port), [])).name == code


def test_a_client_of_another_authority_is_refused(run_async: RunAsync, authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "stranger")
    stranger = other.issue("client")
    dialer = Dialer(InternalTls(ca=authority.file, certificate=stranger.certificate, private_key=stranger.private_key))
    with _served(run_async, _tls(authority, authority.issue("triton", "cpu-0"))) as port:
        code = _ask(run_async, lambda: dialer.channel(_backend("cpu-0", port), []))
    assert code is grpc.StatusCode.UNAVAILABLE


def test_a_renewed_certificate_serves_the_next_connection(run_async: RunAsync, authority: Authority) -> None:
    dialer = Dialer(_tls(authority, authority.issue("host", "127.0.0.1")))
    triton = authority.issue("triton", "cpu-1")
    with _served(run_async, _tls(authority, triton)) as port:
        first = _ask(run_async, lambda: dialer.channel(_backend("cpu-0", port), []))
        _put_in_place(authority.issue("renewed", "cpu-0"), triton)
        second = _ask(run_async, lambda: dialer.channel(_backend("cpu-0", port), []))
    assert (first, second) == (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.OK)


def _put_in_place(new: Identity, old: Identity) -> None:
    new.private_key.rename(old.private_key)
    new.certificate.rename(old.certificate)


def test_files_that_vanish_leave_the_last_identity_in_place(run_async: RunAsync, authority: Authority) -> None:
    host = authority.issue("host", "127.0.0.1")
    dialer = Dialer(_tls(authority, host))
    host.certificate.unlink()
    with _served(run_async, _tls(authority, authority.issue("triton", "cpu-0"))) as port:
        assert _ask(run_async, lambda: dialer.channel(_backend("cpu-0", port), [])) is grpc.StatusCode.OK
