"""The role itself, run for real on a recorded host."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Result = subprocess.CompletedProcess[str]
Check = Callable[..., Result]


@pytest.fixture
def check(ansible_playbook: Callable[..., Result], tmp_path: Path) -> Check:
    """Run the role on a recorded host with one core and nothing else."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor : 0\nphysical id : 0\ncore id : 0\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal:       65536000 kB\n")

    def run(**variables: object) -> Result:
        usual = {"gpu_probe_root": str(tmp_path), "gpu_probe_python": sys.executable}
        extra = json.dumps(usual | variables)
        path = "tests/roles/hardware_check/playbooks/check.yml"
        return ansible_playbook(path, "-i", "localhost,", "--check", "--extra-vars", extra)

    return run


def test_every_failure_is_named_at_once_with_its_remedy_and_the_way_around(check: Check) -> None:
    result = check(triton_vendor="nvidia")
    assert result.returncode != 0
    words = " ".join(result.stdout.split())
    for name in ("- gpu: found none, expected a GPU of nvidia", "- cpu: found 1 cores", "- nvme:", "- network:"):
        assert name in words
    assert 'hardware_check_accepted: ["gpu", "cpu", "nvme", "network"]' in words


def test_what_is_accepted_is_shown_and_stops_nothing(check: Check) -> None:
    result = check(hardware_check_accepted=["cpu", "nvme", "network"])
    assert result.returncode == 0, result.stdout
    assert "cpu: warn. Found: 1 cores; expected: at least 16 cores" in " ".join(result.stdout.split())
    assert "changed=0" in result.stdout


def test_a_report_stops_nothing(check: Check) -> None:
    result = check(hardware_check_report_only=True)
    assert result.returncode == 0, result.stdout
    assert "cpu: fail." in result.stdout


def test_only_checks_that_exist_can_be_accepted(check: Check) -> None:
    result = check(hardware_check_accepted=["everything"])
    assert result.returncode != 0
    assert "everything" in result.stdout + result.stderr
