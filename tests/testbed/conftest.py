"""The test bed's modules, and commands that stand in for docker, dockerd and mmdebstrap."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
# `images` is run from the project's root (`python -m tests.testbed`), it is not installed.
sys.path.insert(0, str(PROJECT))

Fake = Callable[[str, str], None]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Put a shell script of that name first on PATH; `$FAKES` is the directory they share."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    monkeypatch.setenv("PATH", f"{bin_dir}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKES", str(tmp_path))

    def write(name: str, body: str) -> None:
        script = bin_dir / name
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)

    return write
