"""What a person, or with `--json` a program, sees of a run of several checks. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Molecule's line after a failed step; what follows is the removal of its containers.
CLEANING_UP = "An error occurred during the test sequence action"


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
    """One line, and after a failure the part of its log that says why."""
    said = f"{result.name} ... {result.verdict} in {result.seconds:.0f} s\n"
    return said if result.passed else said + indented_excerpt(result.log)


def indented_excerpt(log: Path, lines: int = 40) -> str:
    """The lines before the tool began to clean up, else the last ones, and the log's name."""
    text = log.read_text(errors="replace").splitlines()
    end = next((number for number, entry in enumerate(text) if CLEANING_UP in entry), len(text))
    excerpt = "".join(f"    {entry}\n" for entry in text[max(0, end - lines) : end])
    return f"{excerpt}    Whole log: {log}\n"


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
