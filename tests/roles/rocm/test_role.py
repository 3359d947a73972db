"""The role's checks, run for real: facts of other distributions are recorded ones."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

Result = subprocess.CompletedProcess[str]
Check = Callable[..., Result]

# What Ansible's setup says on these; no test has a host of them.
NOBLE = {"distribution": "Ubuntu", "distribution_version": "24.04"}
DEBIAN_12 = {"distribution": "Debian", "distribution_version": "12.12"}
DEBIAN_13 = {"distribution": "Debian", "distribution_version": "13.1"}
RHEL = {"distribution": "RedHat", "distribution_version": "9.6", "os_family": "RedHat"}


@pytest.fixture
def check(ansible_playbook: Callable[..., Result]) -> Check:
    """Run the preflight for a host with a kernel."""

    def run(facts: dict[str, str], kernel: str, **variables: object) -> Result:
        gathered = {"os_family": "Debian", **facts}
        gathered["distribution_major_version"] = gathered["distribution_version"].partition(".")[0]
        usual = {
            "ansible_facts": gathered,
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "rocm_kernels": [kernel],
            "rocm_boot_free_mb": 0,
        }
        extra = json.dumps(usual | variables)
        return ansible_playbook("tests/roles/rocm/preflight.yml", "-i", "localhost,", "--extra-vars", extra)

    return run


def words(result: Result) -> str:
    return " ".join((result.stdout + result.stderr).split())


@pytest.mark.parametrize(
    ("host", "rocm", "decision"),
    [
        (
            (NOBLE, "6.8.0-45-generic"),
            "6.4.0",
            "https://repo.radeon.com/rocm/apt/6.4 https://repo.radeon.com/amdgpu/6.4/ubuntu noble",
        ),
        (
            (NOBLE, "6.14.0-27-generic"),
            "7.1.0",
            "https://repo.radeon.com/rocm/apt/7.1 https://repo.radeon.com/amdgpu/30.20/ubuntu noble",
        ),
        (
            (DEBIAN_12, "6.1.0-40-amd64"),
            "7.0.2",
            "https://repo.radeon.com/rocm/apt/7.0.2 https://repo.radeon.com/amdgpu/30.10.2/ubuntu jammy",
        ),
        (
            (RHEL, "5.14.0-570.12.1.el9_6.x86_64"),
            "7.1",
            "https://repo.radeon.com/rocm/rhel9/7.1/main",
        ),
    ],
)
def test_a_release_has_its_repositories_on_recorded_facts(
    check: Check, host: tuple[dict[str, str], str], rocm: str, decision: str
) -> None:
    result = check(*host, rocm_version=rocm)
    assert result.returncode == 0, result.stdout
    assert decision in words(result)


# ROCm amdgpu 192 and 209, 3701, 6193.
def test_a_kernel_that_the_driver_does_not_know_is_refused_with_the_ways_out(check: Check) -> None:
    result = check(NOBLE, "6.11.0-29-generic", rocm_version="7.1")
    assert result.returncode != 0
    assert "Kernel 6.11.0-29-generic is none that amdgpu 30.20 of ROCm 7.1 builds for" in words(result)
    assert "use the kernel's own driver with rocm_driver: kernel" in words(result)


@pytest.mark.parametrize(
    "variables", [{"rocm_unsupported_allowed": True}, {"rocm_driver": "kernel"}, {"rocm_version": "7.2"}]
)
def test_a_kernel_is_shown_only_where_that_was_asked_for_or_the_row_is_uncertain(
    check: Check, variables: dict[str, object]
) -> None:
    result = check(NOBLE, "6.11.0-29-generic", **variables)
    assert result.returncode == 0, result.stdout


def test_a_driver_of_another_release_must_be_paired_by_amd(check: Check) -> None:
    result = check(NOBLE, "6.8.0-45-generic", rocm_version="7.1", rocm_amdgpu_version="6.2.4")
    assert "amdgpu 6.2.4 goes with ROCm 6.3, 6.2, 6.1, 6.0, and this is 7.1." in words(result)


@pytest.mark.parametrize("facts", [DEBIAN_12, NOBLE])
def test_only_debian_13_has_packages_of_its_own_that_are_new_enough(check: Check, facts: dict[str, str]) -> None:
    result = check(facts, "6.1.0-40-amd64", rocm_source="distribution")
    assert result.returncode != 0
    assert "expected Debian 13 or later" in words(result)


def test_debians_own_packages_go_with_any_kernel(check: Check) -> None:
    result = check(DEBIAN_13, "6.19.0-1-amd64", rocm_source="distribution")
    assert result.returncode == 0, result.stdout


def test_an_unknown_release_names_those_that_are_known(check: Check) -> None:
    result = check(NOBLE, "6.8.0-45-generic", rocm_version="5.4.3")
    assert "ROCm 5.4.3 is not in the matrix" in words(result)
