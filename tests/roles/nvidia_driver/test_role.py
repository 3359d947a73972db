"""The role's checks, run for real: facts of other distributions are recorded ones, tools are fakes."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

Result = subprocess.CompletedProcess[str]
Check = Callable[..., Result]

# What Ansible's setup says on these; no test has a host of them.
DEBIAN_12 = {"distribution": "Debian", "distribution_version": "12.12", "distribution_release": "bookworm"}
UBUNTU = {"distribution": "Ubuntu", "distribution_version": "22.04", "distribution_release": "jammy"}
ROCKY = {"distribution": "Rocky", "distribution_version": "9.6", "os_family": "RedHat"}


@pytest.fixture
def check(ansible_playbook: Callable[..., Result]) -> Check:
    """Run the preflight for a host with one A100 and the headers of its kernel."""

    def run(facts: dict[str, str], **variables: object) -> Result:
        gathered = {"os_family": "Debian", "architecture": "x86_64", **facts}
        gathered["distribution_major_version"] = gathered["distribution_version"].partition(".")[0]
        usual = {
            "ansible_facts": gathered,
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "nvidia_driver_gpus": ["10de:20b2"],
            "nvidia_driver_boot_free_mb": 0,
        }
        extra = json.dumps(usual | variables)
        path = "tests/roles/nvidia_driver/preflight.yml"
        return ansible_playbook(path, "-i", "localhost,", "--extra-vars", extra)

    return run


def words(result: Result) -> str:
    return " ".join((result.stdout + result.stderr).split())


@pytest.mark.parametrize(
    ("facts", "branch", "decision"),
    [
        (
            UBUNTU,
            "570",
            "open nvidia-dkms-570-open libnvidia-compute-570 nvidia-utils-570 nvidia-compute-utils-570"
            " https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/"
            " https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/3bf863cc.pub",
        ),
        (
            UBUNTU | {"architecture": "aarch64"},
            "535",
            "proprietary nvidia-dkms-535 libnvidia-compute-535 nvidia-utils-535 nvidia-compute-utils-535"
            " https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/sbsa/",
        ),
        (
            ROCKY,
            "570",
            "open kmod-nvidia-open-dkms nvidia-driver-cuda nvidia-persistenced"
            " https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/"
            " https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/D42D0685.pub",
        ),
    ],
)
def test_ubuntu_and_rhel_get_their_packages_and_repository_of_recorded_facts(
    check: Check, facts: dict[str, str], branch: str, decision: str
) -> None:
    result = check(facts, nvidia_driver_source="nvidia", nvidia_driver_branch=branch)
    assert result.returncode == 0, result.stdout
    assert decision in words(result)
    assert "changed=0" in result.stdout


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"nvidia_driver_branch": "470"}, "CUDA 11.8 needs driver 520.61.05 or newer, and this would be 470."),
        ({"nvidia_driver_version": "550.1"}, "nvidia_driver_version 550.1 is not of branch 535"),
        ({"nvidia_driver_gpus": ["10de:2901"]}, "Branch 535 does not drive Blackwell GB100 GPUs"),
        ({"nvidia_driver_boot_free_mb": 10**9}, "MB left: expected 1000000000"),
        (
            {"nvidia_driver_kernels": ["6.1.0-none"], "nvidia_driver_manage_headers": False},
            "/lib/modules/6.1.0-none/build is missing",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_changed(
    check: Check, variables: dict[str, object], message: str
) -> None:
    result = check(DEBIAN_12, nvidia_driver_source="nvidia", **variables)
    assert result.returncode != 0
    assert message in words(result)
    assert "changed=0" in result.stdout


def test_a_distribution_without_a_driver_of_its_own_is_told_so(check: Check) -> None:
    result = check(ROCKY)
    assert "has no driver with nvidia_driver_source distribution: expected one of Debian, Ubuntu" in words(result)
