"""Long runs that are ended with everything they started."""

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.testbed.engine import TestbedError
from tests.testbed.processes import Processes

# Has a child, like molecule its playbook, and says both numbers.
PARENT = 'sleep 60 & echo "$$ $!"; wait'


def numbers(log: Path) -> list[int]:
    """The processes that PARENT named, once it has."""
    while len(words := log.read_text().split() if log.exists() else []) < 2:
        time.sleep(0.01)
    return [int(word) for word in words]


def gone(pid: int) -> bool:
    """Whether the process has ended, or waits only for its parent to notice."""
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


def test_a_run_has_its_status_and_its_output_in_a_log(tmp_path: Path) -> None:
    log = tmp_path / "logs/log"
    command = ["sh", "-c", "pwd; echo $WHO; echo oops >&2; exit 3"]
    assert Processes().run(command, log, cwd=tmp_path, env=os.environ | {"WHO": "me"}) == 3
    assert log.read_text() == f"{tmp_path}\nme\noops\n"


def test_what_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(subprocess.TimeoutExpired):
        Processes().run(["sh", "-c", PARENT], log, cwd=tmp_path, env=os.environ, timeout_seconds=5)
    for pid in numbers(log):
        while not gone(pid):
            time.sleep(0.01)


def test_ending_the_run_ends_what_runs_and_lets_nothing_start(tmp_path: Path) -> None:
    processes, log = Processes(), tmp_path / "log"
    statuses: list[int] = []
    worker = threading.Thread(
        target=lambda: statuses.append(processes.run(["sh", "-c", PARENT], log, cwd=tmp_path, env=os.environ))
    )
    worker.start()
    numbers(log)
    processes.end()
    worker.join(PATIENCE_S)
    assert statuses == [-15]
    with pytest.raises(TestbedError, match="was ended"):
        processes.run(["true"], log, cwd=tmp_path, env=os.environ)


def test_a_command_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match=r"molecule-of-nobody not found\. Next: run it through make"):
        Processes().run(["molecule-of-nobody"], tmp_path / "log", cwd=tmp_path, env=os.environ)
