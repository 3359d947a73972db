"""Where a GPU slows down is read from every vendor's tool, and the router reads it from the metrics."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bimetal.probes.gpu_metrics import read_gpu_metrics
from tests.patience import PATIENCE_S

Json = dict[str, Any]
Probe = Callable[..., Json]
# Until Ada the driver tells the temperature itself, from Ada on distances to a limit (seen: 45 °C now, 39 °C from its
# limit, slowdown at 2 °C beyond it).
ABSOLUTE = "<gpu_temp_slow_threshold>93 C</gpu_temp_slow_threshold>"
DISTANCES = (
    "<gpu_temp_tlimit>39 C</gpu_temp_tlimit><gpu_temp_slow_tlimit_threshold>-2 C</gpu_temp_slow_tlimit_threshold>"
)


@pytest.mark.parametrize(
    ("limits", "slowdown"),
    [
        (ABSOLUTE, 93.0),
        (DISTANCES, 86.0),
        (DISTANCES.replace("39 C", "N/A"), None),
        (f"<gpu_temp_slow_threshold>N/A</gpu_temp_slow_threshold>{DISTANCES}", 86.0),
        ("", None),
    ],
)
def test_nvidia_tells_it_as_a_temperature_or_as_distances(
    host: Any, probe: Probe, nvidia_xml: Callable[..., str], limits: str, slowdown: float | None
) -> None:
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml(temperature="45 C", limits=limits))
    (gpu,) = probe(host)["hardware"]["gpus"]
    assert gpu["readings"]["slowdown_temperature_c"] == slowdown


@pytest.mark.parametrize(
    ("limit", "slowdown"),
    [
        ({"slowdown_edge_temperature": "N/A", "slowdown_hotspot_temperature": {"value": 100, "unit": "C"}}, 100.0),
        ({"slowdown_edge_temperature": {"value": 99, "unit": "C"}, "slowdown_hotspot_temperature": "N/A"}, 99.0),
        ("N/A", None),
    ],
)
def test_amd_tells_it_for_the_sensor_that_throttles(
    host: Any, probe: Probe, static_entry: Callable[..., Json], limit: object, slowdown: float | None
) -> None:
    host.amd_gpu()
    host.amd_smi([static_entry() | {"limit": limit}], [])
    (gpu,) = probe(host)["hardware"]["gpus"]
    assert gpu["readings"]["slowdown_temperature_c"] == slowdown


def test_the_router_reads_the_margin_from_the_metrics_that_the_probe_writes(
    host: Any, tmp_path: Path, project: Path, nvidia_xml: Callable[..., str]
) -> None:
    host.nvidia_gpu("0000:0b:00.0")
    host.nvidia_smi(xml=nvidia_xml(temperature="45 C", limits=DISTANCES))
    textfile = tmp_path / "gpu.prom"
    options = ["--root", host.root, "--state", tmp_path / "state", "--textfile", textfile]
    command = [sys.executable, "-B", "-m", "gpu_probe", *map(str, options)]
    done = subprocess.run(
        command, cwd=project / "roles/gpu_probe/files", capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    metrics = read_gpu_metrics(textfile.read_text())
    assert metrics.margins_c == {"0000:0b:00.0": 41.0}
    assert json.loads(done.stdout)["hardware"]["gpus"][0]["pci_address"] == "0000:0b:00.0"
    assert metrics.written_at is not None
