"""A Docker engine for the test images: the one that is reachable, or a private one for as long as it is needed.

Standard library only. The private engine keeps its images in its data directory, so a second start finds
them. It has its own socket, pid file and bridge and shares nothing with another engine: two engines on one
`docker0` change its address under each other's containers.
"""

from __future__ import annotations

import hashlib
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


# Commands that a private engine needs beside the client.
ENGINE_COMMANDS = ("dockerd", "iptables", "ip")


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
        return f"{', '.join(missing)} not found. Next: apt-get install docker.io iptables iproute2 mmdebstrap"
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
    path = sbin_environment()["PATH"]
    return [command for command in commands if shutil.which(command, path=path) is None]


def free_gb(directory: Path) -> float:
    """Free space in GB at the nearest existing parent of `directory`."""
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(directory).free / 1e9


def log_tail(log: Path, lines: int = 3) -> str:
    """The last lines of the engine's log in one line."""
    return " | ".join(log.read_text(errors="replace").splitlines()[-lines:])


def sbin_environment() -> dict[str, str]:
    """The process's environment with the administrator's commands on PATH, which a user's may lack."""
    return os.environ | {"PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"}


def ip(*words: str) -> str:
    """Run iproute2's `ip`; its output."""
    ended = subprocess.run(["ip", *words], env=sbin_environment(), capture_output=True, text=True, check=False)
    if ended.returncode:
        raise TestbedError(f"ip {' '.join(words)}: {ended.stderr.strip()}. Next: check that root may change networks")
    return ended.stdout


def bridge_name(data_dir: Path) -> str:
    """The bridge of the engine with this data directory; the kernel allows 15 characters."""
    return f"bimetal-{hashlib.sha256(str(data_dir).encode()).hexdigest()[:6]}"


def free_subnet(addresses: str, first: int) -> str:
    """The address of a bridge in a /24 that no interface has; `addresses` is what `ip -o -4 address` prints."""
    for number in range(256):
        network = f"10.213.{(first + number) % 256}."
        if f" {network}" not in addresses:
            return f"{network}1/24"
    raise TestbedError("All of 10.213.0.0/16 is taken by interfaces. Next: ip link delete those of ended engines")


@contextmanager
def bridge(name: str) -> Iterator[None]:
    """A bridge of our own for the block; one that an ended run left is taken over."""
    if f" {name}:" in ip("-o", "link"):
        ip("link", "delete", name)
    ip("link", "add", name, "type", "bridge")
    try:
        ip("address", "add", free_subnet(ip("-o", "-4", "address"), int(name[-2:], 16)), "dev", name)
        ip("link", "set", name, "up")
        yield
    finally:
        ip("link", "delete", name)


def start(data_dir: Path, run_dir: Path) -> tuple[Engine, subprocess.Popen[bytes]]:
    """Start a private engine and wait until it answers; `run_dir` is short, as a socket's path has 107 bytes."""
    data_dir.mkdir(parents=True, exist_ok=True)
    log = data_dir / "dockerd.log"
    host = f"unix://{run_dir}/docker.sock"
    command = ["dockerd", "--data-root", str(data_dir / "engine"), "--exec-root", str(run_dir / "exec")]
    command += ["--pidfile", str(run_dir / "dockerd.pid"), "--host", host, "--bridge", bridge_name(data_dir)]
    with log.open("wb") as output:
        # A session of its own: Ctrl-C in the terminal must not end the engine before the containers.
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=sbin_environment(), start_new_session=True
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
    if reason := problem(os.geteuid(), missing_commands(ENGINE_COMMANDS), free_gb(data_dir), data_dir):
        raise TestbedError(reason)
    with tempfile.TemporaryDirectory(prefix="bimetal-docker-") as run_dir, bridge(bridge_name(data_dir)):
        private, process = start(data_dir, Path(run_dir))
        try:
            yield private
        finally:
            stop(process)
