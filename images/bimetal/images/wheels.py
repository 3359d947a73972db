"""Wheels for the images, fetched on this machine: the build itself needs no index and no certificate for one."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bimetal.images.errors import ImageError
from bimetal.images.report import Report
from bimetal.images.tool import run

# Wheels name machines as the kernel does, engines as Go does.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Target:
    """What wheels must fit: Python's minor version, the C library of the base, the engine's architecture."""

    python: str
    glibc: str
    architecture: str


def platforms(target: Target) -> list[str]:
    """The platform tags that such a machine can install, newest first (PEP 600 and its predecessors)."""
    machine = MACHINES[target.architecture]
    newest = int(target.glibc.partition(".")[2])
    perennial = [f"manylinux_2_{minor}_{machine}" for minor in range(newest, 4, -1)]
    return [*perennial, *(f"{legacy}_{machine}" for legacy in ("manylinux2014", "manylinux2010", "manylinux1"))]


def command(requirements: Path, destination: Path, target: Target) -> list[str]:
    """pip's command line: nothing but what is listed, checked against its hashes."""
    words = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    words += ["--no-deps", "--require-hashes", "--only-binary=:all:", "--implementation", "cp"]
    words += ["--python-version", target.python]
    for platform in platforms(target):
        words += ["--platform", platform]
    return [*words, "--dest", str(destination), "--requirement", str(requirements)]


def fetch(requirements: str, cache: Path, target: Target, report: Report) -> Path:
    """A folder with the wheels of `requirements`, kept in `cache` under the hash of what is in it.

    Raises ImageError when the index is unreachable, lacks one, or gives one with another hash.
    """
    digest = hashlib.sha256(f"{target}\n{requirements}".encode()).hexdigest()[:16]
    folder = cache / digest
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=f".{digest}.") as scratch:
        listed = Path(scratch) / "requirements.txt"
        listed.write_text(requirements)
        new = Path(scratch) / "wheels"
        new.mkdir()
        status, said = run(command(listed, new, target), report, os.environ)
        if status != 0:
            raise _problem(said)
        shutil.move(new, folder)
    return folder


def _problem(said: str) -> ImageError:
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")]
    first = errors[0].removeprefix("ERROR:").strip() if errors else "pip download failed without a word"
    if "HASHES" in said:
        return ImageError(
            f"A wheel has another hash than the lock: {first}",
            "find out why before anything else: the file changed at its source or on the way",
        )
    return ImageError(f"Wheels cannot be fetched: {first}", "check the package index that pip is set up for")
