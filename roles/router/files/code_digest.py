"""Prints a digest of the files of Python packages, one line each: `code_digest.py PACKAGE...`.

A program goes on running the code that it began with; with a digest of it in the program's definition, new code is a
change of the definition, and restarts it. Standard library only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path


def digest(package: str) -> str:
    """Of every file of the package, in all its folders, but what Python compiled. Raises ModuleNotFoundError."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(package)
    total = hashlib.sha256()
    for folder in sorted(map(Path, spec.submodule_search_locations)):
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.suffix != ".pyc":
                total.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes() + b"\0")
    return total.hexdigest()


if __name__ == "__main__":
    print("\n".join(map(digest, sys.argv[1:])))
