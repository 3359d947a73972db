"""A live Triton becomes slow, and its traffic goes away: nobody told the router but the access log."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import yaml

from router.fleet import load_fleet
from tests.e2e.cluster import ROOT, Cluster, wait_until
from tests.e2e.requests import tensor

MODEL = "identity_bytes"
PORTS_UP = 400
"""Of the gateway that learns, above the cluster's own, which does not: its pools share one processor."""
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
    """A second router and gateway in front of the cluster's Tritons, with learning on."""
    document = yaml.safe_load((cluster.state_dir / "fleet.yaml").read_text())
    document |= {"state_dir": str(tmp_path), "learning": {"enabled": True}}
    for section in ("gateway", "router"):
        ports = {key: value + PORTS_UP for key, value in document[section].items() if key.endswith("_port")}
        document[section] |= ports
    file = tmp_path / "fleet.yaml"
    file.write_text(yaml.safe_dump(document))
    command = [str(ROOT / ".venv/bin/bimetal")]
    with ExitStack() as stack:
        for program in ("run", "gateway"):
            log = stack.enter_context((tmp_path / f"{program}.log").open("w"))
            process = subprocess.Popen([*command, program, "--fleet", str(file)], stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        second = Cluster(tmp_path, load_fleet(file))
        wait_until(lambda: second.is_whole() and second.answers())
        yield second


def test_a_triton_that_becomes_slow_loses_its_traffic_and_explain_says_why(cluster: Cluster, learning: Cluster) -> None:
    with triton_grpc.InferenceServerClient(learning.grpc) as client:
        _slow_down_and_look(cluster, learning, client)


def _slow_down_and_look(cluster: Cluster, learning: Cluster, grpc_client: Any) -> None:
    words = tensor(triton_grpc, "INPUT0", np.array([[b"a"]], dtype=np.object_), "BYTES")

    def share_after_a_request() -> float:
        grpc_client.infer(MODEL, [words])
        return learning.shares(MODEL)["cuda-0"]

    for _ in range(100):
        grpc_client.infer(MODEL, [words])
    with slowed_down(cluster.pid("triton-cuda-0")):
        wait_until(lambda: share_after_a_request() < 0.15)
    explained = json.loads(learning.bimetal("explain", MODEL, "--json"))["backends"]
    slow = next(b for b in explained if b["name"] == "cuda-0")
    assert slow["share"] >= 0.03
    assert slow["factors"]["measured"] < 0.5
    assert "measured: " in " ".join(slow["reasons"])
