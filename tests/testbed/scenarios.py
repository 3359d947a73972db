"""Runs the roles' molecule scenarios against one engine, several at a time. Standard library only."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.engine import Engine, TestbedError
from tests.testbed.processes import Processes
from tests.testbed.report import Result

# Scenarios that take longest: started first, they are not what all wait for at the end.
LONGEST = ("nvidia_driver/default", "nvidia_driver/cuda_toolkit", "rocm/default")


@dataclass(frozen=True)
class Scenario:
    """One molecule scenario of one role."""

    role: str
    name: str
    directory: Path

    def __str__(self) -> str:
        return f"{self.role}/{self.name}"

    @property
    def suffix(self) -> str:
        """What makes the names of its containers its own."""
        return f"-{self.role}-{self.name}".replace("_", "-")


def find(roles_dir: Path, names: Sequence[str] = ()) -> list[Scenario]:
    """The scenarios below `roles_dir` with these names (`role` or `role/scenario`), or all; the longest first.

    Raises TestbedError for a name that is none: a run that tests nothing must not pass.
    """
    files = sorted(roles_dir.glob("*/molecule/*/molecule.yml"))
    scenarios = [Scenario(file.parents[2].name, file.parent.name, file.parents[2]) for file in files]
    for name in names:
        if not any(name in (scenario.role, str(scenario)) for scenario in scenarios):
            known = ", ".join(map(str, scenarios)) or "none"
            raise TestbedError(f"'{name}' is no role with scenarios and no scenario; there are: {known}.")
    if not scenarios:
        raise TestbedError(f"No scenario in {roles_dir}: expected ROLE/molecule/SCENARIO/molecule.yml.")
    chosen = [scenario for scenario in scenarios if not names or {scenario.role, str(scenario)} & set(names)]
    return sorted(chosen, key=lambda scenario: (*LONGEST, str(scenario)).index(str(scenario)))


def run(scenario: Scenario, engine: Engine, log_dir: Path, processes: Processes) -> Result:
    """Run `molecule test` for one scenario, its output in a log file."""
    log = log_dir / f"molecule-{scenario.role}-{scenario.name}.log"
    # Molecule remembers there which containers it made, those of an interrupted run, too; and its own default is one
    # directory for all checkouts.
    state = log_dir / f"state{scenario.suffix}"
    shutil.rmtree(state, ignore_errors=True)
    environment = engine.environment | {
        "TESTBED_SUFFIX": scenario.suffix,
        "MOLECULE_EPHEMERAL_DIRECTORY": str(state),
        # A log is read in an editor: no colours.
        "PY_COLORS": "0",
        "ANSIBLE_NOCOLOR": "1",
        "NO_COLOR": "1",
    }
    started = time.monotonic()
    command = ["molecule", "test", "--scenario-name", scenario.name]
    status = processes.run(command, log, cwd=scenario.directory, env=environment)
    return Result(str(scenario), status == 0, time.monotonic() - started, log)


def run_all(
    scenarios: Sequence[Scenario],
    jobs: int,
    test: Callable[[Scenario], Result],
    done: Callable[[Result], None],
    processes: Processes,
) -> list[Result]:
    """Test all, `jobs` at a time, and call `done` with each result; a failure stops none of the others.

    Whatever ends the run early also ends the `processes`: the pool waits for them.
    """
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(test, scenario) for scenario in scenarios]
        try:
            for future in as_completed(futures):
                done(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            processes.end()
            raise
    return [future.result() for future in futures]


def remove_containers(engine: Engine, scenarios: Sequence[Scenario]) -> None:
    """Remove what an interrupted run of these scenarios left; the next would take it for its own."""
    for scenario in scenarios:
        command = ["docker", "ps", "--all", "--quiet"]
        command += ["--filter", f"name={scenario.suffix}$", "--filter", "label=owner=molecule"]
        listed = subprocess.run(command, env=engine.environment, capture_output=True, text=True, check=True)
        if left := listed.stdout.split():
            command = ["docker", "rm", "--force", "--volumes", *left]
            subprocess.run(command, env=engine.environment, capture_output=True, check=True)
