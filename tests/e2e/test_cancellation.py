"""A client that goes away, or has no more time, is heard at once; its request is nobody's fault, and sent once."""

import http.client
import json
import queue
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.requests import ROWS, identity, tensor
from tests.patience import PATIENCE_S

LONG_MS = 5 * PATIENCE_S * 1000  # what is not cancelled does not end while a test waits


def slow_inputs() -> list[Any]:
    delay = np.full((1, 1), LONG_MS, np.int32)
    return [tensor(triton_grpc, "INPUT0", ROWS[:1]), tensor(triton_grpc, "DELAY_MS", delay, "INT32")]


def active(cluster: Cluster, protocol: str, model: str) -> int:
    return cluster.envoy_stat(f"cluster.{protocol}/{model}.upstream_rq_active")


def states(cluster: Cluster) -> set[str]:
    return {b["state"] for b in cluster.status()["backends"]}


def test_a_deadline_that_passes_is_neither_retried_nor_held_against_a_backend(
    cluster: Cluster, grpc_client: Any
) -> None:
    """T6920, T7512: a request that timed out still ran, and was sent again."""
    counters = [f"cluster.grpc/slow_identity.upstream_rq_{what}" for what in ("total", "retry")]
    before = [cluster.envoy_stat(name) for name in counters]
    with pytest.raises(InferenceServerException) as caught:
        grpc_client.infer("slow_identity", slow_inputs(), client_timeout=0.5)
    assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    wait_until(lambda: active(cluster, "grpc", "slow_identity") == 0)
    assert [cluster.envoy_stat(name) - count for name, count in zip(counters, before, strict=True)] == [1, 0]
    assert states(cluster) == {"Healthy"}


def test_a_cancelled_call_is_cancelled_at_its_triton(cluster: Cluster, grpc_client: Any) -> None:
    """T7077: the client is gone and the work goes on."""
    call = grpc_client.async_infer("slow_identity", slow_inputs(), callback=lambda *_: None)
    wait_until(lambda: active(cluster, "grpc", "slow_identity") == 1)
    call.cancel()
    wait_until(lambda: active(cluster, "grpc", "slow_identity") == 0)
    assert states(cluster) == {"Healthy"}


def test_an_http_client_that_hangs_up_ends_its_request(cluster: Cluster) -> None:
    """T7077 over HTTP: Triton's own HTTP front end does not notice."""
    body = {
        "inputs": [
            {"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [1]},
            {"name": "DELAY_MS", "shape": [1, 1], "datatype": "INT32", "data": [LONG_MS]},
        ]
    }
    connection = http.client.HTTPConnection(cluster.http)
    connection.request("POST", "/v2/models/slow_identity/infer", json.dumps(body))
    wait_until(lambda: active(cluster, "http", "slow_identity") == 1)
    connection.close()
    wait_until(lambda: active(cluster, "http", "slow_identity") == 0)
    assert states(cluster) == {"Healthy"}


def test_a_stream_that_is_cancelled_ends_at_its_triton(cluster: Cluster, grpc_client: Any) -> None:
    """SMG PR11399, Ray PR40761: the relay noticed late, and the clean-up was skipped."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    grpc_client.start_stream(lambda result, error: answers.put((result, error)))
    elements = np.arange(LONG_MS // 1000, dtype=np.int32)
    delays = np.full(len(elements), 1000, np.uint32)
    delays[0] = 0
    inputs = [tensor(triton_grpc, "IN", elements, "INT32"), tensor(triton_grpc, "DELAY", delays, "UINT32")]
    grpc_client.async_stream_infer("repeat", inputs)
    result, error = answers.get(timeout=PATIENCE_S)
    assert error is None
    assert result.as_numpy("OUT").tolist() == [0]
    grpc_client.stop_stream(cancel_requests=True)
    wait_until(lambda: active(cluster, "grpc", "repeat") == 0)
    assert states(cluster) == {"Healthy"}


def test_bad_requests_take_no_backend_out(cluster: Cluster, grpc_client: Any) -> None:
    """SMG 25811: client errors opened the breaker, and the whole fleet was out."""
    bad_image = np.zeros((1, 3, 33, 47), np.float32)
    for model, given in (("ocr_det", tensor(triton_grpc, "x", bad_image)), ("identity", slow_inputs()[1])):
        for _ in range(10):
            with pytest.raises(InferenceServerException):
                grpc_client.infer(model, [given])
    np.testing.assert_array_equal(identity(triton_grpc, grpc_client), ROWS)
    assert states(cluster) == {"Healthy"}


def test_tensors_without_an_element_pass(grpc_client: Any) -> None:
    """T5972, T4865: zero-size tensors."""
    empty = np.zeros((1, 0), np.float32)
    assert identity(triton_grpc, grpc_client, empty).shape == (1, 0)
