"""Starting, reaching and ending the virtual machine, with a qemu and an ssh that stand in for the real ones."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.testbed import virtual_machine as machines
from tests.testbed.engine import TestbedError

Fake = Callable[[str, str], None]

QEMU = 'echo "$*" > "$FAKES/arguments"; touch "$FAKES/up"; exec sleep 60'


def test_a_machine_is_reached_over_ssh_and_ended_by_its_pid(fake: Fake, tmp_path: Path) -> None:
    fake("qemu-system-x86_64", QEMU)
    fake("ssh", 'test -e "$FAKES/up"')
    with machines.virtual_machine(tmp_path / "disk.raw", tmp_path / "key", tmp_path / "logs", 31007) as machine:
        assert machine.ssh[:3] == ["ssh", "-p", "31007"]
        os.kill(machine.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(machine.pid, 0)
    arguments = (tmp_path / "arguments").read_text()
    # The disk is made once for many runs.
    assert "-snapshot" in arguments
    assert "hostfwd=tcp:127.0.0.1:31007-:22" in arguments


def test_a_machine_is_ended_when_the_work_fails(fake: Fake, tmp_path: Path) -> None:
    fake("qemu-system-x86_64", f'echo "$$" > "$FAKES/pid"; {QEMU}')
    fake("ssh", 'test -e "$FAKES/up"')
    with pytest.raises(RuntimeError), machines.virtual_machine(tmp_path / "d", tmp_path / "k", tmp_path / "l"):
        raise RuntimeError
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_qemu_that_ends_is_reported_at_once_with_its_status(fake: Fake, tmp_path: Path) -> None:
    fake("qemu-system-x86_64", "exit 3")
    fake("ssh", "exit 255")
    with (
        pytest.raises(TestbedError, match=r"qemu ended with 3 before the machine had started\. Next: read"),
        machines.virtual_machine(tmp_path / "disk.raw", tmp_path / "key", tmp_path / "logs"),
    ):
        pass


def test_a_machine_that_does_not_answer_is_ended_and_its_console_quoted(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(
        "qemu-system-x86_64", 'for word; do :; done; echo "Kernel panic" > "${word#file:}"; touch "$FAKES/up"; ' + QEMU
    )
    fake("ssh", 'while ! test -e "$FAKES/up"; do sleep 0.1; done; exit 255')
    monkeypatch.setattr(machines, "BOOT_TIMEOUT_SECONDS", 0)
    with (
        pytest.raises(TestbedError, match=r"No SSH in 0 s; the console says: Kernel panic\. Next: read"),
        machines.virtual_machine(tmp_path / "disk.raw", tmp_path / "key", tmp_path / "logs"),
    ):
        pass
