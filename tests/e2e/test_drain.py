"""The role's drain with a real router and a real gateway: what happens before a server is restarted."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc

from tests.e2e.cluster import ROOT, Cluster, wait_until
from tests.e2e.conftest import PORT_OFFSET
from tests.e2e.requests import ROWS, tensor
from tests.patience import PATIENCE_S

LONG_MS = 5 * PATIENCE_S * 1000  # what is not cancelled does not end while a test waits

Play = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def play(cluster: Cluster) -> Play:
    """Starts one of the role's entry points for one backend."""

    def start(entry_point: str, backend: str, *arguments: str) -> "subprocess.Popen[str]":
        own = {
            "test_entry_point": entry_point,
            "bimetal_state_dir": str(cluster.state_dir),
            "bimetal_port_offset": PORT_OFFSET,
        }
        words = ["--limit", backend, "--extra-vars", json.dumps(own), *arguments]
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("ansible-playbook")), "tests/roles/playbooks/drain.yml", *words],
            cwd=ROOT,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def ended(run: "subprocess.Popen[str]") -> str:
    """The output of a run that succeeded."""
    output, _ = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, output
    return output


def drained(cluster: Cluster, backend: str) -> bool:
    return bool(next(b["drained"] for b in cluster.status()["backends"] if b["name"] == backend))


def at_work(cluster: Cluster, model: str) -> list[str]:
    """Backends that Envoy has a gRPC request for this model at."""
    clusters: list[Any] = json.loads(cluster.get(cluster.fleet.gateway.admin_port, "/clusters?format=json"))[
        "cluster_statuses"
    ]
    ports = {
        host["address"]["socket_address"]["port_value"]
        for found in clusters
        if found["name"] == f"grpc/{model}"
        for host in found["host_statuses"]
        if any(stat["name"] == "rq_active" and int(stat.get("value", 0)) for stat in host["stats"])
    }
    return [backend.name for backend in cluster.fleet.backends if backend.grpc_port in ports]


def test_a_drain_waits_for_the_requests_of_its_backend_and_undrain_puts_it_back(
    cluster: Cluster, grpc_client: Any, play: Play
) -> None:
    """T6230: a server that was stopped with requests in flight."""
    delay = tensor(triton_grpc, "DELAY_MS", np.full((1, 1), LONG_MS, np.int32), "INT32")
    call = grpc_client.async_infer("slow_identity", [tensor(triton_grpc, "INPUT0", ROWS[:1]), delay], lambda *_: None)
    wait_until(lambda: len(at_work(cluster, "slow_identity")) == 1)
    [busy] = at_work(cluster, "slow_identity")
    try:
        draining = play("drain", busy)
        wait_until(lambda: drained(cluster, busy))
        assert at_work(cluster, "slow_identity") == [busy]
        assert draining.poll() is None
        call.cancel()
        assert "WARNING" not in ended(draining)
        assert "changed=0" in ended(play("drain", busy))
    finally:
        # The mark of the drain outlives the run that made it.
        ended(play("undrain", busy))
    assert not drained(cluster, busy)
    wait_until(lambda: cluster.shares("identity")[busy] > 0)
    assert "changed=0" in ended(play("undrain", busy))


def test_a_drain_that_a_person_asked_for_is_not_ended_by_a_run(cluster: Cluster, play: Play) -> None:
    cluster.bimetal("drain", "rocm-0")
    try:
        assert "changed=0" in ended(play("drain", "rocm-0"))
        assert "changed=0" in ended(play("undrain", "rocm-0"))
        assert drained(cluster, "rocm-0")
    finally:
        cluster.bimetal("undrain", "rocm-0")


def test_a_backend_that_the_router_does_not_know_is_said_and_an_error_where_a_drain_is_demanded(
    play: Play,
) -> None:
    unknown = ("--extra-vars", "router_drain_backend=nobody")
    assert "nobody is not drained: the router at" in " ".join(ended(play("drain", "cpu-0", *unknown)).split())
    demanded = play("drain", "cpu-0", *unknown, "--extra-vars", '{"router_drain_required": true}')
    output, _ = demanded.communicate(timeout=PATIENCE_S)
    assert demanded.returncode != 0
    assert "knows no backend of that name" in " ".join(output.split())
