"""AMD's matrix: kernels, drivers and directories of releases, whichever way their zeros are written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.bimetal.cluster.plugins.filter import rocm as decide

Json = dict[str, Any]


@pytest.fixture(scope="module")
def data(project: Path) -> Json:
    values: Json = yaml.safe_load((project / "roles/rocm/vars/main/matrix.yml").read_text())
    return values


@pytest.fixture(scope="module")
def row(data: Json) -> Callable[[str], decide.Row]:
    return lambda rocm: decide.row(rocm, data["_rocm_matrix"])


@pytest.mark.parametrize(
    ("rocm", "directory", "amdgpu"),
    [
        ("6.4.0", "6.4", "6.4"),
        ("6.4", "6.4", "6.4"),
        ("6.4.1", "6.4.1", "6.4.1"),
        ("7.0.0", "7.0", "30.10"),
        ("7.0.2", "7.0.2", "30.10.2"),
        ("7.1", "7.1", "30.20"),
        ("7.2.0", "7.2", "30.30"),
    ],
)
def test_a_first_release_has_a_directory_of_two_numbers_and_drivers_count_on_their_own_since_7(
    row: Callable[[str], Json], rocm: str, directory: str, amdgpu: str
) -> None:
    assert (row(rocm)["directory"], row(rocm)["amdgpu"]) == (directory, amdgpu)


def test_an_unknown_release_is_refused_with_those_that_are_known(row: Callable[[str], Json]) -> None:
    with pytest.raises(ValueError, match=r"ROCm 7\.0\.3 is not in the matrix: expected one of 7\.2, "):
        row("7.0.3")


# ROCm amdgpu 192 and 209, 3701, 6193: DKMS failed on a kernel that the driver does not know.
@pytest.mark.parametrize(
    ("rocm", "host", "fits"),
    [
        ("7.1", ("Ubuntu 24.04", "6.8.0-45-generic"), True),
        ("7.1", ("Ubuntu 24.04", "6.14.0-27-generic"), True),
        ("7.1", ("Ubuntu 24.04", "6.11.0-29-generic"), False),
        ("7.1", ("Ubuntu 24.04", "6.80.0-1-generic"), False),
        ("6.2.4", ("Ubuntu 24.04", "6.11.0-29-generic"), False),
        ("6.3.1", ("Debian 12", "6.1.0-40-amd64"), True),
        ("6.3.1", ("Debian 12", "6.12.43+deb12-amd64"), False),
        ("7.0.2", ("Debian 13", "6.12.48+deb13-amd64"), True),
        ("7.1", ("RHEL 9", "5.14.0-570.12.1.el9_6.x86_64"), True),
        ("7.1", ("RHEL 9", "5.14.0-503.11.1.el9_5.x86_64"), False),
        ("6.3.1", ("RHEL 9", "5.14.0-503.11.1.el9_5.x86_64"), True),
    ],
)
def test_a_kernel_fits_a_release_or_does_not(
    row: Callable[[str], Json], rocm: str, host: tuple[str, str], fits: bool
) -> None:
    distribution, kernel = host
    problem = decide.kernel_problem(kernel, distribution, row(rocm))
    assert (problem == "") is fits
    assert fits or problem.startswith(f"Kernel {kernel} is none that amdgpu ")


def test_a_distribution_that_a_release_is_not_for_is_named(row: Callable[[str], Json]) -> None:
    problem = decide.kernel_problem("6.12.48+deb13-amd64", "Debian 13", row("7.0.1"))
    assert problem.startswith("ROCm 7.0.1 is not for Debian 13: expected one of Ubuntu 24.04")


@pytest.mark.parametrize(
    ("facts", "key"),
    [
        (("Ubuntu", "24.04", "Debian"), "Ubuntu 24.04"),
        (("Debian", "12.11", "Debian"), "Debian 12"),
        (("RedHat", "9.6", "RedHat"), "RHEL 9"),
        (("Rocky", "9.6", "RedHat"), "RHEL 9"),
        (("OracleLinux", "8.10", "RedHat"), "RHEL 8"),
    ],
)
def test_ansibles_facts_become_the_matrixs_names(facts: tuple[str, str, str], key: str) -> None:
    assert decide.distribution_key(*facts) == key


@pytest.mark.parametrize(
    ("amdgpu", "rocm", "goes"),
    [
        ("30.30.3", "7.2", True),
        ("30.30", "6.3.2", True),
        ("30.30", "6.2.4", False),
        ("6.2.4", "6.3", True),
        ("6.2.4", "7.0", False),
        ("31.40", "7.2", False),
    ],
)
def test_another_driver_goes_with_a_release_where_amd_says_so(data: Json, amdgpu: str, rocm: str, goes: bool) -> None:
    assert (decide.driver_problem(amdgpu, rocm, data["_rocm_driver_matrix"]) == "") is goes


def test_every_row_says_where_it_comes_from_and_whether_it_is_certain(data: Json) -> None:
    rows = data["_rocm_matrix"]
    assert all(row["source"] and isinstance(row["certain"], bool) and row["kernels"] for row in rows)
    assert len({row["directory"] for row in rows}) == len(rows)


def test_what_was_put_together_from_several_sources_is_not_called_certain(row: Callable[[str], Json]) -> None:
    assert not row("7.2")["certain"]
    assert row("6.3.1")["certain"]


LDCONFIG = """\
3 libs found in cache `/etc/ld.so.cache'
	libOpenCL.so.1 (libc6,x86-64) => {first}/libOpenCL.so.1
	libOpenCL.so.1 (libc6) => /lib/i386-linux-gnu/libOpenCL.so.1
	libOpenCL.so.1 (libc6,x86-64) => {second}/libOpenCL.so.1
	libamdhip64.so.7 (libc6,x86-64) => /opt/rocm/lib/libamdhip64.so.7
	libcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1
"""
SYSTEM, ROCM = "/lib/x86_64-linux-gnu", "/opt/rocm/lib"


@pytest.mark.parametrize(
    ("first", "second", "hidden"),
    [
        (SYSTEM, ROCM, []),
        (ROCM, SYSTEM, [f"libOpenCL.so.1: {ROCM}/libOpenCL.so.1 before {SYSTEM}/libOpenCL.so.1"]),
        (ROCM, "/opt/rocm/lib64", []),
    ],
)
def test_a_library_of_rocm_that_hides_another_stacks_is_found(first: str, second: str, hidden: list[str]) -> None:
    order = decide.loader_order(LDCONFIG.format(first=first, second=second))
    assert set(order) == {"libOpenCL.so.1"}
    assert decide.shadowing(order, "/opt/rocm") == hidden
