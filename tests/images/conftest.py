"""A small matrix, an engine that remembers what it was asked for, and wheels without an index."""

from pathlib import Path

import pytest
import yaml

from images import render, wheels
from images.matrix import Matrix, load
from images.revision import Revision
from tests.images.fakes import MATRIX, FakeEngine


@pytest.fixture
def matrix(tmp_path: Path) -> Matrix:
    file = tmp_path / "matrix.yml"
    file.write_text(yaml.safe_dump(MATRIX))
    return load(file)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def revision() -> Revision:
    return Revision("0123abc", "2026-01-02T03:04:05+00:00")


@pytest.fixture
def no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Requirements that were fetched, without an index."""
    fetched: list[str] = []

    def fetch(requirements: str, cache: Path, python: str) -> Path:
        fetched.append(f"{python} {requirements}")
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "one.whl").write_bytes(b"wheel")
        return cache

    monkeypatch.setattr(wheels, "fetch", fetch)
    lock = tmp_path / "requirements.lock"
    lock.write_text("nvidia-pytriton==0.7.0 \\\n    --hash=sha256:11\n    # via bimetal (pyproject.toml)\n")
    monkeypatch.setattr(render.requirements, "__defaults__", (lock,))
    return fetched
