"""Parts of requirements.lock: a few packages with all that they need, at the lock's versions and hashes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bimetal.images.errors import ImageError

_PIN = re.compile(r"^(?P<name>[a-z0-9._-]+)(\[[^]]*\])?==")
_VIA = re.compile(r"^\s+#\s+(?:via\s+)?(?P<name>[a-z0-9._-]+)")


@dataclass(frozen=True)
class Pinned:
    """One package of the lock: its lines, comments left out, and the packages that need it."""

    lines: tuple[str, ...]
    needed_by: frozenset[str]


def read(lock: Path) -> Mapping[str, Pinned]:
    """The lock's packages by name. Raises ImageError when it lacks what pip-compile's annotations say."""
    packages = {name: _pinned(block) for name, block in _blocks(lock.read_text()).items()}
    if not any(pinned.needed_by for pinned in packages.values()):
        raise ImageError(f"{lock.name} does not say which package needs which.", "compile it with annotations")
    return packages


def _blocks(text: str) -> dict[str, list[str]]:
    blocks: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if found := _PIN.match(line):
            current = blocks.setdefault(found["name"], [])
        current.append(line)
    return blocks


def _pinned(block: list[str]) -> Pinned:
    comments = [line for line in block if line.lstrip().startswith("#")]
    needed_by = frozenset(found["name"] for line in comments if (found := _VIA.match(line)) and found["name"] != "via")
    return Pinned(tuple(line for line in block if line.strip() and line not in comments), needed_by)


def closure(packages: Mapping[str, Pinned], roots: Iterable[str]) -> list[str]:
    """Names of `roots` and of everything that they need, sorted. Raises ImageError for a root that is not locked."""
    wanted = set(roots)
    if unknown := sorted(wanted - packages.keys()):
        raise ImageError(
            f"requirements.lock has no {', '.join(unknown)}, which matrix.yml asks for.",
            "add it to pyproject.toml and compile the lock again, or take it out of the matrix",
        )
    while more := {name for name, pinned in packages.items() if pinned.needed_by & wanted} - wanted:
        wanted |= more
    return sorted(wanted)


def subset(packages: Mapping[str, Pinned], roots: Iterable[str]) -> str:
    """A requirements file with hashes for `roots` and what they need."""
    return "".join(f"{line}\n" for name in closure(packages, roots) for line in packages[name].lines)
