"""The JSON document in the output of a tool that prints other things before it."""

from __future__ import annotations

import json
from typing import Any

from .host import ToolRun
from .reading import ReadingError

_DRIVER_WORDS = ("driver not initialized", "not found in modules", "module is NOT loaded")


def parse(run: ToolRun) -> Any:
    """The first JSON object or array that has something in it and that a line begins with.

    AMD's tools print warnings, "press CTRL + C" and Python's log lines first, on stdout. rocm-smi without a driver
    ends with status 0 and prints no JSON. Raises ReadingError for all of that, with what was printed instead.
    """
    if not run.found:
        raise ReadingError(f"{run.tool} is not installed", "Install it with role rocm.", "absent")
    if run.problem is not None:
        raise ReadingError(run.problem, "Look at the kernel log for 'GPU reset begin' or a hung task.")
    lowered = run.output.lower()
    if any(words.lower() in lowered for words in _DRIVER_WORDS):
        raise ReadingError(
            f"{run.tool} says that the amdgpu driver is not initialized",
            "Run ansible/playbooks/doctor.yml: it finds the cause. With amdgpu built into the kernel, the tools of "
            "ROCm before 6.2 say this too.",
            "driver_unreachable",
        )
    document = first_document(run.stdout)
    if document is None:
        printed = next((line for line in run.output.splitlines() if line.strip()), "nothing")
        raise ReadingError(
            f"{run.tool} printed no JSON (status {run.status}), but: {printed.strip()}",
            f"Run `{run.tool}` by hand and report its version.",
            "mismatch",
        )
    return document


def first_document(text: str) -> Any:
    """The first JSON object or array at the beginning of a line, or None."""
    decoder = json.JSONDecoder()
    offset = 0
    for line in text.splitlines(keepends=True):
        if line.lstrip()[:1] in ("{", "["):
            try:
                document, _ = decoder.raw_decode(text, offset + len(line) - len(line.lstrip()))
            except ValueError:
                document = None
            if document:
                return document
        offset += len(line)
    return None
