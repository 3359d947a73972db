"""A Docker engine for the test images: the one that is reachable, or a private one for as long as it is needed.

Standard library only. The private engine keeps its images in its data directory, so a second start finds
them; it has its own socket and pid file and shares nothing with an engine of the system.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 30
# Two systemd images with layers for a few containers are 2 GB; the CUDA toolkit's scenario unpacks 6 GB.
FREE_SPACE_NEEDED_GB = 10


class TestbedError(Exception):
    """The test bed cannot be built here; the message is one line with the next step."""

    __test__ = False  # the name would make pytest look for tests in it


@dataclass(frozen=True)
class Engine:
    """A Docker engine that answers; `pid` is None when somebody else runs it."""

    host: str
    pid: int | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The process's environment, pointing Docker clients at this engine."""
        return os.environ | {"DOCKER_HOST": self.host}


def answers(host: str) -> bool:
    """Whether a Docker engine answers at `host` (a DOCKER_HOST address)."""
    command = ["docker", "--host", host, "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0


def existing(environment: Mapping[str, str]) -> Engine | None:
    """The engine that DOCKER_HOST names, else the system's own; None when the latter does not run.

    A DOCKER_HOST that does not answer is an error: whoever set it wants that engine and no other.
    """
    named = environment.get("DOCKER_HOST")
    if named:
        if not answers(named):
            raise TestbedError(f"No Docker engine answers at DOCKER_HOST={named}. Start it, or unset DOCKER_HOST.")
        return Engine(named)
    system = "unix:///var/run/docker.sock"
    return Engine(system) if answers(system) else None


def problem(user_id: int, missing: list[str], free_gb: float, data_dir: Path) -> str | None:
    """Why no private engine can be started, in one line with the next step; None when it can."""
    if missing:
        return f"{', '.join(missing)} not found. Next: apt-get install docker.io iptables mmdebstrap"
    if user_id != 0:
        return (
            f"A Docker engine can only be started by root, and this is user {user_id}."
            " Next: sudo make molecule, or point DOCKER_HOST at an engine."
        )
    if free_gb < FREE_SPACE_NEEDED_GB:
        return (
            f"{free_gb:.1f} GB are free for {data_dir}, expected {FREE_SPACE_NEEDED_GB} GB."
            " Next: free some, or name another directory: TESTBED_DIR=/path make molecule"
        )
    return None


def missing_commands(commands: tuple[str, ...]) -> list[str]:
    """Those of `commands` that are on no path; sbin counts, as a user's PATH often lacks it."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
    return [command for command in commands if shutil.which(command, path=path) is None]


def free_gb(directory: Path) -> float:
    """Free space in GB at the nearest existing parent of `directory`."""
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(directory).free / 1e9


def log_tail(log: Path, lines: int = 3) -> str:
    """The last lines of the engine's log in one line."""
    return " | ".join(log.read_text(errors="replace").splitlines()[-lines:])


def start(data_dir: Path, run_dir: Path) -> tuple[Engine, subprocess.Popen[bytes]]:
    """Start a private engine and wait until it answers; `run_dir` is short, as a socket's path has 107 bytes."""
    data_dir.mkdir(parents=True, exist_ok=True)
    log = data_dir / "dockerd.log"
    host = f"unix://{run_dir}/docker.sock"
    command = ["dockerd", "--data-root", str(data_dir / "engine"), "--exec-root", str(run_dir / "exec")]
    command += ["--pidfile", str(run_dir / "dockerd.pid"), "--host", host]
    environment = os.environ | {"PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"}
    with log.open("wb") as output:
        # A session of its own: Ctrl-C in the terminal must not end the engine before the containers.
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not answers(host):
        if process.poll() is not None:
            raise TestbedError(f"dockerd ended with {process.returncode}: {log_tail(log)}. Next: read {log}")
        if time.monotonic() > deadline:
            stop(process)
            raise TestbedError(f"dockerd did not answer in {START_TIMEOUT_SECONDS} s. Next: read {log}")
        time.sleep(0.2)
    return Engine(host, process.pid), process


def stop(process: subprocess.Popen[bytes]) -> None:
    """End an engine that `start` started, with the containers it runs."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def engine(data_dir: Path, environment: Mapping[str, str] = os.environ) -> Iterator[Engine]:
    """An engine for the block: a reachable one is left as it was, a private one is ended afterwards."""
    if missing := missing_commands(("docker",)):
        raise TestbedError(str(problem(0, missing, 0, data_dir)))
    if found := existing(environment):
        yield found
        return
    if reason := problem(os.geteuid(), missing_commands(("dockerd", "iptables")), free_gb(data_dir), data_dir):
        raise TestbedError(reason)
    run_dir = Path(tempfile.mkdtemp(prefix="bimetal-docker-"))
    process = None
    try:
        private, process = start(data_dir, run_dir)
        yield private
    finally:
        if process is not None:
            stop(process)
        shutil.rmtree(run_dir, ignore_errors=True)
