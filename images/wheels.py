"""Wheels for the images, fetched on this machine: the build itself needs no index and no certificate for one."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from images.errors import ImageError

# glibc of Debian 12: newer wheels would not load there.
GLIBC_MINOR = 36
ARCHITECTURE = "x86_64"


def platforms(glibc_minor: int = GLIBC_MINOR, architecture: str = ARCHITECTURE) -> list[str]:
    """The platform tags that such a machine can install, newest first (PEP 600 and its predecessors)."""
    perennial = [f"manylinux_2_{minor}_{architecture}" for minor in range(glibc_minor, 4, -1)]
    return [*perennial, *(f"{legacy}_{architecture}" for legacy in ("manylinux2014", "manylinux2010", "manylinux1"))]


def command(requirements: Path, destination: Path, python: str) -> list[str]:
    """pip's command line: nothing but what is listed, checked against its hashes."""
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    words += ["--no-deps", "--require-hashes", "--only-binary=:all:", "--implementation", "cp"]
    words += ["--python-version", python]
    for platform in platforms():
        words += ["--platform", platform]
    return [*words, "--dest", str(destination), "--requirement", str(requirements)]


def fetch(requirements: str, cache: Path, python: str) -> Path:
    """A folder with the wheels of `requirements`, kept in `cache` under the hash of what is in it.

    Raises ImageError when the index is unreachable, lacks one, or gives one with another hash.
    """
    digest = hashlib.sha256(f"{python}\n{requirements}".encode()).hexdigest()[:16]
    folder = cache / digest
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=f".{digest}.") as scratch:
        listed = Path(scratch) / "requirements.txt"
        listed.write_text(requirements)
        new = Path(scratch) / "wheels"
        new.mkdir()
        fetched = subprocess.run(command(listed, new, python), capture_output=True, text=True, check=False)
        if fetched.returncode != 0:
            raise _problem(fetched.stderr)
        shutil.move(new, folder)
    return folder


def _problem(stderr: str) -> ImageError:
    errors = [line for line in stderr.splitlines() if line.startswith("ERROR:")]
    first = errors[0].removeprefix("ERROR:").strip() if errors else "pip download failed without a word"
    if "HASHES" in stderr:
        return ImageError(
            f"A wheel has another hash than the lock: {first}",
            "find out why before anything else: the file changed at its source or on the way",
        )
    return ImageError(f"Wheels cannot be fetched: {first}", "check the package index that pip is set up for")
