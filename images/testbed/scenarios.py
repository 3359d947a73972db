"""Runs the roles' molecule scenarios against one engine and sums them up. Standard library only."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from images.testbed.engine import Engine, TestbedError


@dataclass(frozen=True)
class Scenario:
    """One molecule scenario of one role."""

    role: str
    name: str
    directory: Path

    def __str__(self) -> str:
        return f"{self.role}/{self.name}"


@dataclass(frozen=True)
class Result:
    """How a scenario ended, after how many seconds, and where its output is."""

    scenario: Scenario
    passed: bool
    seconds: float
    log: Path


def find(roles_dir: Path, role: str | None = None) -> list[Scenario]:
    """All scenarios below `roles_dir`, or those of one role.

    Raises TestbedError when there is none: a run that tests nothing must not pass.
    """
    files = sorted(roles_dir.glob("*/molecule/*/molecule.yml"))
    scenarios = [Scenario(file.parents[2].name, file.parent.name, file.parents[2]) for file in files]
    chosen = [scenario for scenario in scenarios if role in (None, scenario.role)]
    if not chosen:
        known = ", ".join(sorted({scenario.role for scenario in scenarios})) or "none"
        raise TestbedError(f"Role '{role or 'any'}' has no molecule scenario; roles that have: {known}.")
    return chosen


def run(scenario: Scenario, engine: Engine, log_dir: Path, extra: Sequence[str] = ()) -> Result:
    """Run `molecule test` for one scenario, its output in a log file."""
    log = log_dir / f"molecule-{scenario.role}-{scenario.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = ["molecule", "test", "--scenario-name", scenario.name, *extra]
    # A log is read in an editor: no colours.
    environment = engine.environment | {"PY_COLORS": "0", "ANSIBLE_NOCOLOR": "1", "NO_COLOR": "1"}
    started = time.monotonic()
    with log.open("wb") as output:
        try:
            ended = subprocess.run(
                command,
                cwd=scenario.directory,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except FileNotFoundError:
            raise TestbedError("molecule not found. Next: run it through make: make molecule") from None
    return Result(scenario, ended.returncode == 0, time.monotonic() - started, log)


def run_all(scenarios: Sequence[Scenario], test: Callable[[Scenario], Result], out: TextIO) -> list[Result]:
    """Test one scenario after the other, saying where it stands; a failure stops none of the others."""
    results = []
    for number, scenario in enumerate(scenarios, 1):
        out.write(f"[{number}/{len(scenarios)}] {scenario} ... ")
        out.flush()
        result = test(scenario)
        out.write(f"{'passed' if result.passed else 'FAILED'} in {result.seconds:.0f} s\n")
        if not result.passed:
            out.write(indented_tail(result.log))
        results.append(result)
    return results


def indented_tail(log: Path, lines: int = 40) -> str:
    """The end of a failed scenario's log, where molecule says which step failed."""
    tail = log.read_text(errors="replace").splitlines()[-lines:]
    return "".join(f"    {line}\n" for line in tail) + f"    Whole log: {log}\n"


def summary(results: Sequence[Result]) -> str:
    """A table of all scenarios with their times, closed by the counts."""
    width = max(len(str(result.scenario)) for result in results)
    lines = [
        f"{result.scenario!s:<{width}}  {'passed' if result.passed else 'FAILED'}  {result.seconds:5.0f} s"
        for result in results
    ]
    passed = sum(result.passed for result in results)
    total = sum(result.seconds for result in results)
    return "\n".join([*lines, f"{passed} passed, {len(results) - passed} failed", f"in {total:.0f} s"]) + "\n"
