"""A Triton that hangs, whole or on one port, holds nobody up; what times out is explained by the log."""

import http.client
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.load import Loader
from tests.e2e.more_gateways import another_gateway, backend_documents
from tests.e2e.relay import Relay, relay_to
from tests.e2e.requests import identity
from tests.patience import PATIENCE_S

TIMEOUT_S = 1


@contextmanager
def behind_a_relay(cluster: Cluster, folder: Path, port: str) -> Iterator[tuple[Cluster, Relay]]:
    """A second gateway that reaches one port of `cuda-0` through a relay."""
    backends = backend_documents(cluster, "cuda-0", "cpu-0")
    with relay_to("127.0.0.1", backends[0][port]) as relay:
        backends[0][port] = relay.port
        with another_gateway(cluster, folder, backends=backends) as second:
            yield second, relay


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_triton_that_hangs_on_one_protocol_alone_is_taken_out_and_taken_back(
    cluster: Cluster, tmp_path: Path, protocol: str
) -> None:
    """T6899: gRPC hung while HTTP was fine, and the probe asked over HTTP. Both are routed, so both are probed."""
    with behind_a_relay(cluster, tmp_path, f"{protocol}_port") as (second, relay):
        assert second.shares("identity")["cuda-0"] > 0
        relay.flows.clear()
        wait_until(lambda: second.shares("identity")["cuda-0"] == 0)
        error = next(b["error"] for b in second.status()["backends"] if b["name"] == "cuda-0")
        assert error.startswith("no answer within 2 s")
        with (
            triton_grpc.InferenceServerClient(second.grpc) as grpc,
            triton_http.InferenceServerClient(second.http) as http,
        ):
            for _ in range(10):
                identity(triton_grpc, grpc)
                identity(triton_http, http)
        relay.flows.set()
        wait_until(lambda: second.shares("identity")["cuda-0"] > 0)


def test_one_hung_triton_does_not_hold_up_the_others(cluster: Cluster, tmp_path: Path) -> None:
    """PS 749: one hung server blocked everything. Here what waits for it times out, and all else goes on."""

    def make_call() -> Any:
        client = triton_grpc.InferenceServerClient(second.grpc)
        return lambda: identity(triton_grpc, client)

    pid = cluster.triton_pid("cuda-0")
    with another_gateway(cluster, tmp_path, gateway={"request_timeout_s": TIMEOUT_S}) as second:
        load = Loader(make_call, clients=8)
        with load.running():
            wait_until(lambda: load.answers > 100)
            os.kill(pid, signal.SIGSTOP)
            try:
                goal = load.answers + 500
                wait_until(lambda: load.answers > goal)
                wait_until(lambda: second.shares("identity")["cuda-0"] == 0)
            finally:
                os.kill(pid, signal.SIGCONT)
    said = f"[StatusCode.DEADLINE_EXCEEDED] no answer within {TIMEOUT_S} s, the gateway's request_timeout_s"
    assert set(load.errors) == {said}
    # Each of the eight waited for it once, or twice before it was out.
    assert len(load.errors) <= 16


def test_the_log_says_whose_time_out_a_client_saw(cluster: Cluster, tmp_path: Path) -> None:
    """KServe 3533: a random 502, and nobody could say where it arose."""
    inputs = [
        {"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [1]},
        {"name": "DELAY_MS", "shape": [1, 1], "datatype": "INT32", "data": [60_000]},
    ]
    with another_gateway(cluster, tmp_path, gateway={"request_timeout_s": TIMEOUT_S}) as second:
        connection = http.client.HTTPConnection(second.http, timeout=PATIENCE_S)
        connection.request("POST", "/v2/models/slow_identity/infer", json.dumps({"inputs": inputs}))
        answer = connection.getresponse()
        assert answer.status == 504
        assert json.loads(answer.read())["error"] == "no answer within 1 s, the gateway's request_timeout_s"
        connection.close()
        wait_until(second.feedback_is_in)
        assert sorted(b["state"] for b in second.status()["backends"]) == ["Degraded", "Healthy", "Healthy"]
    lines = [line for line in (tmp_path / "run.log").read_text().splitlines() if "a try failed" in line]
    assert len(lines) == 1
    for words in ("where=gateway", "backend=", "model=slow_identity", "effect=failure", "request_timeout_s"):
        assert words in lines[0]
