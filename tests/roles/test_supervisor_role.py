"""The supervisor role with real programs: a real supervisord, and small web servers in place of Tritons."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


class Cluster:
    """Two supervised programs in a state directory of their own."""

    def __init__(self, run: Run, state_dir: Path, ports: tuple[int, int]) -> None:
        self._run = run
        self._state_dir = state_dir
        self._ports = ports

    def up(self, *arguments: str, digests: tuple[str, str] = ("a", "b")) -> str:
        """Run the playbook; returns Ansible's recap line."""
        programs = [
            {"name": name, "port": port, "digest": digest}
            for name, port, digest in zip(("one", "two"), self._ports, digests, strict=True)
        ]
        result = self._run(
            "tests/roles/playbooks/supervised.yml",
            *arguments,
            "--extra-vars",
            json.dumps({"test_programs": programs}),
            bimetal_state_dir=self._state_dir,
        )
        assert result.returncode == 0, result.stdout
        return result.stdout.splitlines()[-2]

    def down(self) -> str:
        """Stop everything; returns Ansible's recap line."""
        result = self._run("ansible/down.yml", bimetal_state_dir=self._state_dir)
        assert result.returncode == 0, result.stdout
        return result.stdout.splitlines()[-2]

    def pid(self, program: str = "") -> int:
        """The pid of a program, or of supervisord."""
        control = Path(sys.executable).with_name("supervisorctl")
        command = [str(control), "-c", str(self._state_dir / "supervisor/supervisord.conf"), "pid"]
        return int(
            subprocess.run([*command, program][: None if program else -1], capture_output=True, check=True).stdout
        )

    def processes(self) -> list[int]:
        """Every living process of this cluster."""
        mark = f"BIMETAL_STATE_DIR={self._state_dir}".encode()
        return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if mark in _environment(path)]


def _environment(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\0")
    except OSError:  # ended meanwhile, or another user's
        return []


@pytest.fixture(scope="module")
def cluster(ansible_playbook: Run, free_port: Callable[[], int]) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="bimetal-") as directory:
        cluster = Cluster(ansible_playbook, Path(directory) / "state", (free_port(), free_port()))
        yield cluster
        for pid in cluster.processes():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def running(cluster: Cluster) -> Cluster:
    """The cluster, started by the first test that needs it."""
    if not cluster.processes():
        assert changes(cluster.up()) > 0
    return cluster


def changes(recap: str) -> int:
    found = re.search(r"changed=(\d+)", recap)
    assert found, recap
    return int(found[1])


def test_a_second_run_and_a_check_change_nothing(running: Cluster) -> None:
    before = (running.pid(), running.pid("one"), running.pid("two"))
    assert changes(running.up()) == 0
    assert changes(running.up("--check", "--diff")) == 0
    assert (running.pid(), running.pid("one"), running.pid("two")) == before


def test_values_with_percents_quotes_and_separators_reach_the_program(running: Cluster) -> None:
    assert b"GREETING=100% of it; it's all, a=b" in _environment(Path(f"/proc/{running.pid('one')}/environ"))


def test_changed_inputs_restart_only_the_program_that_reads_them(running: Cluster) -> None:
    supervisord, one, two = running.pid(), running.pid("one"), running.pid("two")
    running.up(digests=("changed", "b"))
    assert running.pid("one") != one
    assert (running.pid(), running.pid("two")) == (supervisord, two)


def test_down_leaves_no_process_and_a_second_down_changes_nothing(running: Cluster) -> None:
    assert changes(running.down()) > 0
    assert running.processes() == []
    assert changes(running.down()) == 0


def test_down_also_ends_programs_whose_supervisord_was_killed(running: Cluster) -> None:
    os.kill(running.pid(), signal.SIGKILL)
    assert changes(running.down()) > 0
    assert running.processes() == []
