"""A small matrix, an engine that remembers what it was asked for, and wheels without an index.

With IMAGES_REQUIRED=1 (make images-ci) a test that would be skipped fails: there everything that it needs is expected.
"""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
import yaml

from bimetal.images import render, wheels
from bimetal.images.matrix import Matrix, load
from bimetal.images.report import Report
from bimetal.images.revision import Revision
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

    def fetch(requirements: str, cache: Path, target: wheels.Target, report: Report) -> Path:
        report.line("Saved one.whl")
        fetched.append(f"{target.python} {requirements}")
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "one.whl").write_bytes(b"wheel")
        return cache

    monkeypatch.setattr(wheels, "fetch", fetch)
    lock = tmp_path / "requirements.lock"
    lock.write_text("nvidia-pytriton==0.7.0 \\\n    --hash=sha256:11\n    # via bimetal (pyproject.toml)\n")
    monkeypatch.setattr(render.requirements, "__defaults__", (lock,))
    return fetched


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("IMAGES_REQUIRED") == "1":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{reason}: with IMAGES_REQUIRED=1 nothing may be skipped"
    return report
