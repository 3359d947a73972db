"""Bytes that nobody meant to send: no crash, no hang, no 5xx that a Triton would not give, no backend blamed."""

import http.client
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.conformance.grpc_case import SERVICE, GrpcCase
from tests.e2e.conformance.grpc_case import ask as ask_grpc
from tests.e2e.conformance.grpc_infer_cases import identity, repeat
from tests.e2e.conformance.http_case import HttpCase
from tests.e2e.conformance.http_case import ask as ask_http
from tests.e2e.conformance.http_cases import BINARY_HEADER, BODY, FLOATS
from tests.patience import PATIENCE_S

"""How long one answer may take before it counts as a hang."""
BOUNDED = settings(
    max_examples=100,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def one_of(words: str) -> st.SearchStrategy[str]:
    """Any of some words."""
    return st.sampled_from(words.split())


@pytest.fixture(scope="module")
def fuzzed(_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster; afterwards it must be as well as before, with the same processes."""
    programs = ("router", "gateway", "triton-cuda-0", "triton-rocm-0", "triton-cpu-0")
    wait_until(_cluster.is_whole)
    before = {program: _cluster.pid(program) for program in programs}
    yield _cluster
    wait_until(_cluster.is_whole)
    assert {program: _cluster.pid(program) for program in programs} == before
    assert "Traceback" not in (_cluster.state_dir / "log/router.log").read_text(encoding="utf-8")


# HTTP ----------------------------------------------------------------------------------------------------------------

SEGMENTS = one_of(
    "v2 models identity identity_bytes repeat nope versions 1 9 infer generate generate_stream ready stats config"
    " health live repository index region admin metrics .. . %2e%2e %00 %69dentity a%2Fb ' \" {} a;b a=b&c"
) | st.sampled_from(["", "x" * 300])
# Nothing that would really unload or load a model.
PATHS = st.lists(SEGMENTS, min_size=1, max_size=7).map(lambda parts: "/" + "/".join(parts))
METHODS = one_of("GET POST POST POST PUT HEAD DELETE OPTIONS PATCH")
HEADERS = st.dictionaries(
    one_of(
        "Content-Encoding Accept-Encoding Inference-Header-Content-Length Content-Type Accept Expect Range"
        " X-Bimetal-Route X-Bimetal-Sequence Endpoint-Load-Metrics-Format X-Tenant"
    ),
    one_of("gzip deflate identity br 0 -1 12 999999999999999999999 text json")
    | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40),
    max_size=4,
)


@st.composite
def damaged(draw: st.DrawFn, seed: bytes) -> bytes:
    """`seed` with a piece cut out and something else in its place."""
    start = draw(st.integers(0, len(seed)))
    end = draw(st.integers(start, min(len(seed), start + 16)))
    return seed[:start] + draw(st.binary(max_size=16)) + seed[end:]


BODIES = st.none() | st.binary(max_size=200) | damaged(BODY) | damaged(BINARY_HEADER + FLOATS) | st.just(BODY)


@BOUNDED
@given(path=PATHS, method=METHODS, headers=HEADERS, body=BODIES)
def test_http_paths_methods_and_headers(
    fuzzed: Cluster, path: str, method: str, headers: dict[str, str], body: bytes | None
) -> None:
    assert_no_worse_over_http(fuzzed, HttpCase("fuzz", 0, method, path, body, headers))


@BOUNDED
@given(
    body=damaged(BODY) | damaged(BINARY_HEADER + FLOATS) | st.binary(max_size=100),
    length=st.none() | st.integers(-2, 200),
    model=st.sampled_from(["identity", "identity_bytes", "sequence_sum"]),
    action=st.sampled_from(["infer", "generate", "generate_stream"]),
)
def test_http_bodies(fuzzed: Cluster, body: bytes, length: int | None, model: str, action: str) -> None:
    headers = {} if length is None else {"Inference-Header-Content-Length": str(length)}
    assert_no_worse_over_http(fuzzed, HttpCase("fuzz", 0, "POST", f"/v2/models/{model}/{action}", body, headers))


def assert_no_worse_over_http(cluster: Cluster, case: HttpCase) -> None:
    """The gateway answers; with a 5xx only if a Triton has no better answer to the same request."""
    status = _status(cluster.http, case)
    if status >= 500:
        assert _status(cluster.backend("cuda-0").http_address, case) >= 500


def _status(address: str, case: HttpCase) -> int:
    """The status of an answer; 0 if the connection was closed without one."""
    try:
        return ask_http(address, case, PATIENCE_S).status
    except (http.client.HTTPException, ConnectionError):
        return 0


@BOUNDED
@given(
    st.binary(max_size=300)
    | damaged(b"POST /v2/models/identity/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n{}{}")
    | damaged(b"GET /v2/health/ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    | damaged(b"POST /v2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n")
)
def test_bytes_that_are_hardly_http(fuzzed: Cluster, sent: bytes) -> None:
    for port in (fuzzed.fleet.gateway.http_port, fuzzed.fleet.router.http_port):
        status = _first_status(port, sent)
        # 501 is what RFC 9112 (6.1) wants for a transfer coding that a server does not know.
        if status >= 500 and status != 501:
            assert _first_status(fuzzed.backend("cuda-0").http_port, sent) >= 500


def _first_status(port: int, sent: bytes) -> int:
    """The status of the first answer to `sent` when nothing follows it; 0 if none comes."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            status = connection.recv(12).removeprefix(b"HTTP/1.1 ")
        except ConnectionError:
            return 0
    return int(status) if status.isdigit() else 0


# The admin API -------------------------------------------------------------------------------------------------------

ADMIN_PATHS = st.lists(
    one_of("admin status explain events backends nope clear drain undrain identity metrics .. %2e%2e %ff %00 ' a%20b")
    | st.sampled_from(["", "x" * 300]),
    max_size=5,
).map(lambda parts: "/admin/" + "/".join(parts))


@BOUNDED
@given(path=ADMIN_PATHS, method=METHODS, headers=HEADERS, body=st.none() | st.binary(max_size=100))
def test_the_admin_api(fuzzed: Cluster, path: str, method: str, headers: dict[str, str], body: bytes | None) -> None:
    address = f"127.0.0.1:{fuzzed.fleet.router.http_port}"
    assert _status(address, HttpCase("fuzz", 0, method, path, body, headers)) < 500


# gRPC ----------------------------------------------------------------------------------------------------------------

RPCS = one_of(
    "ServerReady ServerMetadata ModelReady ModelMetadata ModelConfig ModelStatistics RepositoryIndex"
    f" ModelInfer ModelInfer ModelStreamInfer ModelStreamInfer {SERVICE}Nope"
)
# One model per stream: Triton 2.51 itself hangs or dies of a stream that has a decoupled model after another one.
SEEDS = [identity(), identity(model_name="sequence_sum"), identity(model_name="nope"), repeat([1, 2])]
MESSAGES = st.sampled_from([seed.SerializeToString() for seed in SEEDS]).flatmap(
    lambda seed: st.lists(damaged(seed) | st.binary(max_size=100), max_size=3)
)
METADATA = st.lists(
    st.tuples(
        st.sampled_from(["x-bimetal-route", "x-bimetal-sequence", "x-tenant", "triton_grpc_error"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
    ),
    max_size=2,
).map(tuple)
SERVERS_FAULT = {"INTERNAL", "UNKNOWN", "UNAVAILABLE", "DATA_LOSS", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}


@pytest.fixture(scope="module")
def channels(fuzzed: Cluster) -> Iterator[tuple[grpc.Channel, grpc.Channel]]:
    """To the gateway, and to one Triton."""
    with (
        grpc.insecure_channel(fuzzed.grpc) as gateway,
        grpc.insecure_channel(fuzzed.backend("cuda-0").grpc_address) as triton,
    ):
        yield gateway, triton


@BOUNDED
@given(
    method=RPCS,
    messages=MESSAGES,
    metadata=METADATA,
    compression=st.sampled_from(["NoCompression", "Gzip", "Deflate"]),
)
def test_grpc_messages(
    channels: tuple[Any, Any], method: str, messages: list[bytes], metadata: Any, compression: str
) -> None:
    requests = tuple(messages if method == "ModelStreamInfer" else messages[:1])
    case = GrpcCase("fuzz", "", method, requests, metadata=metadata, compression=compression, deadline_s=PATIENCE_S)
    gateway, triton = channels
    status = ask_grpc(gateway, case).status
    if status in SERVERS_FAULT:
        assert ask_grpc(triton, case).status == status


def test_no_backend_is_blamed_for_what_clients_sent(fuzzed: Cluster) -> None:
    """SMG 25811: client errors opened the breaker, and the whole fleet was out."""
    broken = GrpcCase("damaged", "INTERNAL", "ModelInfer", (identity().SerializeToString()[:-3],))
    before = {b["name"]: b["state"] for b in fuzzed.status()["backends"]}
    with grpc.insecure_channel(fuzzed.grpc) as channel:
        for _ in range(10):
            assert ask_grpc(channel, broken).status == "INTERNAL"
    after = {b["name"]: b["state"] for b in fuzzed.status()["backends"]}
    assert after == before
