"""Fetching wheels by the lock's hashes."""

import sys
from pathlib import Path

import pytest

from bimetal.images import wheels
from bimetal.images.errors import ImageError
from bimetal.images.report import Report

TARGET = wheels.Target("3.11", "2.36", "amd64")


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python whose pip writes a wheel, or what the test makes of it; it counts its runs."""
    script = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(script))
    script.write_text(
        f'#!/bin/sh\necho run >> {tmp_path}/runs\nwhile [ "$1" != --dest ]; do shift; done\ntouch "$2/a.whl"\n'
    )
    script.chmod(0o755)
    return script


@pytest.mark.usefixtures("pip")
def test_the_same_requirements_are_fetched_once(tmp_path: Path) -> None:
    first = wheels.fetch("a==1", tmp_path / "cache", TARGET, Report())
    assert [path.name for path in first.iterdir()] == ["a.whl"]
    assert wheels.fetch("a==1", tmp_path / "cache", TARGET, Report()) == first
    assert wheels.fetch("a==2", tmp_path / "cache", TARGET, Report()) != first
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n  a", "has another hash than the lock.*find out why"),
        ("WARNING: x\nERROR: No matching distribution found for a", "cannot be fetched: No matching distribution"),
        ("", "cannot be fetched: pip download failed without a word"),
    ],
)
def test_wheels_that_cannot_be_had_leave_no_folder_that_passes_for_them(
    tmp_path: Path, pip: Path, said: str, expected: str
) -> None:
    pip.write_text(f"#!/bin/sh\nprintf '{said}' >&2; exit 1\n")
    with pytest.raises(ImageError, match=expected):
        wheels.fetch("a==1", tmp_path / "cache", TARGET, Report())
    assert list((tmp_path / "cache").iterdir()) == []


def test_pip_takes_nothing_without_a_hash_and_nothing_to_compile(tmp_path: Path) -> None:
    words = wheels.command(tmp_path / "r.txt", tmp_path, TARGET)
    assert {"--no-deps", "--require-hashes", "--only-binary=:all:"} <= set(words)


def test_platforms_end_at_the_images_own_c_library() -> None:
    tags = wheels.platforms(TARGET)
    assert tags[0] == "manylinux_2_36_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64"} <= set(tags)
    assert "manylinux_2_39_x86_64" not in tags
    assert wheels.platforms(wheels.Target("3.12", "2.39", "arm64"))[0] == "manylinux_2_39_aarch64"
