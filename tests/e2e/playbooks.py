"""Playbooks of the project on a cluster that a test has brought up, and who gets requests meanwhile."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tritonclient.grpc as triton_grpc

from tests.e2e.cluster import ROOT, Cluster
from tests.e2e.requests import identity
from tests.patience import PATIENCE_S

Run = subprocess.CompletedProcess[str]


def play(cluster: Cluster, port_offset: int, path: str, *arguments: str, **variables: object) -> Run:
    """Runs a playbook for the cluster; extra variables by keyword."""
    own = {"bimetal_state_dir": str(cluster.state_dir), "bimetal_port_offset": port_offset}
    command = [str(Path(sys.executable).with_name("ansible-playbook")), f"ansible/{path}", *arguments]
    return subprocess.run(
        [*command, "--extra-vars", json.dumps(own | variables)],
        cwd=ROOT,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
        check=False,
    )


@contextmanager
def requests_meanwhile(cluster: Cluster) -> Iterator[list[str]]:
    """Requests through the gateway, one after the other; yields the errors, and at least one request is through."""
    errors: list[str] = []
    over, first = threading.Event(), threading.Event()

    def ask() -> None:
        with triton_grpc.InferenceServerClient(cluster.grpc) as client:
            while not over.is_set():
                try:
                    identity(triton_grpc, client)
                except Exception as error:  # noqa: BLE001 - whatever a client sees is what is counted
                    errors.append(str(error))
                first.set()

    thread = threading.Thread(target=ask)
    thread.start()
    assert first.wait(PATIENCE_S)
    try:
        yield errors
    finally:
        over.set()
        thread.join()
