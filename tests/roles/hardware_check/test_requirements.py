"""A server held against the published hardware requirements."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from ansible_collections.bimetal.cluster.plugins.filter import hardware_check as role

Json = dict[str, Any]

# Two H100 in a server that has just enough of everything.
ENOUGH: Json = {
    "hardware": {
        "gpus": [
            {
                "pci_address": f"0000:{bus}:00.0",
                "pci_id": "10de:2330",
                "vendor": "nvidia",
                "name": "NVIDIA H100 80GB HBM3",
                "memory_total_mib": 81920,
                "facts": {"memory_gb": 80.0, "board_power_w": 700.0},
                "readings": {"power_limit_w": None},
                "largest_bar_mib": 131072,
            }
            for bus in ("0b", "0c")
        ],
        "cpu": {"cores": 16},
        "memory_mib": 240 * 1024,
        "nvme": [{"bytes": 500_107_862_016}, {"bytes": 500_107_862_016}],
        "power_supplies": [{"watts": 2000}, {"watts": 2000}],
        "firmware": {"bios_vendor": "AMI", "bios_version": "2.1", "bios_date": "01/02/2025"},
    },
    "network": {"interfaces": [{"state": "up", "speed_mbps": 10000}, {"state": "down", "speed_mbps": None}]},
}


@pytest.fixture(scope="module")
def limits(project: Path) -> Json:
    """The role's defaults, for a host of the NVIDIA pool."""
    defaults = yaml.safe_load((project / "roles/hardware_check/defaults/main.yml").read_text())
    return {name.removeprefix("hardware_check_"): value for name, value in defaults.items()} | {"vendor": "nvidia"}


@pytest.fixture
def statuses(limits: Json) -> Callable[..., dict[str, str]]:
    """Status of each check, after changes to the document (by path) and to the limits."""

    def run(changes: dict[str, object] | None = None, **other_limits: object) -> dict[str, str]:
        document = copy.deepcopy(ENOUGH)
        for path, value in (changes or {}).items():
            *parents, last = path.split(".")
            place: Any = document
            for part in parents:
                place = place[int(part) if part.isdigit() else part]
            place[last] = value
        found = role.checks(document, cast(role.Limits, limits | other_limits))
        assert [entry["check"] for entry in found if (entry["status"] == "ok") is bool(entry["remedy"])] == []
        return {entry["check"]: entry["status"] for entry in found}

    return run


def test_a_server_with_just_enough_passes_every_check(statuses: Callable[..., dict[str, str]]) -> None:
    assert set(statuses().values()) == {"ok"}


@pytest.mark.parametrize(
    ("changes", "check", "status"),
    [
        ({"hardware.cpu.cores": 15}, "cpu", "fail"),
        ({"hardware.cpu.cores": None}, "cpu", "warn"),
        ({"hardware.memory_mib": 233_473}, "memory", "ok"),
        ({"hardware.memory_mib": 233_470}, "memory", "fail"),
        ({"hardware.memory_mib": None}, "memory", "warn"),
        ({"hardware.nvme": []}, "nvme", "fail"),
        ({"hardware.nvme": [{"bytes": 960_197_124_096}]}, "nvme", "fail"),
        ({"hardware.nvme": [{"bytes": None}]}, "nvme", "fail"),
        ({"network.interfaces": []}, "network", "fail"),
        ({"network.interfaces": [{"state": "up", "speed_mbps": 1000}]}, "network", "fail"),
        ({"network.interfaces": [{"state": "down", "speed_mbps": 100000}]}, "network", "fail"),
        ({"network.interfaces": [{"state": "up", "speed_mbps": None}]}, "network", "warn"),
        ({"hardware.power_supplies": [{"watts": 2000}]}, "power", "warn"),
        ({"hardware.power_supplies": []}, "power", "warn"),
        ({"hardware.gpus.0.largest_bar_mib": 256}, "firmware", "warn"),
        ({"hardware.gpus.0.largest_bar_mib": None}, "firmware", "ok"),
        ({"hardware.gpus": []}, "gpu", "fail"),
    ],
)
def test_each_requirement_has_its_own_limit_and_unknown_is_no_failure(
    statuses: Callable[..., dict[str, str]], changes: dict[str, object], check: str, status: str
) -> None:
    assert statuses(changes)[check] == status


def test_the_published_memory_counts_before_the_driver_is_there(statuses: Callable[..., dict[str, str]]) -> None:
    unread = {f"hardware.gpus.{number}.memory_total_mib": None for number in (0, 1)}
    assert statuses(unread)["memory"] == "ok"
    assert statuses(unread | {"hardware.memory_mib": 200 * 1024})["memory"] == "fail"
    unknown = {f"hardware.gpus.{number}.facts.memory_gb": None for number in (0, 1)}
    assert statuses(unread | unknown)["memory"] == "warn"


def test_a_gpu_of_the_other_vendor_does_not_count(statuses: Callable[..., dict[str, str]]) -> None:
    assert statuses(vendor="amd")["gpu"] == "fail"


def test_a_host_of_no_pool_may_be_without_gpus(statuses: Callable[..., dict[str, str]]) -> None:
    found = statuses({"hardware.gpus": []}, vendor="")
    assert (found["gpu"], found["memory"]) == ("ok", "ok")


def test_an_accepted_failure_is_a_warning_and_still_shown(statuses: Callable[..., dict[str, str]]) -> None:
    found = statuses({"hardware.nvme": [], "hardware.cpu.cores": 8}, accepted=["nvme"])
    assert (found["nvme"], found["cpu"]) == ("warn", "fail")


@pytest.mark.parametrize(
    ("found", "status"), [([], "ok"), (["ok"], "ok"), (["warn", "ok"], "warn"), (["warn", "fail", "ok"], "fail")]
)
def test_the_worst_status_decides(found: list[str], status: str) -> None:
    assert role.worst([{"status": entry} for entry in found]) == status
