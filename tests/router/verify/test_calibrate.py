"""ansible/playbooks/calibrate.yml, really run on the local inventory."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bimetal.calibration import read_calibration
from bimetal.verify import read_results

PROJECT = Path(__file__).parents[3]
Calibrate = Callable[..., subprocess.CompletedProcess[str]]

# The command line with nothing but what the playbook uses.
BIMETAL = f"""#!{sys.executable}
import sys
import typer
from bimetal.cli.calibrate import calibrate
from bimetal.cli.ops import ops_app

sys.path.insert(0, __file__ + ".packages")

app = typer.Typer(pretty_exceptions_enable=False)
app.add_typer(ops_app, name="ops")
app.command()(calibrate)
app()
"""

# A fake: it computes nothing.
TORCH = """
from types import SimpleNamespace
__version__, float16, float32, uint8 = "2.13.0+fake", "float16", "float32", "uint8"
cuda = SimpleNamespace(is_available=lambda: False)
class Tensor:
    def to(self, kind):
        return self
    fill_ = copy_ = lambda self, value, non_blocking=True: self
def empty(*size, dtype, device):
    return Tensor()
def rand(*size, device):
    return Tensor()
def matmul(left, right, out):
    pass
"""


@pytest.fixture
def calibrate(tmp_path: Path) -> Calibrate:
    """Runs the playbook with variables; results go to tmp_path/state."""
    bimetal = tmp_path / "bimetal"
    bimetal.write_text(BIMETAL)
    bimetal.chmod(0o755)
    # Whatever torch this environment has would take its time.
    (tmp_path / "bimetal.packages").mkdir()
    (tmp_path / "bimetal.packages/torch.py").write_text('raise ImportError("No module named torch")\n')

    def run(*arguments: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        values = {"bimetal_state_dir": str(tmp_path / "state"), "calibrate_command": [str(bimetal)], **variables}
        playbook = [str(Path(sys.executable).with_name("ansible-playbook")), "ansible/playbooks/calibrate.yml"]
        environment = {
            **os.environ,
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


@pytest.mark.slow  # a whole playbook
def test_results_come_to_the_gateways_and_emulated_gpus_are_left_out(calibrate: Calibrate, tmp_path: Path) -> None:
    result = calibrate(calibrate_only=["Softmax", "RoiAlign"])
    assert result.returncode == 0, result.stdout + result.stderr
    (file,) = (tmp_path / "state" / "verified").iterdir()
    document = read_results(file)
    assert {record.operator for record in document.records} == {"Softmax", "RoiAlign"}
    assert file.name == f"cpu-0-cpu-{document.started:%Y%m%dT%H%M%S}Z.json"
    for host in ("cuda-0", "rocm-0"):
        assert f"{host} is left out: its triton_compute is cpu" in result.stdout
    # Operators are verified all the same.
    said = " ".join(result.stdout.split())
    assert "cpu-0 was not measured and keeps its data sheet: " in said
    assert "torch is not installed here" in said
    assert not (tmp_path / "state/calibrated").exists()


@pytest.mark.slow  # a whole playbook
def test_figures_come_to_the_gateways_in_the_form_that_the_router_reads(calibrate: Calibrate, tmp_path: Path) -> None:
    (tmp_path / "bimetal.packages/torch.py").write_text(TORCH)
    result = calibrate("--tags", "devices")
    assert result.returncode == 0, result.stdout + result.stderr
    (file,) = (tmp_path / "state/calibrated").iterdir()
    assert file.name == "cpu-0.json"
    found = read_calibration(file)
    assert (found.vendor, found.torch, found.temperatures_c) == ("cpu", "2.13.0+fake", {})
    assert [(device.kind, device.gemm_type) for device in found.devices] == [("cpu", "float32")]


@pytest.mark.slow  # a whole playbook
def test_a_verification_that_fails_is_reported_with_its_words(calibrate: Calibrate, tmp_path: Path) -> None:
    result = calibrate("--limit", "cpu-0", "--tags", "operators", calibrate_only=["Softmacks"])
    assert result.returncode != 0
    assert "bimetal ops verify failed on cpu-0" in result.stdout
    assert "no node test of an operator 'Softmacks'" in " ".join(result.stdout.split())
    assert not (tmp_path / "state").exists()


def test_a_wrong_variable_is_refused_before_anything_runs(calibrate: Calibrate) -> None:
    result = calibrate("--limit", "cpu-0", calibrate_only="Softmax")
    assert result.returncode != 0
    assert "expected a list of operators" in " ".join(result.stdout.split())
