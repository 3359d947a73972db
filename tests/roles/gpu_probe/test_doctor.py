"""The doctor: what it says about a recorded host, as words, as JSON, and as exit status."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Result = subprocess.CompletedProcess[str]
Doctor = Callable[..., Result]


@pytest.fixture
def doctor(ansible_playbook: Callable[..., Result], host: Any) -> Doctor:
    """Run the playbook on the recorded host."""

    def run(*arguments: str, **variables: object) -> Result:
        usual = {"ansible_connection": "local", "gpu_probe_root": str(host.root), "gpu_probe_python": sys.executable}
        extra = json.dumps(usual | variables)
        path = "ansible/playbooks/doctor.yml"
        return ansible_playbook(path, "-i", "localhost,", "--extra-vars", extra, *arguments)

    return run


@pytest.fixture
def healthy(host: Any, nvidia_xml: Callable[..., str], nvidia_csv: Callable[..., str]) -> Any:
    """An A100 that is well, on a host with a daemon that is not there: one warning."""
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml(), csv=nvidia_csv())
    return host


def test_warnings_count_only_where_that_was_asked_for(healthy: Any, doctor: Doctor) -> None:
    assert (healthy.root / "bin/nvidia-smi").exists()
    result = doctor()
    assert result.returncode == 0, result.stdout
    assert "localhost is warn: 1 GPUs" in result.stdout
    assert "changed=0" in result.stdout
    assert doctor(doctor_fail_on="warn").returncode == 2


def test_a_driver_that_cannot_be_reached_gets_its_cause_and_the_next_step_also_in_check_mode(
    host: Any, doctor: Doctor, tmp_path: Path
) -> None:
    host.pci("0000:0b:00.0", "10de:20b2", "0302", driver="nouveau")
    host.nvidia_smi(failure="NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
    report = tmp_path / "report.json"
    result = doctor("--check", doctor_json=str(report))
    assert result.returncode == 2
    words = " ".join(result.stdout.split())
    assert "fail software/driver_nouveau_loaded (nvidia): nouveau holds the GPU" in words
    assert "next: Run role nvidia_driver" in words
    written = json.loads(report.read_text())["localhost"]
    assert written["worst"] == "fail"
    assert written["document"]["collectors"]["nvidia-smi xml"]["failure"] == "driver_unreachable"


def test_a_host_of_a_pool_is_held_against_the_requirements(healthy: Any, doctor: Doctor) -> None:
    result = doctor(triton_pool="rocm", triton_vendor="amd", doctor_fail_on="never")
    assert result.returncode == 0, result.stdout
    assert "fail requirements/gpu (host): found nvidia NVIDIA A100-SXM4-80GB, expected a GPU of amd" in " ".join(
        result.stdout.split()
    )
    assert healthy.root.exists()


def test_a_wrong_threshold_is_named(doctor: Doctor) -> None:
    result = doctor(doctor_fail_on="sometimes")
    assert result.returncode == 2
    assert "doctor_fail_on is 'sometimes': expected fail, warn or never." in result.stdout
