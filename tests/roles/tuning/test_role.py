"""The role itself, run for real on this machine, in a temporary folder."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Result = subprocess.CompletedProcess[str]
Run = Callable[..., Result]


@pytest.fixture
def role(ansible_playbook: Callable[..., Result], tmp_path: Path) -> Run:
    """Run the role with its files in `tmp_path/etc` and a recorded CPU of two sockets with two cores each."""
    blocks = [
        f"processor : {socket * 4 + core * 2 + thread}\nphysical id : {socket}\ncore id : {core}\n"
        for socket in range(2)
        for core in range(2)
        for thread in range(2)
    ]
    for path, text in {"proc/cpuinfo": "\n".join(blocks), "proc/meminfo": "MemTotal: 1 kB\n"}.items():
        (tmp_path / "host" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "host" / path).write_text(text)
    for node in range(2):
        (tmp_path / f"host/sys/devices/system/node/node{node}").mkdir(parents=True)

    def run(*arguments: str, **variables: object) -> Result:
        usual: dict[str, object] = {
            "ansible_python_interpreter": sys.executable,
            "gpu_probe_python": sys.executable,
            "gpu_probe_root": str(tmp_path / "host"),
            "tuning_environment_dir": str(tmp_path / "etc"),
        }
        extra = json.dumps(usual | variables)
        return ansible_playbook("tests/roles/tuning/role.yml", "-i", "localhost,", "--extra-vars", extra, *arguments)

    return run


def test_the_file_has_what_the_probe_counted_and_a_second_run_changes_nothing(role: Run, tmp_path: Path) -> None:
    result = role(triton_vendor="amd")
    assert result.returncode == 0, result.stdout
    lines = (tmp_path / "etc/amd.env").read_text().splitlines()
    assert "OMP_NUM_THREADS=4" in lines
    assert "HIP_FORCE_DEV_KERNARG=1" in lines
    assert "changed=0" in role(triton_vendor="amd").stdout


def test_a_server_on_one_numa_node_has_that_nodes_cores(role: Run, tmp_path: Path) -> None:
    assert role(tuning_numa_pinned=True).returncode == 0
    assert "OMP_NUM_THREADS=2" in (tmp_path / "etc/cpu.env").read_text().splitlines()


def test_what_role_gpu_network_found_is_in_it_unless_the_inventory_says_otherwise(role: Run, tmp_path: Path) -> None:
    network = {"NCCL_SOCKET_IFNAME": "=ens1", "NCCL_IB_DISABLE": "1"}
    role(tuning_vendor="nvidia", gpu_network_environment=network, tuning_overrides={"NCCL_IB_DISABLE": "0"})
    lines = (tmp_path / "etc/nvidia.env").read_text().splitlines()
    assert "NCCL_SOCKET_IFNAME==ens1" in lines
    assert "NCCL_IB_DISABLE=0" in lines


def test_a_check_on_a_fresh_host_works_and_touches_nothing(role: Run, tmp_path: Path) -> None:
    """prometheus-community/ansible PR 632 and 818: `--check` failed where nothing was installed yet."""
    result = role("--check", "--diff")
    assert result.returncode == 0, result.stdout
    assert not (tmp_path / "etc").exists()


def test_every_wrong_value_is_named_before_anything_is_changed(role: Run, tmp_path: Path) -> None:
    result = role(tuning_vendor="amd", tuning_overrides={"HSA_XNACK": "yes", "OMP_NUM_THREAD": 4})
    assert result.returncode != 0
    words = " ".join(result.stdout.split())
    assert "- HSA_XNACK is 'yes': expected [01]" in words
    assert "- OMP_NUM_THREAD is not in the table" in words
    assert not (tmp_path / "etc").exists()
