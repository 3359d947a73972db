"""What a person, or with `--json` a program, sees of a run of several checks. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """How one check ended, after how many seconds, and where its output is."""

    name: str
    passed: bool
    seconds: float
    log: Path

    @property
    def verdict(self) -> str:
        """One word."""
        return "passed" if self.passed else "FAILED"


def line(result: Result) -> str:
    """One line, and after a failure the end of its log, where the tool says which step failed."""
    said = f"{result.name} ... {result.verdict} in {result.seconds:.0f} s\n"
    return said if result.passed else said + indented_tail(result.log)


def indented_tail(log: Path, lines: int = 40) -> str:
    """The end of a log, and its name."""
    tail = log.read_text(errors="replace").splitlines()[-lines:]
    return "".join(f"    {text}\n" for text in tail) + f"    Whole log: {log}\n"


def table(results: Sequence[Result], seconds: float) -> str:
    """All results with their times, closed by the counts; `seconds` is what the run took in all."""
    width = max(len(result.name) for result in results)
    lines = [f"{result.name:<{width}}  {result.verdict}  {result.seconds:5.0f} s" for result in results]
    passed = sum(result.passed for result in results)
    counts = f"{passed} passed, {len(results) - passed} failed"
    return "\n".join([*lines, f"{counts} in {seconds:.0f} s"]) + "\n"


def document(results: Sequence[Result], seconds: float) -> str:
    """The same for programs: `passed` is true when all are."""
    checks = [
        {"name": result.name, "passed": result.passed, "seconds": round(result.seconds, 1), "log": str(result.log)}
        for result in results
    ]
    passed = all(result.passed for result in results)
    return json.dumps({"passed": passed, "seconds": round(seconds, 1), "checks": checks}, indent=2) + "\n"
