"""The supervisor role with real programs: a real supervisord, and small web servers in place of Tritons."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Processes = Callable[[Path], list[int]]


class Cluster:
    """Two supervised programs in a state directory of their own."""

    def __init__(self, run: Run, state_dir: Path, ports: tuple[int, int]) -> None:
        self._run = run
        self.state_dir = state_dir
        self._ports = ports

    def up(self, *arguments: str, digests: tuple[str, str] = ("a", "b")) -> str:
        """Run the playbook; returns its output."""
        programs = [
            {"name": name, "port": port, "digest": digest}
            for name, port, digest in zip(("one", "two"), self._ports, digests, strict=True)
        ]
        result = self._run(
            "tests/roles/playbooks/supervised.yml",
            *arguments,
            "--extra-vars",
            json.dumps({"test_programs": programs}),
            bimetal_state_dir=self.state_dir,
        )
        assert result.returncode == 0, result.stdout
        return result.stdout

    def down(self, **variables: object) -> str:
        """Stop everything; returns the output, with each module's result."""
        result = self._run("ansible/down.yml", "-v", bimetal_state_dir=self.state_dir, **variables)
        assert result.returncode == 0, result.stdout
        return result.stdout

    def pid(self, program: str = "") -> int:
        """The pid of a program, or of supervisord."""
        control = Path(sys.executable).with_name("supervisorctl")
        command = [str(control), "-c", str(self.state_dir / "supervisor/supervisord.conf"), "pid"]
        return int(
            subprocess.run([*command, program][: None if program else -1], capture_output=True, check=True).stdout
        )


def _environment(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\0")
    except OSError:  # ended meanwhile, or another user's
        return []


@pytest.fixture(scope="module")
def cluster(ansible_playbook: Run, new_state_dir: Callable[[], Path], free_port: Callable[[], int]) -> Cluster:
    return Cluster(ansible_playbook, new_state_dir(), (free_port(), free_port()))


@pytest.fixture
def running(cluster: Cluster, processes: Processes) -> Cluster:
    """The cluster, started by the first test that needs it."""
    if not processes(cluster.state_dir):
        assert changes(cluster.up()) > 0
    return cluster


def changes(output: str) -> int:
    """What Ansible's recap says."""
    found = re.search(r"changed=(\d+)", output)
    assert found, output
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


def test_down_leaves_no_process_and_a_second_down_changes_nothing(running: Cluster, processes: Processes) -> None:
    assert changes(running.down()) > 0
    assert processes(running.state_dir) == []
    assert changes(running.down()) == 0


def test_programs_whose_supervisord_was_killed_are_told_to_end_too(running: Cluster, processes: Processes) -> None:
    os.kill(running.pid(), signal.SIGKILL)
    output = running.down()
    assert changes(output) > 0
    assert "killed: []" in output  # SIGTERM was enough
    assert processes(running.state_dir) == []


def test_what_a_killed_program_left_behind_is_not_waited_for(running: Cluster, processes: Processes) -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(3600)"
    environment = os.environ | {"BIMETAL_STATE_DIR": str(running.state_dir)}
    command = [sys.executable, "-c", deaf]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as orphan:
        assert orphan.stdout is not None
        orphan.stdout.readline()
        output = running.down(supervisor_stop_timeout_seconds=3600)
    assert f"{orphan.pid} {sys.executable}" in output  # among those that were killed
    assert processes(running.state_dir) == []
