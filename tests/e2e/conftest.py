"""One real cluster for all end-to-end tests: brought up as a user does, on its own ports."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from bimetal.fleet.file import load_fleet
from tests.e2e.cluster import ROOT, Cluster, wait_until

PORT_OFFSET = int(os.environ.get("BIMETAL_TEST_PORT_OFFSET", "4000"))


def _make(target: str, state_dir: Path) -> None:
    command = ["make", target, f"STATE_DIR={state_dir}", f"PORT_OFFSET={PORT_OFFSET}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"make {target} failed:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"


@pytest.fixture(scope="session")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    state_dir = tmp_path_factory.mktemp("cluster")
    try:
        _make("up", state_dir)
        yield Cluster(state_dir, load_fleet(state_dir / "fleet.yaml"))
    finally:
        _make("down", state_dir)


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    """The cluster, whole again after whatever the last test did to it."""
    wait_until(_cluster.is_whole)
    for backend in _cluster.status()["backends"]:
        if backend["state"] != "Healthy":
            _cluster.clear(backend["name"])
    wait_until(lambda: all(b["state"] == "Healthy" for b in _cluster.status()["backends"]))
    return _cluster


@pytest.fixture
def grpc_client(cluster: Cluster) -> Iterator[Any]:
    """A stock gRPC client of the gateway."""
    with triton_grpc.InferenceServerClient(cluster.grpc) as client:
        yield client


@pytest.fixture
def http_client(cluster: Cluster) -> Iterator[Any]:
    """A stock HTTP client of the gateway."""
    with triton_http.InferenceServerClient(cluster.http) as client:
        yield client
