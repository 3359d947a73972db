"""A live Triton becomes slow, and its traffic goes away: nobody told the router but the access log."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.more_gateways import another_gateway
from tests.e2e.requests import tensor

MODEL = "identity_bytes"
STOPPED_S, RUNNING_S = 0.06, 0.008


@contextmanager
def slowed_down(pid: int) -> Iterator[None]:
    """The process gets its turns as a much slower device would: it is stopped most of the time."""
    end = threading.Event()

    def alternate() -> None:
        while not end.wait(RUNNING_S):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=alternate)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@pytest.fixture
def learning(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """A router and a gateway that learn: the cluster's own do not, for its pools share one processor."""
    with another_gateway(cluster, tmp_path, learning={"enabled": True}) as second:
        yield second


def test_a_triton_that_becomes_slow_loses_its_traffic_and_explain_says_why(cluster: Cluster, learning: Cluster) -> None:
    """llm-d: wrong weights on mixed hardware; what is measured corrects them."""
    with triton_grpc.InferenceServerClient(learning.grpc) as client:
        _slow_down_and_look(cluster, learning, client)


def _slow_down_and_look(cluster: Cluster, learning: Cluster, grpc_client: Any) -> None:
    words = tensor(triton_grpc, "INPUT0", np.array([[b"a"]], dtype=np.object_), "BYTES")

    def share_after_a_request() -> float:
        grpc_client.infer(MODEL, [words])
        return learning.shares(MODEL)["cuda-0"]

    for _ in range(100):
        grpc_client.infer(MODEL, [words])
    with slowed_down(cluster.triton_pid("cuda-0")):
        wait_until(lambda: share_after_a_request() < 0.15)
    explained = json.loads(learning.bimetal("explain", MODEL, "--json"))["backends"]
    slow = next(b for b in explained if b["name"] == "cuda-0")
    assert slow["share"] >= 0.03
    assert slow["factors"]["measured"] < 0.5
    assert "measured: " in " ".join(slow["reasons"])
