"""The digest of a package's code, by which the roles see that a program runs old code."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

SCRIPT = "roles/router/files/code_digest.py"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "made_up"
    (folder / "part").mkdir(parents=True)
    for name in ("__init__.py", "part/__init__.py", "part/data.csv"):
        (folder / name).write_text("one")
    return folder


def digests(project: Path, package: Path, *names: str) -> list[str]:
    command = [sys.executable, str(project / SCRIPT), *names]
    environment = {"PYTHONPATH": str(package.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return done.stdout.split()


def test_a_change_of_any_file_changes_the_digest_and_what_python_compiled_does_not(
    project: Path, package: Path
) -> None:
    (package / "__init__.py").write_text("")
    (package / "part/__init__.py").write_text("")
    before = digests(project, package, "made_up", "made_up.part")
    (package / "part/left.pyc").write_text("compiled")
    assert digests(project, package, "made_up", "made_up.part") == before
    (package / "part/data.csv").write_text("two")
    after = digests(project, package, "made_up", "made_up.part")
    assert (after[0] != before[0], after[1] != before[1]) == (True, True)
    (package / "new.lua").write_text("")
    assert digests(project, package, "made_up", "made_up.part")[1] == after[1]
