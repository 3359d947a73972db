"""Commands whose output somebody watches."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from bimetal.images.report import Report

# What is left of a long output to tell why a command failed.
KEPT_LINES = 200


def run(command: Sequence[str], report: Report, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a command and report its lines: its exit status, and the last lines of both its streams.

    An interruption that `report` raises ends the command first.
    """
    lines: list[str] = []
    with subprocess.Popen(
        command, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if text := line.strip():
                    lines.append(text)
                    report.line(text)
        except BaseException:
            process.terminate()
            raise
        status = process.wait()
    return status, "\n".join(lines[-KEPT_LINES:])
