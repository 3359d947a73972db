"""Helpers for the roles' tests: real `ansible-playbook` runs."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.bimetal.cluster.plugins.modules import processes_ended

PROJECT = Path(__file__).parents[2]

# Away from the ports of a cluster that may run on this machine.
PORT_OFFSET = 2000

Playbook = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the checkout."""
    return PROJECT


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Put a fake command first on PATH: a shell script's body, by its name."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(name: str, body: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)

    return make


@pytest.fixture(scope="session")
def processes() -> Callable[[Path], list[int]]:
    """Every living process of the cluster of a state directory."""
    return lambda state_dir: list(processes_ended.marked(Path("/proc"), f"BIMETAL_STATE_DIR={state_dir}".encode()))


@pytest.fixture(scope="module")
def new_state_dir(processes: Callable[[Path], list[int]]) -> Iterator[Callable[[], Path]]:
    """State directories that do not exist yet, short enough for a Unix socket; what started in them is ended."""
    parents: list[Path] = []

    def new() -> Path:
        parents.append(Path(tempfile.mkdtemp(prefix="bimetal-")))
        return parents[-1] / "state"

    yield new
    for parent in parents:
        for pid in processes(parent / "state"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(parent)


@pytest.fixture
def state_dir(new_state_dir: Callable[[], Path]) -> Path:
    """A state directory of this test's own."""
    return new_state_dir()


@pytest.fixture(scope="session")
def ansible_playbook() -> Playbook:
    """Run a playbook (path in the project) with the project's configuration; extra variables by keyword."""

    def run(path: str, *arguments: str, **variables: object) -> subprocess.CompletedProcess[str]:
        extra = [word for name, value in variables.items() for word in ("--extra-vars", f"{name}={value}")]
        environment = os.environ | {"LC_ALL": "C.UTF-8"}
        command = [str(Path(sys.executable).with_name("ansible-playbook")), path, *arguments, *extra]
        return subprocess.run(
            command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    return run


@pytest.fixture
def site(ansible_playbook: Playbook, state_dir: Path) -> Playbook:
    """Run site.yml for a cluster of its own in `state_dir`."""

    def run(*arguments: str, **variables: object) -> subprocess.CompletedProcess[str]:
        own = {
            "bimetal_state_dir": state_dir,
            "bimetal_model_repo_dir": state_dir / "models",
            "bimetal_port_offset": PORT_OFFSET,
        }
        return ansible_playbook("ansible/site.yml", *arguments, **(own | variables))

    return run


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listening socket on a free port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """Ports that nothing listened on a moment ago."""

    def find() -> int:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port: int = server.getsockname()[1]
            return port

    return find
