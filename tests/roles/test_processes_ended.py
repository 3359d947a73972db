"""The module that makes sure that nothing of a cluster is left."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.bimetal.cluster.plugins.modules import processes_ended as module

PROC = Path("/proc")

# A child that starts a grandchild, says its pid, and is then killed: what a dead supervisord leaves behind.
ORPHAN = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); sys.stdin.read()"


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def orphan(mark: str) -> Iterator[int]:
    environment = os.environ | {"BIMETAL_STATE_DIR": mark}
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    yield pid
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def test_an_orphaned_grandchild_is_found_by_the_variable_that_it_inherited(mark: str, orphan: int) -> None:
    assert module.marked(PROC, f"BIMETAL_STATE_DIR={mark}".encode()) == {orphan: "sleep 600"}


def test_a_state_directory_with_the_same_beginning_is_another_cluster(mark: str, orphan: int) -> None:
    assert orphan
    assert module.marked(PROC, f"BIMETAL_STATE_DIR={mark[:-1]}".encode()) == {}


def test_waiting_returns_what_is_left_when_the_time_is_over(mark: str, orphan: int) -> None:
    entry = f"BIMETAL_STATE_DIR={mark}".encode()
    assert list(module.wait_until_gone(PROC, entry, 0)) == [orphan]


def test_waiting_ends_when_the_last_process_ends(mark: str, orphan: int) -> None:
    entry = f"BIMETAL_STATE_DIR={mark}".encode()
    module.send([orphan], signal.SIGTERM)
    assert module.wait_until_gone(PROC, entry, 30) == {}


def test_signalling_a_process_that_ended_meanwhile_is_no_error() -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    module.send([ended.pid], signal.SIGTERM)
