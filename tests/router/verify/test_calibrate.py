"""ansible/playbooks/calibrate.yml, really run on the local inventory."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from router.verify import read_results

PROJECT = Path(__file__).parents[3]
Calibrate = Callable[..., subprocess.CompletedProcess[str]]

# The command line with nothing but `ops`.
BIMETAL = f"""#!{sys.executable}
import typer
from router.verify.cli import ops_app

app = typer.Typer(pretty_exceptions_enable=False)
app.add_typer(ops_app, name="ops")
app.callback()(lambda: None)
app()
"""


@pytest.fixture
def calibrate(tmp_path: Path) -> Calibrate:
    """Runs the playbook with variables; results go to tmp_path/state."""
    bimetal = tmp_path / "bimetal"
    bimetal.write_text(BIMETAL)
    bimetal.chmod(0o755)

    def run(*arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        values = {"bimetal_state_dir": str(tmp_path / "state"), "calibrate_command": [str(bimetal)], **variables}
        playbook = [str(Path(sys.executable).with_name("ansible-playbook")), "ansible/playbooks/calibrate.yml"]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(PROJECT / "ansible" / "ansible.cfg"),
            "LC_ALL": "C.UTF-8",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        return subprocess.run(
            [*playbook, "-e", json.dumps(values), *arguments],
            cwd=PROJECT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


def test_results_come_to_the_gateways_and_emulated_gpus_are_left_out(calibrate: Calibrate, tmp_path: Path) -> None:
    result = calibrate(calibrate_only=["Softmax", "RoiAlign"])
    assert result.returncode == 0, result.stdout + result.stderr
    (file,) = (tmp_path / "state" / "verified").iterdir()
    document = read_results(file)
    assert {record.operator for record in document.records} == {"Softmax", "RoiAlign"}
    assert file.name == f"cpu-0-cpu-{document.started:%Y%m%dT%H%M%S}Z.json"
    for host in ("cuda-0", "rocm-0"):
        assert f"{host} is left out: its triton_compute is cpu" in result.stdout


def test_a_verification_that_fails_is_reported_with_its_words(calibrate: Calibrate, tmp_path: Path) -> None:
    result = calibrate("--limit", "cpu-0", calibrate_only=["Softmacks"])
    assert result.returncode != 0
    assert "bimetal ops verify failed on cpu-0" in result.stdout
    assert "no node test of an operator 'Softmacks'" in " ".join(result.stdout.split())
    assert not (tmp_path / "state").exists()


def test_a_wrong_variable_is_refused_before_anything_runs(calibrate: Calibrate) -> None:
    result = calibrate("--limit", "cpu-0", calibrate_only="Softmax")
    assert result.returncode != 0
    assert "expected a list of operators" in " ".join(result.stdout.split())
