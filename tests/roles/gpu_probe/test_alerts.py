"""The alerts say what they should of recorded metrics, and read only metrics that the probe publishes."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.patience import PATIENCE_S

ALERTS = Path(__file__).parents[3] / "roles/gpu_probe/files/alerts.yml"


def test_every_alert_reads_metrics_that_the_probe_publishes(
    host: Any, tmp_path: Path, nvidia_xml: Callable[..., str]
) -> None:
    """The kind of dcgm-exporter 707: an alert on a metric that nobody publishes never fires."""
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml())
    textfile = tmp_path / "gpu.prom"
    command = [sys.executable, "-B", "-m", "gpu_probe", "--root", host.root, "--state", tmp_path / "state"]
    subprocess.run(
        [*map(str, command), "--textfile", str(textfile)], cwd=ALERTS.parent, check=True, capture_output=True
    )
    published = set(re.findall(r"^# TYPE (\w+)", textfile.read_text(), re.MULTILINE))
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    read = {name: set(re.findall(r"\bbimetal_\w+", rule["expr"])) for rule in rules for name in [rule["alert"]]}
    assert all(read.values())
    assert {name: metrics - published for name, metrics in read.items() if metrics - published} == {}


def test_the_alerts_fire_when_they_should_and_are_quiet_otherwise() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed; Debian has it in the package prometheus")
    done = subprocess.run(
        [promtool, "test", "rules", "alerts.yml"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
