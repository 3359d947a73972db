"""The role itself, run for real against this machine, with everything in a temporary folder."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.bimetal.cluster.plugins.lookup import zipapp

from tests.patience import PATIENCE_S

Result = subprocess.CompletedProcess[str]
Install = Callable[..., Result]
PLAYBOOKS = "tests/roles/gpu_probe/playbooks"
PACKAGE = Path(__file__).parents[3] / "roles/gpu_probe/files/gpu_probe"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Where the node's files are; nothing is there yet."""
    return tmp_path / "node"


@pytest.fixture
def install(ansible_playbook: Callable[..., Result], host: Any, node: Path) -> Install:
    """Run the role with its paths in `node` and a recorded host for the GPUs."""

    def run(*arguments: str, **variables: object) -> Result:
        usual: dict[str, object] = {
            "ansible_python_interpreter": sys.executable,
            "gpu_probe_python": sys.executable,
            "gpu_probe_install_dir": str(node / "lib"),
            "gpu_probe_fact_file": str(node / "facts.d/gpu.fact"),
            "gpu_probe_textfile": str(node / "textfile/gpu.prom"),
            "gpu_probe_state_file": str(node / "state/counters.json"),
            "gpu_probe_systemd_dir": str(node / "systemd"),
            "gpu_probe_timer_enabled": False,
            "gpu_probe_root": str(host.root),
        }
        extra = json.dumps(usual | variables)
        return ansible_playbook(f"{PLAYBOOKS}/install.yml", "-i", "localhost,", "--extra-vars", extra, *arguments)

    return run


def test_a_check_on_a_fresh_host_works_and_touches_nothing(install: Install, node: Path) -> None:
    """prometheus-community/ansible PR 632 and 818: `--check` failed where nothing was installed yet."""
    result = install("--check", "--diff")
    assert result.returncode == 0, result.stdout
    assert not node.exists()


def test_after_the_role_the_fact_and_the_metrics_are_there_and_a_second_run_changes_nothing(
    install: Install, host: Any, node: Path
) -> None:
    host.amd_gpu()
    result = install()
    assert result.returncode == 0, result.stdout
    fact = json.loads((node / "facts.d/gpu.fact").read_text())
    assert [gpu["vendor"] for gpu in fact["hardware"]["gpus"]] == ["amd"]
    assert 'bimetal_gpu_devices{vendor="amd"} 1' in (node / "textfile/gpu.prom").read_text()
    again = install()
    assert "changed=0" in again.stdout, again.stdout


def test_a_python_that_cannot_run_the_probe_is_named_before_any_change(install: Install, node: Path) -> None:
    result = install(gpu_probe_python="/usr/bin/python2.6")
    assert result.returncode != 0
    assert "/usr/bin/python2.6 on localhost is not to be run" in " ".join(result.stdout.split())
    assert not node.exists()


def test_a_relative_path_is_refused(install: Install) -> None:
    result = install(gpu_probe_fact_file="gpu.fact")
    assert result.returncode != 0
    assert "gpu_probe_fact_file is 'gpu.fact': expected an absolute path" in " ".join(result.stdout.split())


@pytest.mark.skipif(Path("/run/systemd/system").exists(), reason="systemd runs here: the timer would be accepted")
def test_a_timer_without_systemd_is_refused_with_the_way_out(install: Install, node: Path) -> None:
    result = install(gpu_probe_timer_enabled=True)
    assert result.returncode != 0
    assert "Set gpu_probe_timer_enabled: false" in " ".join(result.stdout.split())
    assert not node.exists()


def test_a_report_needs_no_installation_and_works_in_check_mode(
    ansible_playbook: Callable[..., Result], host: Any
) -> None:
    host.nvidia_gpu()
    host.amd_gpu()
    extra = json.dumps({"gpu_probe_root": str(host.root), "gpu_probe_python": sys.executable})
    result = ansible_playbook(f"{PLAYBOOKS}/report.yml", "-i", "localhost,", "--extra-vars", extra, "--check")
    assert "vendors: nvidia and amd" in result.stdout, result.stdout
    assert "changed=0" in result.stdout


def test_what_sudo_says_on_the_terminal_is_not_the_document(
    ansible_playbook: Callable[..., Result], host: Any, tmp_path: Path
) -> None:
    """Over SSH the script has a terminal; seen on a virtual machine whose name did not resolve."""
    host.amd_gpu()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "sudo: unable to resolve host {{vm}}"\n{sys.executable} "$@"\necho closed\n')
    python.chmod(0o755)
    extra = json.dumps({"gpu_probe_root": str(host.root), "gpu_probe_python": str(python)})
    result = ansible_playbook(f"{PLAYBOOKS}/report.yml", "-i", "localhost,", "--extra-vars", extra)
    assert "vendors: amd" in result.stdout, result.stdout


def test_a_probe_without_a_document_is_named_with_what_it_said(
    ansible_playbook: Callable[..., Result], host: Any, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'no such module'\n")
    python.chmod(0o755)
    extra = json.dumps({"gpu_probe_root": str(host.root), "gpu_probe_python": str(python)})
    result = ansible_playbook(f"{PLAYBOOKS}/report.yml", "-i", "localhost,", "--extra-vars", extra)
    assert result.returncode != 0
    assert "did not run on localhost" in result.stdout
    assert "no such module" in result.stdout


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    copy = tmp_path / "gpu_probe"
    copy.mkdir()
    for source in sorted(PACKAGE.glob("*.*"), reverse=True):
        (copy / source.name).write_bytes(source.read_bytes())
    (copy / "__pycache__").mkdir()
    assert zipapp.pack(copy) == zipapp.pack(PACKAGE)


def test_the_packed_probe_has_its_data_and_runs_alone(tmp_path: Path, host: Any) -> None:
    host.nvidia_gpu()
    path = zipapp.write("gpu_probe", zipapp.pack(PACKAGE), tmp_path)
    assert "gpu_probe/devices.csv" in zipfile.ZipFile(path).namelist()
    command = [sys.executable, "-I", str(path), "--root", str(host.root)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert json.loads(result.stdout)["hardware"]["gpus"][0]["facts"]["model"] == "A100 SXM4 80GB"
