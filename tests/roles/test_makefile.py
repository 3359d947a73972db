"""What a person meets first."""

import os
import re
import shutil
import subprocess
from pathlib import Path

MAKEFILES = ("Makefile", "ansible/molecule.mk", "images/images.mk")


def make(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # As typed by a person, also when `make test` runs this.
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    }
    return subprocess.run(
        ["make", *arguments], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def fresh_checkout(project: Path, directory: Path) -> Path:
    """As much of a clone as the targets need before there is an environment."""
    needed = (*MAKEFILES, "pyproject.toml", "requirements.lock", "roles/triton/files/process_preflight.py")
    for path in needed:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project / path, directory / path)
    return directory


def test_help_describes_every_target_in_a_line(project: Path) -> None:
    text = "\n".join((project / file).read_text() for file in MAKEFILES)
    phony = " ".join(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE))
    described = dict(re.findall(r"^  make (\S+) +(\S.*)$", make(project, "help").stdout, re.MULTILINE))
    assert sorted(described) == sorted(phony.split())


def test_make_alone_shows_the_help(project: Path) -> None:
    assert make(project).stdout == make(project, "help").stdout


def test_up_checks_the_machine_before_it_creates_anything(project: Path, tmp_path: Path) -> None:
    plan = make(fresh_checkout(project, tmp_path), "--dry-run", "up").stdout
    steps = ["process_preflight.py --venv", "-m venv", "--require-hashes", "--no-deps --editable", "ansible/serve.yml"]
    positions = [plan.find(step) for step in steps]
    assert -1 not in positions
    assert positions == sorted(positions)


def test_a_failed_check_stops_up_before_there_is_an_environment(project: Path, tmp_path: Path) -> None:
    python = tmp_path / "python3.10"
    python.write_text('#!/bin/sh\necho "error: Python 3.10 is not supported" >&2\nexit 1\n')
    python.chmod(0o755)
    result = make(fresh_checkout(project, tmp_path), "up", f"PYTHON={python}")
    assert result.returncode != 0
    assert "Python 3.10 is not supported" in result.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_missing_python_is_named_with_the_next_step(project: Path, tmp_path: Path) -> None:
    result = make(fresh_checkout(project, tmp_path), "up", "PYTHON=python3.99")
    assert result.returncode != 0
    assert "'python3.99' is not a command: expected Python 3.11 or 3.12. Next:" in result.stderr


def test_down_in_a_fresh_checkout_has_nothing_to_stop(project: Path, tmp_path: Path) -> None:
    result = make(fresh_checkout(project, tmp_path), "down")
    assert result.returncode == 0
    assert "Nothing to stop" in result.stdout
