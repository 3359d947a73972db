"""The virtual machine's steps: what is run, and what counts as a failure."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.testbed import virtual_disk, vm_steps
from tests.testbed.virtual_machine import VirtualMachine
from tests.testbed.vm_steps import STEPS, Step

Fake = Callable[[str, str], None]

MACHINE = VirtualMachine(31007, Path("/key"), 1)
PROJECT = Path(__file__).parents[2]
RECAP = "vm    : ok=71   changed={}    unreachable=0    failed=0    skipped=9    rescued=0    ignored=0"
AGAIN = STEPS[-1]


def test_every_playbook_is_there_and_the_last_step_is_one_that_changes_nothing() -> None:
    assert [step.playbook for step in STEPS if not (PROJECT / step.playbook).exists()] == []
    assert AGAIN.changes_nothing
    assert AGAIN.playbook == "ansible/site.yml"


def test_a_playbook_runs_over_ssh_to_the_machine(fake: Fake, tmp_path: Path) -> None:
    fake("ansible-playbook", 'echo "$VM_PORT $VM_KEY $*"')
    result = vm_steps.play(Step("bare", "tests/vm/before.yml", 60), MACHINE, tmp_path, tmp_path / "logs")
    assert result.passed
    words = result.log.read_text().split()
    assert words[:4] == ["31007", "/key", "--inventory", "tests/vm/inventory"]
    assert words[-1] == "tests/vm/before.yml"


@pytest.mark.parametrize(("changed", "passed"), [(0, True), (2, False)])
def test_a_second_run_must_change_nothing(fake: Fake, tmp_path: Path, changed: int, passed: bool) -> None:
    fake("ansible-playbook", f"echo '{RECAP.format(changed)}'")
    result = vm_steps.play(AGAIN, MACHINE, tmp_path, tmp_path / "logs")
    assert result.passed is passed
    assert ("made 2 changes: expected none" in result.log.read_text()) is not passed


def test_a_first_run_may_change_things(fake: Fake, tmp_path: Path) -> None:
    fake("ansible-playbook", f"echo '{RECAP.format(30)}'")
    assert vm_steps.play(replace(AGAIN, changes_nothing=False), MACHINE, tmp_path, tmp_path / "logs").passed


def test_a_playbook_without_a_recap_is_no_proof_that_nothing_changed() -> None:
    with pytest.raises(ValueError, match="no recap"):
        vm_steps.changes("ERROR! no hosts matched")


def test_a_playbook_that_takes_too_long_is_a_failure_that_says_so(fake: Fake, tmp_path: Path) -> None:
    fake("ansible-playbook", "exec sleep 60")
    result = vm_steps.play(Step("bare", "x.yml", 1), MACHINE, tmp_path, tmp_path / "logs")
    assert not result.passed
    assert "bare was ended: expected it to take less than 1 s" in result.log.read_text()


def test_the_steps_after_a_failure_are_not_run(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake("ansible-playbook", "exit 2")
    fake("qemu-system-x86_64", "exec sleep 60")
    fake("ssh", "true")
    monkeypatch.setattr(virtual_disk, "check", lambda: None)
    monkeypatch.setattr(virtual_disk, "ensure", lambda *_: (tmp_path / "disk", tmp_path / "key", False))
    results = vm_steps.run(PROJECT, tmp_path, lambda _: None)
    assert [(result.name, result.passed) for result in results] == [
        ("disk up to date", True),
        ("boot", True),
        ("bare", False),
    ]
