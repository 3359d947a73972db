"""The virtual machine's test, step by step: bare, provisioned by site.yml with a reboot, verified, unchanged.

Each step is a playbook run over SSH with a time-out, its output in a log file. Standard library only.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import virtual_disk
from tests.testbed.processes import Processes
from tests.testbed.report import Result
from tests.testbed.virtual_machine import VirtualMachine, virtual_machine

# An emulated CPU is 10 to 30 times slower than the one that emulates it.
REBOOT_TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Step:
    """One playbook, below the project's root, and how long it may take."""

    name: str
    playbook: str
    timeout_seconds: int
    arguments: tuple[str, ...] = ()
    # Whether any change is a failure.
    changes_nothing: bool = False


STEPS = (
    Step("bare", "tests/vm/before.yml", 600),
    Step("site.yml --check", "ansible/site.yml", 2400, ("--check", "--diff")),
    Step("site.yml", "ansible/site.yml", 5400, ("--diff",)),
    Step("verify", "tests/vm/verify.yml", 1200),
    Step("site.yml again", "ansible/site.yml", 2400, ("--diff",), changes_nothing=True),
)


def command(step: Step) -> list[str]:
    """What runs the step in the project's root."""
    inventory = ("--inventory", "tests/vm/inventory")
    extra = ("--extra-vars", f"reboot_timeout_seconds={REBOOT_TIMEOUT_SECONDS}")
    return ["ansible-playbook", *inventory, *extra, step.playbook, *step.arguments]


def environment(machine: VirtualMachine) -> dict[str, str]:
    """The process's environment; the inventory reads where the machine is from it."""
    return os.environ | {
        "VM_PORT": str(machine.port),
        "VM_KEY": str(machine.key),
        # A machine without KVM may answer late, and a new connection or compression costs it seconds.
        "ANSIBLE_TIMEOUT": "120",
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=600s",
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }


def changes(output: str) -> int:
    """The changes that the recap of a playbook's output counts.

    Raises ValueError without a recap: a run that ended before it says nothing about changes.
    """
    counts = re.findall(r"^\S+\s+: ok=\d+\s+changed=(\d+)", output, re.MULTILINE)
    if not counts:
        raise ValueError("no recap in the output")
    return sum(map(int, counts))


def play(step: Step, machine: VirtualMachine, project: Path, log_dir: Path) -> Result:
    """Run one step; what made it fail is the end of its log."""
    log = log_dir / f"vm-{re.sub(r'[^a-z]+', '-', step.name)}.log"
    started = time.monotonic()
    passed, why = False, ""
    try:
        status = Processes().run(
            command(step), log, cwd=project, env=environment(machine), timeout_seconds=step.timeout_seconds
        )
        passed = status == 0
    except subprocess.TimeoutExpired:
        why = f"{step.name} was ended: expected it to take less than {step.timeout_seconds} s."
    if passed and step.changes_nothing and (count := changes(log.read_text())):
        passed, why = False, f"{step.name} made {count} changes: expected none of a second run."
    if why:
        with log.open("a") as output:
            output.write(f"{why}\n")
    return Result(step.name, passed, time.monotonic() - started, log)


def run(project: Path, data_dir: Path, done: Callable[[Result], None]) -> list[Result]:
    """All steps in one machine, until one fails; `done` is called with each result.

    Raises TestbedError where no machine can be had.
    """
    virtual_disk.check()
    results: list[Result] = []

    def finished(result: Result) -> bool:
        results.append(result)
        done(result)
        return result.passed

    started = time.monotonic()
    directory = data_dir / "vm"
    stand_ins = project / "tests/vm/stand_ins.list"
    disk, key, built = virtual_disk.ensure(directory, stand_ins, project / "roles/nvidia_driver/molecule/stand_ins.sh")
    finished(Result("disk built" if built else "disk up to date", True, time.monotonic() - started, directory))
    started = time.monotonic()
    with virtual_machine(disk, key, data_dir / "logs") as machine:
        finished(Result("boot", True, time.monotonic() - started, data_dir / "logs/vm-console.log"))
        for step in STEPS:
            if not finished(play(step, machine, project, data_dir / "logs")):
                break
    return results
