"""Which images a test runs on: on every one that is built up from the level that the test is about.

So a child is also held to what its parents promise, and a new row of the matrix is tested without a line here.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from bimetal.images import lock
from bimetal.images.matrix import Row, choose, load
from tests.images.docker.containers import LOCK

# What a part of an image says when something is wrong: Triton, Envoy, Python, structlog.
ALARM = re.compile(
    r"^[WE]\d{4} |\[(warning|error|critical)\]|Traceback|level=(warning|error|critical)|\b(WARNING|ERROR)\b"
)
KNOWN = re.compile(
    # What Triton says where no NVIDIA driver is, whatever it was started with.
    r"CudaDriverHelper has not been initialized|pinned system memory"
    # Envoy, about an API that the router uses on purpose (router/bimetal/xds/listeners.py).
    r"|allow_custom_methods' is marked as work-in-progress"
)


def alarming(log: str) -> list[str]:
    """Lines of a log that nobody expects."""
    return [line for line in log.splitlines() if ALARM.search(line) and not KNOWN.search(line)]


def rows() -> list[Row]:
    """Every image that can be built without a registry, and whatever else was built here."""
    matrix = load()
    offline = choose(matrix, [], offline=True)
    others = [name for name in lock.read(LOCK) if name not in map(str, offline)]
    known = [name for name in others if name.partition(":")[2] in matrix.images[name.partition(":")[0]].variants]
    return [*offline, *choose(matrix, known, offline=False)] if known else offline


def on_every_image_of(level: str) -> Callable[[Any], Any]:
    """Runs a test with `row` for every image that has the level."""
    return pytest.mark.parametrize("row", [row for row in rows() if level in row.levels], ids=str)
