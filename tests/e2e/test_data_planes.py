"""Stock tritonclient through both data planes gets what one Triton gives."""

import json
import queue
import socket
import urllib.request
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.requests import ROWS, identity, tensor
from tests.patience import PATIENCE_S


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_grpc_unary(grpc_client: Any, compression: str | None) -> None:
    np.testing.assert_array_equal(identity(triton_grpc, grpc_client, compression_algorithm=compression), ROWS)


@pytest.mark.parametrize("options", [{}, {"model_version": "1"}, {"request_compression_algorithm": "gzip"}])
def test_http(http_client: Any, options: dict[str, Any]) -> None:
    np.testing.assert_array_equal(identity(triton_http, http_client, **options), ROWS)


def test_plain_json_over_http(cluster: Cluster) -> None:
    body = {"inputs": [{"name": "INPUT0", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
    url = f"http://{cluster.http}/v2/models/identity/infer"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=PATIENCE_S) as answer:
        assert json.load(answer)["outputs"][0]["data"] == [1.0, 2.0]


def test_http_1_0_without_a_host_is_answered(cluster: Cluster) -> None:
    host, port = cluster.http.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert b" 200 " in connection.recv(4096).split(b"\r\n")[0]


def test_http_1_1_without_a_host_is_refused_in_words(cluster: Cluster) -> None:
    """A Triton answers it; Envoy cannot be told to."""
    host, port = cluster.http.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\n\r\n")
        with connection.makefile("rb") as answer:
            assert answer.readline() == b"HTTP/1.1 400 Bad Request\r\n"
            assert b'{"error":"the request has no Host header' in answer.read()


@pytest.mark.parametrize("megabytes", [12, 64])
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_large_tensors_pass(grpc_client: Any, http_client: Any, protocol: str, megabytes: int) -> None:
    """T1776: RESOURCE_EXHAUSTED over 4 MiB."""
    large = np.zeros((1, megabytes * 2**18), np.float32)
    large[0, -1] = 7
    client, module = (grpc_client, triton_grpc) if protocol == "grpc" else (http_client, triton_http)
    np.testing.assert_array_equal(identity(module, client, large), large)


def test_bytes(grpc_client: Any) -> None:
    words = np.array([[b"a", b"\xc3\xbc", b""]], dtype=np.object_)
    answer = grpc_client.infer("identity_bytes", [tensor(triton_grpc, "INPUT0", words, "BYTES")])
    assert answer.as_numpy("OUTPUT0").tolist() == words.tolist()


def test_a_decoupled_model_streams_through_the_gateway(grpc_client: Any) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    grpc_client.start_stream(lambda result, error: answers.put((result, error)))
    values = np.array([4, 2, 0, 1], np.int32)
    inputs = [
        tensor(triton_grpc, "IN", values, "INT32"),
        tensor(triton_grpc, "DELAY", np.ones(4, np.uint32), "UINT32"),
    ]
    for number in ("a", "b"):
        grpc_client.async_stream_infer("repeat", inputs, request_id=number)
    got: dict[str, list[int]] = {"a": [], "b": []}
    while any(len(part) < len(values) for part in got.values()):
        result, error = answers.get(timeout=PATIENCE_S)
        assert error is None
        got[result.get_response().id].append(int(result.as_numpy("OUT")[0]))
    grpc_client.stop_stream()
    assert got == {"a": [4, 2, 0, 1], "b": [4, 2, 0, 1]}


def test_a_stream_for_an_unknown_model_gets_an_error_in_band(grpc_client: Any) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    grpc_client.start_stream(lambda result, error: answers.put((result, error)))
    grpc_client.async_stream_infer("nope", [tensor(triton_grpc, "INPUT0", ROWS)])
    result, error = answers.get(timeout=PATIENCE_S)
    grpc_client.stop_stream()
    assert result is None
    assert "Request for unknown model: 'nope' is not found" in str(error)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize(("model", "version"), [("nope", ""), ("identity", "9")])
def test_an_unknown_model_or_version_gets_tritons_own_error(
    cluster: Cluster, protocol: str, model: str, version: str
) -> None:
    module, direct = triton_grpc, f"127.0.0.1:{cluster.backend('cuda-0').grpc_port}"
    gateway = cluster.grpc
    if protocol == "http":
        module, direct, gateway = triton_http, f"127.0.0.1:{cluster.backend('cuda-0').http_port}", cluster.http
    errors = []
    for address in (direct, gateway):
        with (
            module.InferenceServerClient(address) as client,
            pytest.raises(InferenceServerException) as caught,
        ):
            client.infer(model, [tensor(module, "INPUT0", ROWS)], model_version=version)
        errors.append((caught.value.status(), caught.value.message()))
    assert errors[0] == errors[1]


# A backend is drawn for each request: with equal shares of three, one in 10^9 runs leaves the bounds below.
REQUESTS, FEWEST, MOST = 300, 50, 150
PROXYLESS = f"""
import sys, numpy, tritonclient.grpc as triton
client = triton.InferenceServerClient("xds:///identity")
rows = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
given = triton.InferInput("INPUT0", [2, 3], "FP32")
given.set_data_from_numpy(rows)
for _ in range({REQUESTS}):
    assert (client.infer("identity", [given]).as_numpy("OUTPUT0") == rows).all()
"""


def test_a_proxyless_client_goes_straight_to_the_tritons_in_their_shares(cluster: Cluster) -> None:
    wait_until(lambda: cluster.has_equal_shares("identity"))
    before = cluster.served("identity")
    through_gateway = cluster.envoy_stat("cluster.grpc/identity.upstream_rq_total")
    cluster.run_proxyless("-c", PROXYLESS)
    taken = cluster.served_since(before, "identity")
    assert sum(taken.values()) == REQUESTS
    assert all(FEWEST <= count <= MOST for count in taken.values()), taken
    assert cluster.envoy_stat("cluster.grpc/identity.upstream_rq_total") == through_gateway


def test_one_connection_is_balanced_per_request(cluster: Cluster, grpc_client: Any) -> None:
    """T6177, TC820: one keep-alive connection pins all traffic to one server."""
    wait_until(lambda: cluster.has_equal_shares("identity"))
    before = cluster.served("identity")
    for _ in range(REQUESTS):
        identity(triton_grpc, grpc_client)
    taken = cluster.served_since(before, "identity")
    assert all(FEWEST <= count <= MOST for count in taken.values()), taken


def test_no_data_request_passes_through_the_router(cluster: Cluster, grpc_client: Any, http_client: Any) -> None:
    before = [cluster.envoy_stat(f"cluster.router-{p}.upstream_rq_total") for p in ("grpc", "http")]
    for _ in range(20):
        identity(triton_grpc, grpc_client)
        identity(triton_http, http_client)
    assert [cluster.envoy_stat(f"cluster.router-{p}.upstream_rq_total") for p in ("grpc", "http")] == before


def test_a_client_cannot_choose_the_route_itself(grpc_client: Any) -> None:
    headers = {"x-bimetal-route": "unary/repeat"}
    np.testing.assert_array_equal(identity(triton_grpc, grpc_client, headers=headers), ROWS)
