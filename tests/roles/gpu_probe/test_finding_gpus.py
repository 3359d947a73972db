"""Which devices count as GPUs. The reports are real ones: see each test's first line."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

Json = dict[str, Any]


def addresses(document: Json) -> list[str]:
    return [gpu["pci_address"] for gpu in document["hardware"]["gpus"]]


def test_a_card_that_is_a_vga_controller_is_found_like_a_3d_controller(host: Any, probe: Callable[..., Json]) -> None:
    """NVIDIA/deepops issues 388 and 389: found by the words "3D controller"."""
    host.nvidia_gpu("0000:0b:00.0", class_code="0300")
    host.nvidia_gpu("0000:0c:00.0", class_code="0302")
    assert addresses(probe(host)) == ["0000:0b:00.0", "0000:0c:00.0"]


def test_an_instinct_card_is_a_processing_accelerator(host: Any, probe: Callable[..., Json]) -> None:
    """apache/cloudstack issue 11701: class 1200 was not searched."""
    host.amd_gpu("0000:0c:00.0", class_code="1200")
    assert addresses(probe(host)) == ["0000:0c:00.0"]


def test_a_drive_whose_name_has_3d_in_it_is_no_gpu(host: Any, probe: Callable[..., Json]) -> None:
    """0ptiscaler4linux issue 5: an NVMe drive "Ultra 3D" was counted."""
    host.pci("0000:01:00.0", "15b7:5030", "0108", label="SanDisk Ultra 3D controller")
    assert addresses(probe(host)) == []


@pytest.mark.parametrize("class_code", ["0300", "0302", "0380", "1200"])
@pytest.mark.parametrize(("pci_id", "vendor"), [("10de:20b2", "nvidia"), ("1002:74a1", "amd")])
def test_the_vendor_is_told_by_its_id_in_every_class(
    host: Any, probe: Callable[..., Json], class_code: str, pci_id: str, vendor: str
) -> None:
    """NVIDIA/gpu-operator issue 78: the node label differed by the device's class."""
    host.pci("0000:0b:00.0", pci_id, class_code)
    assert [gpu["vendor"] for gpu in probe(host)["hardware"]["gpus"]] == [vendor]


@pytest.mark.parametrize(
    ("pci_id", "class_code"),
    [("10de:22bc", "0403"), ("10de:1af1", "0680"), ("1002:14cd", "0604"), ("1a03:2000", "0300")],
    ids=["the card's audio function", "an NVSwitch", "a bridge of the card", "the management controller's VGA"],
)
def test_other_functions_and_other_vendors_are_no_gpus(
    host: Any, probe: Callable[..., Json], pci_id: str, class_code: str
) -> None:
    host.pci("0000:0b:00.0", pci_id, class_code)
    assert addresses(probe(host)) == []


def test_a_virtual_function_is_not_counted_beside_its_physical_one(host: Any, probe: Callable[..., Json]) -> None:
    host.nvidia_gpu("0000:0b:00.0")
    host.pci("0000:0b:00.4", "10de:20b2", "0302")
    host.link("/sys/bus/pci/devices/0000:0b:00.4/physfn", "../0000:0b:00.0")
    assert addresses(probe(host)) == ["0000:0b:00.0"]


def test_a_host_with_both_vendors_reports_both(
    host: Any,
    probe: Callable[..., Json],
    nvidia_xml: Callable[..., str],
    static_entry: Callable[..., Json],
    metric_entry: Callable[..., Json],
) -> None:
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml())
    host.amd_gpu()
    host.amd_smi({"gpu_data": [static_entry()]}, {"gpu_data": [metric_entry()]})
    gpus = probe(host)["hardware"]["gpus"]
    assert [(gpu["vendor"], gpu["name"], gpu["health"]["state"]) for gpu in gpus] == [
        ("nvidia", "NVIDIA A100-SXM4-80GB", "ok"),
        ("amd", "AMD Instinct MI300X", "ok"),
    ]


def test_a_recorded_host_never_answers_with_this_machines_tools(
    host: Any, probe: Callable[..., Json], no_vendor_tools_of_this_machine: Any
) -> None:
    host.nvidia_gpu()
    document = probe(host)
    assert document["collectors"]["nvidia-smi xml"]["failure"] == "absent"
    assert not no_vendor_tools_of_this_machine.exists()


def test_the_link_is_reduced_when_it_has_fewer_lanes_than_both_ends_could(
    host: Any, probe: Callable[..., Json]
) -> None:
    links = {"max_link_speed": "16.0 GT/s PCIe", "max_link_width": "16", "current_link_width": "8"}
    host.pci("0000:0b:00.0", "10de:20b2", "0302", current_link_speed="2.5 GT/s PCIe", **links)
    document = probe(host)
    assert document["hardware"]["gpus"][0]["pcie"] == {
        "negotiated": {"generation": 1, "width": 8},
        "possible": {"generation": 4, "width": 16},
        "width_reduced": True,
    }
    assert [found["message"] for found in document["findings"] if found["check"] == "pcie_width"] == [
        "the link runs on 8 of 16 lanes"
    ]


def test_a_link_that_does_not_exist_is_unknown_and_not_reduced(host: Any, probe: Callable[..., Json]) -> None:
    unknown = {"current_link_speed": "Unknown", "current_link_width": "0", "max_link_width": "255"}
    host.pci("0000:0b:00.0", "10de:20b2", "0302", **unknown)
    assert probe(host)["hardware"]["gpus"][0]["pcie"] == {
        "negotiated": {"generation": None, "width": None},
        "possible": {"generation": None, "width": None},
        "width_reduced": None,
    }


def test_behind_the_switch_on_an_amd_card_the_slots_link_is_reported(host: Any, probe: Callable[..., Json]) -> None:
    """The GPU's own link to its switch always has 16 lanes; the card sits in a slot with 8."""
    chain = ["0000:00:01.1", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]
    ids = [
        ("1022:1483", "0604", "8"),
        ("1002:1478", "0604", "8"),
        ("1002:1479", "0604", "16"),
        ("1002:744c", "0300", "16"),
    ]
    place = "/sys/devices/pci0000:00"
    for address, (pci_id, class_code, width) in zip(chain, ids, strict=True):
        place += f"/{address}"
        vendor, device = pci_id.split(":")
        for name, content in {
            "vendor": f"0x{vendor}",
            "device": f"0x{device}",
            "class": f"0x{class_code}00",
            "current_link_width": width,
            "max_link_width": "16",
        }.items():
            host.file(f"{place}/{name}", content)
        host.link(f"/sys/bus/pci/devices/{address}", f"../../..{place.removeprefix('/sys')}")
    [gpu] = probe(host)["hardware"]["gpus"]
    assert gpu["pci_address"] == "0000:03:00.0"
    assert gpu["pcie"]["negotiated"]["width"] == 8


@pytest.mark.parametrize(
    ("pci_id", "memory_mib", "bandwidth", "note"),
    [
        ("10de:20b2", 81920, 2040.0, None),
        ("1002:740c", 65536, 1640.0, "two GCDs"),
        ("1002:744c", 20464, None, "this one has 20 GiB"),
        ("10de:ffff", 81920, None, "no published facts for 10de:ffff"),
    ],
    ids=["an A100", "half of an MI250", "a 7900 XT under the id of the XTX", "an unknown device"],
)
def test_published_facts_are_those_of_the_device_or_null_with_the_reason(
    module: Callable[[str], ModuleType], pci_id: str, memory_mib: int, bandwidth: float | None, note: str | None
) -> None:
    facts = module("devices").specification("any", pci_id, None, memory_mib)
    assert facts["memory_bandwidth_gbs"] == bandwidth
    assert (note or "") in (facts["note"] or "")


def test_every_row_of_the_device_table_has_a_vendor_memory_and_a_source(module: Callable[[str], ModuleType]) -> None:
    rows = module("devices").rows()
    assert len(rows) > 40
    assert [
        row["model"] for row in rows if not (row["vendor"] in ("nvidia", "amd") and row["memory_gb"] and row["source"])
    ] == []
