"""What the table, the host and the inventory make of a vendor's environment."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.bimetal.cluster.plugins.filter import tuning

Row = Mapping[str, Any]
FACTS = {"physical_cores": 64}


@pytest.fixture(scope="module")
def table(project: Path) -> list[Row]:
    data = yaml.safe_load((project / "roles/tuning/vars/main/environment.yml").read_text())
    rows: list[Row] = data["_tuning_table"]
    return rows


def test_openmp_has_one_thread_for_each_physical_core(table: list[Row]) -> None:
    assert tuning.environment(table, "cpu", FACTS, {}, {}) == {"OMP_NUM_THREADS": "64"}


def test_a_number_that_nobody_could_count_sets_nothing(table: list[Row]) -> None:
    assert "OMP_NUM_THREADS" not in tuning.environment(table, "amd", {"physical_cores": 0}, {}, {})


@pytest.mark.parametrize(
    ("vendor", "own", "other"),
    [("nvidia", "CUDA_DEVICE_ORDER", "HIP_FORCE_DEV_KERNARG"), ("amd", "HIP_FORCE_DEV_KERNARG", "CUDA_DEVICE_ORDER")],
)
def test_a_vendor_gets_its_own_variables_only(table: list[Row], vendor: str, own: str, other: str) -> None:
    names = tuning.environment(table, vendor, FACTS, {}, {})
    assert own in names
    assert other not in names


def test_the_inventory_replaces_removes_and_adds(table: list[Row]) -> None:
    values = {"CUDA_MODULE_LOADING": "EAGER", "NCCL_DEBUG": None, "OMP_NUM_THREADS": 8}
    result = tuning.environment(table, "nvidia", FACTS, values, {"TF_ENABLE_ONEDNN_OPTS": 0})
    assert result["CUDA_MODULE_LOADING"] == "EAGER"
    assert result["OMP_NUM_THREADS"] == "8"
    assert result["TF_ENABLE_ONEDNN_OPTS"] == "0"
    assert "NCCL_DEBUG" not in result


@pytest.mark.parametrize(
    ("vendor", "values", "says"),
    [
        ("cpu", {"OMP_NUM_THREAD": 8}, "OMP_NUM_THREAD is not in the table"),
        ("cpu", {"OMP_NUM_THREADS": 0}, "OMP_NUM_THREADS is '0': expected"),
        ("amd", {"HSA_ENABLE_SDMA": False}, "HSA_ENABLE_SDMA is 'False': expected"),
        ("amd", {"HSA_OVERRIDE_GFX_VERSION": "gfx1030"}, "HSA_OVERRIDE_GFX_VERSION is 'gfx1030'"),
        # HIP reads CUDA's name as well: on AMD it would be one list of devices too many.
        ("amd", {"CUDA_VISIBLE_DEVICES": "0"}, "CUDA_VISIBLE_DEVICES is for nvidia, and this host's vendor is amd"),
        ("nvidia", {"CUDA_VISIBLE_DEVICES": "0,,1"}, "CUDA_VISIBLE_DEVICES is '0,,1': expected"),
        ("amd", {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, "are both set: expected only one"),
    ],
)
def test_a_value_that_would_go_wrong_is_refused_by_name(
    table: list[Row], vendor: str, values: dict[str, Any], says: str
) -> None:
    (problem,) = tuning.problems(table, vendor, values, {})
    assert says in problem


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"OMP_NUM_THREADS": 8}, "OMP_NUM_THREADS is in the table: set it in tuning_overrides"),
        ({"1ST": 1}, "'1ST' is no name"),
        # systemd takes the quotes away, `docker run --env-file` keeps them.
        ({"OPTIONS": '"a b"'}, "which systemd and Docker read differently"),
    ],
)
def test_a_variable_of_ones_own_is_one_that_can_be_written(table: list[Row], extra: dict[str, Any], says: str) -> None:
    (problem,) = tuning.problems(table, "cpu", {}, extra)
    assert says in problem


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "cpu"])
def test_the_tables_own_values_are_accepted(table: list[Row], vendor: str) -> None:
    values = tuning.environment(table, vendor, FACTS, {}, {})
    assert tuning.problems(table, vendor, values, {}) == []


@pytest.mark.parametrize(
    ("vendor", "values"),
    [
        ("nvidia", {"CUDA_VISIBLE_DEVICES": "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,1"}),
        ("nvidia", {"NVIDIA_VISIBLE_DEVICES": "nvidia.com/gpu=0,nvidia.com/gpu=1:0"}),
        ("amd", {"ROCR_VISIBLE_DEVICES": "0,GPU-4b2c1a9f8d3e6f7a"}),
        ("amd", {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_2:1", "NCCL_SOCKET_IFNAME": "=ens1f0np0"}),
        ("amd", {"ROCR_VISIBLE_DEVICES": None, "HIP_VISIBLE_DEVICES": "0,2"}),
    ],
)
def test_documented_forms_of_device_lists_are_accepted(table: list[Row], vendor: str, values: dict[str, Any]) -> None:
    assert tuning.problems(table, vendor, values, {}) == []


def test_every_row_says_why_and_where_it_is_documented(table: list[Row]) -> None:
    names = [row["name"] for row in table]
    assert len(set(names)) == len(names)
    for row in table:
        assert set(row) - {"excludes", "pattern", "list_of"} == {"name", "vendors", "value", "why", "source"}
        assert row["source"].startswith("https://")
        assert row["why"].endswith(".")
        re.compile(row.get("list_of") or row["pattern"])


def test_the_readme_has_the_table(project: Path, table: list[Row]) -> None:
    readme = (project / "roles/tuning/README.md").read_text()
    for row in table:
        vendors = ", ".join(row["vendors"])
        value = "unset" if row["value"] is None else f"`{row['value']}`".replace("`physical_cores`", "physical cores")
        assert f"| `{row['name']}` | {vendors} | {value} | {row['why']} ([source]({row['source']})) |" in readme
