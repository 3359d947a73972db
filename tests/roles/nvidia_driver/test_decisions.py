"""Which kernel module, packages and driver the GPUs and CUDA of a host need."""

import csv
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.bimetal.cluster.plugins.filter import nvidia_driver as decide

Json = dict[str, Any]

V100, T4, A100, L40S, H100, GH200, B200 = "1db4", "1eb8", "20b2", "26b9", "2330", "2342", "2901"


@pytest.fixture
def module(data: Json) -> Callable[..., str]:
    """The kernel module for GPUs given by device id."""

    def choose(*devices: str, wanted: str = "auto", branch: str = "535") -> str:
        table = data["_nvidia_driver_generations"]
        names = decide.generations([f"10de:{device}" for device in devices], table)
        chosen: str = decide.kernel_module(wanted, names, branch, table, data["_nvidia_driver_open_since"])
        return chosen

    return choose


def test_the_table_agrees_with_the_published_architecture_of_every_known_device(data: Json, project: Path) -> None:
    architectures = {
        "sm_70": {"Volta"},
        "sm_75": {"Turing"},
        "sm_80": {"Ampere GA100"},
        "sm_86": {"Ampere"},
        "sm_89": {"Ada"},
        "sm_90": {"Hopper", "Grace Hopper"},
    }
    with (project / "roles/gpu_probe/files/gpu_probe/devices.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["vendor"] == "nvidia" and row["pci_id"]]
    assert len(rows) > 10
    for row in rows:
        expected = architectures.get(row["arch"], {"Blackwell", "Blackwell GB100"})
        found = decide.generations([row["pci_id"]], data["_nvidia_driver_generations"])
        assert set(found) <= expected, row["model"]


def test_no_device_is_of_two_generations(data: Json) -> None:
    rows = data["_nvidia_driver_generations"]
    ranges = sorted(
        (int(low, 16), int(high, 16), row["name"])
        for row in rows
        for low, high in row["devices"]
        if row["name"] != "Grace Hopper"  # two devices within Hopper's range, and before it in the table
    )
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))


@pytest.mark.parametrize(
    ("devices", "branch", "expected"),
    [
        ((V100,), "535", "proprietary"),
        ((V100,), "580", "proprietary"),
        ((A100,), "535", "proprietary"),
        ((A100,), "570", "open"),
        ((T4, L40S, H100), "570", "open"),
        ((GH200,), "535", "open"),
        ((B200,), "570", "open"),
        ((V100, A100), "570", "proprietary"),
        ((A100, GH200), "535", "open"),
        ((), "535", "proprietary"),
        ((), "570", "open"),
        (("9999",), "570", "open"),
    ],
)
def test_the_module_goes_by_the_generation_of_all_gpus_and_the_branch(
    module: Callable[..., str], devices: tuple[str, ...], branch: str, expected: str
) -> None:
    assert module(*devices, branch=branch) == expected


def test_what_is_asked_for_is_taken_where_it_drives_the_gpus(module: Callable[..., str]) -> None:
    assert module(A100, wanted="open") == "open"
    assert module(H100, wanted="proprietary", branch="570") == "proprietary"


@pytest.mark.parametrize(
    ("devices", "wanted", "branch", "words"),
    [
        ((V100,), "open", "535", "The open kernel module does not drive .* Volta .*Set nvidia_driver_kernel_module"),
        ((B200,), "proprietary", "570", "The proprietary kernel module does not drive .* Blackwell GB100"),
        ((V100, GH200), "auto", "535", "No kernel module drives all GPUs"),
        ((B200,), "auto", "535", "Branch 535 does not drive Blackwell GB100 GPUs: expected branch 570 or newer"),
        ((V100,), "auto", "590", "Branch 590 does not drive Volta GPUs: expected branch 580 or older"),
    ],
)
def test_a_module_or_branch_that_drives_not_all_gpus_is_refused(
    module: Callable[..., str], devices: tuple[str, ...], wanted: str, branch: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        module(*devices, wanted=wanted, branch=branch)


@pytest.mark.parametrize(
    ("driver", "cuda", "runs"),
    [
        ("535.261.03", "11.8", True),
        ("535", "11.8", True),
        ("520.61.05", "11.8", True),
        ("520.56.06", "11.8", False),
        ("470.256.02", "11.8", False),
        ("535", "12.2", True),
        ("535.86.10", "12.2.2", False),
        ("535.104.12", "12.2.2", True),
        ("535", "12.4", False),
        ("1000.1", "13.2", True),
    ],
)
def test_the_drivers_floor_of_cuda_is_compared_part_by_part(data: Json, driver: str, cuda: str, runs: bool) -> None:
    problem = decide.cuda_problem(driver, cuda, data["_nvidia_driver_cuda_matrix"])
    assert (problem == "") is runs
    assert runs or f"CUDA {cuda} needs driver " in problem


def test_a_cuda_release_that_the_matrix_lacks_is_refused_with_those_it_has(data: Json) -> None:
    with pytest.raises(ValueError, match=r"CUDA 10\.2 is not in the matrix: expected one of 11\.8, "):
        decide.cuda_row("10.2", data["_nvidia_driver_cuda_matrix"])


def test_the_floors_rise_with_cuda(data: Json) -> None:
    rows = data["_nvidia_driver_cuda_matrix"]
    floors = [decide._numbers(row["driver"]) for row in rows]
    assert floors == sorted(floors)
    assert [decide._numbers(row["cuda"]) for row in rows] == sorted(decide._numbers(row["cuda"]) for row in rows)


@pytest.mark.parametrize(
    ("where", "kind", "expected"),
    [
        (("distribution", "Debian"), "open", "nvidia-open-kernel-dkms"),
        (("distribution", "Ubuntu"), "open", "nvidia-dkms-535-server-open"),
        (("distribution", "Ubuntu"), "proprietary", "nvidia-dkms-535-server"),
        (("nvidia", "RedHat"), "open", "kmod-nvidia-open-dkms"),
        (("nvidia", "Debian"), "proprietary", "nvidia-kernel-dkms"),
    ],
)
def test_every_source_has_its_names_of_both_modules(
    data: Json, where: tuple[str, str], kind: str, expected: str
) -> None:
    source, distribution = where
    names = decide.packages(data["_nvidia_driver_sources"][source][distribution], "535.261.03", kind)
    assert names[0] == expected
    assert not [name for name in names if "{" in name]


# azhpc-images 86, gpu-operator 544: the fabric manager's version differed from the driver's.
@pytest.mark.parametrize(
    ("available", "expected"),
    [
        (["nvidia-smi", "nvidia-fabricmanager-535"], "nvidia-fabricmanager-535"),
        (["nvidia-smi", "nvidia-fabricmanager"], "nvidia-fabricmanager"),
        (["nvidia-smi", "nvidia-fabricmanager-550"], ""),
    ],
)
def test_only_a_fabric_manager_of_the_drivers_own_set_will_do(available: list[str], expected: str) -> None:
    assert decide.fabric_manager(available, "535") == expected
