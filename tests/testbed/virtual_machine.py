"""One virtual machine for as long as it is needed: qemu without KVM, reached over SSH. Standard library only."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.engine import TestbedError, log_tail, sbin_environment
from tests.testbed.virtual_disk import USER

BOOT_TIMEOUT_SECONDS = 400
STOP_TIMEOUT_SECONDS = 20
MEMORY_MB = 1536
CPUS = 2


@dataclass(frozen=True)
class VirtualMachine:
    """A machine that answers SSH on this port of the loopback; `pid` is that of its qemu."""

    port: int
    key: Path
    pid: int

    @property
    def ssh(self) -> list[str]:
        """The command that runs another one in the machine."""
        return ["ssh", "-p", str(self.port), "-i", str(self.key), *SSH_OPTIONS, f"{USER}@127.0.0.1"]


# Its host key is as new as the machine.
SSH_OPTIONS = [
    *("-o", "StrictHostKeyChecking=no"),
    *("-o", "UserKnownHostsFile=/dev/null"),
    *("-o", "BatchMode=yes"),
    *("-o", "ConnectTimeout=20"),
    *("-o", "LogLevel=ERROR"),
]


def qemu_command(disk: Path, port: int, console: Path) -> list[str]:
    """The command that boots `disk`, never writes to it, and forwards `port` of the loopback to its SSH."""
    return [
        *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max"),
        *("-m", str(MEMORY_MB), "-smp", str(CPUS)),
        # Writes live in a file without a name, for as long as qemu runs: reboots keep them, the next run has none.
        *("-snapshot", "-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"),
        *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{port}-:22", "-device", "virtio-net-pci,netdev=net"),
        # Files that are fetched and packed want randomness before there is any.
        *("-device", "virtio-rng-pci"),
        *("-display", "none", "-monitor", "none", "-serial", f"file:{console}"),
    ]


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def answers(machine: VirtualMachine) -> bool:
    """Whether a command can be run in the machine."""
    command = [*machine.ssh, "true"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def wait_for_ssh(machine: VirtualMachine, qemu: subprocess.Popen[bytes], console: Path) -> None:
    """Return once the machine answers.

    Raises TestbedError when qemu ends before, or when it takes longer than an emulated CPU should.
    """
    deadline = time.monotonic() + BOOT_TIMEOUT_SECONDS
    while not answers(machine):
        try:
            status = qemu.wait(1)
        except subprocess.TimeoutExpired:
            pass
        else:
            raise TestbedError(f"qemu ended with {status} before the machine had started. Next: read {console}")
        if time.monotonic() > deadline:
            said = log_tail(console)
            raise TestbedError(f"No SSH in {BOOT_TIMEOUT_SECONDS} s; the console says: {said}. Next: read {console}")


@contextmanager
def virtual_machine(disk: Path, key: Path, log_dir: Path, port: int | None = None) -> Iterator[VirtualMachine]:
    """A machine for the block, ended by its pid; its console and qemu's errors are files of `log_dir`."""
    log_dir.mkdir(parents=True, exist_ok=True)
    console = log_dir / "vm-console.log"
    console.touch()
    chosen = port or free_port()
    with (log_dir / "vm-qemu.log").open("wb") as errors:
        # A session of its own: Ctrl-C in the terminal ends the playbook first, and then the machine.
        qemu = subprocess.Popen(
            qemu_command(disk, chosen, console),
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=subprocess.STDOUT,
            env=sbin_environment(),
            start_new_session=True,
        )
    try:
        machine = VirtualMachine(chosen, key, qemu.pid)
        wait_for_ssh(machine, qemu, console)
        yield machine
    finally:
        stop(qemu)


def stop(qemu: subprocess.Popen[bytes]) -> None:
    """End the machine as pulling its plug would; its disk is not kept."""
    qemu.terminate()
    try:
        qemu.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        qemu.kill()
        qemu.wait()
