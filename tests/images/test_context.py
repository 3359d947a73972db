"""Build contexts: the same files give the same bytes, anything else does not."""

import os
import tarfile
from pathlib import Path

import pytest

from bimetal.images.context import File, as_tar, digest, tree


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub/__pycache__").mkdir(parents=True)
    (tmp_path / "sub/__pycache__/a.pyc").write_bytes(b"compiled")
    (tmp_path / "sub/a.py").write_text("a")
    (tmp_path / "run").write_text("#!/bin/sh")
    (tmp_path / "run").chmod(0o755)
    return tmp_path


def tar_bytes(folder: Path) -> bytes:
    with as_tar(tree(folder, "rootfs")) as file:
        return file.read()


def test_a_tree_keeps_names_and_run_bits_and_leaves_out_compiled_files(folder: Path) -> None:
    with as_tar(tree(folder, "rootfs")) as file, tarfile.open(fileobj=file) as tar:
        assert {member.name: oct(member.mode) for member in tar} == {"rootfs/run": "0o755", "rootfs/sub/a.py": "0o644"}


def test_the_time_of_a_file_changes_nothing(folder: Path) -> None:
    before = tar_bytes(folder), digest(tree(folder, "rootfs"))
    os.utime(folder / "run", (1, 1))
    assert (tar_bytes(folder), digest(tree(folder, "rootfs"))) == before


@pytest.mark.parametrize("change", ["content", "mode", "name"])
def test_content_mode_and_name_change_the_digest(folder: Path, change: str) -> None:
    before = digest(tree(folder, "rootfs"))
    if change == "content":
        (folder / "run").write_text("other")
    elif change == "mode":
        (folder / "run").chmod(0o644)
    else:
        (folder / "run").rename(folder / "walk")
    assert digest(tree(folder, "rootfs")) != before


def test_what_is_given_beside_the_files_counts_too() -> None:
    files = {"a": File(b"1")}
    assert digest(files, "base-1") != digest(files, "base-2")
    assert digest(files, "ab", "c") != digest(files, "a", "bc")
