"""The weekly job: its units as systemd reads them, and a host without systemd."""

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path

import pytest
from typer.main import get_command

from bimetal.cli.main import app

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def units(ansible_playbook: Run, tmp_path: Path, project: Path) -> Path:
    """The folder of the rendered units."""
    done = ansible_playbook(
        "tests/roles/playbooks/learn_timer.yml",
        test_folder=tmp_path,
        bimetal_state_dir="/var/lib/bimetal",
        bimetal_venv=project / ".venv",
    )
    assert done.returncode == 0, done.stdout
    return tmp_path


def read(file: Path) -> ConfigParser:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's keys have capitals
    unit.read(file)
    return unit


def test_the_timer_runs_a_command_that_there_is_every_week(units: Path) -> None:
    timer, service = read(units / "bimetal-learn.timer"), read(units / "bimetal-learn.service")
    assert timer["Timer"]["OnCalendar"] == "weekly"
    program, command, *options = shlex.split(service["Service"]["ExecStart"])
    assert (Path(program).name, options) == ("bimetal", ["--fleet", "/var/lib/bimetal/fleet.yaml"])
    assert Path(program).is_file()
    assert command in get_command(app).commands  # type: ignore[attr-defined]  # it is a group


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_the_units(units: Path) -> None:
    files = [str(units / f"bimetal-learn.{kind}") for kind in ("service", "timer")]
    done = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, check=False)
    assert (done.returncode, "bimetal-learn" in done.stderr) == (0, False), done.stderr


@pytest.mark.skipif(Path("/run/systemd/system").exists(), reason="systemd runs here: the timer would be accepted")
def test_a_timer_without_systemd_is_refused_before_anything_is_changed(site: Run, state_dir: Path) -> None:
    done = site("--extra-vars", json.dumps({"router_learn_timer_enabled": True}))
    assert done.returncode != 0
    assert "Set router_learn_timer_enabled: false" in " ".join(done.stdout.split())
    assert not (state_dir / "fleet.yaml").exists()
