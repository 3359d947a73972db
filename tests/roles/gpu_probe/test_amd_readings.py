"""What amd-smi, rocm-smi and amdgpu's sysfs files say, in every shape."""

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

Json = dict[str, Any]
Entry = Callable[..., Json]
Probe = Callable[..., Json]

SHAPES: dict[str, Callable[[list[Json]], object]] = {
    "ROCm 6: a bare list": lambda entries: entries,
    "ROCm 7: gpu_data": lambda entries: {"gpu_data": entries},
    "another name for the list": lambda entries: {"version": "27.0.0", "gpus": entries},
    "a dictionary of entries": lambda entries: {f"gpu_{entry['gpu']}": entry for entry in entries},
}
NO_DRIVER = "ERROR:root:Driver not initialized (amdgpu not found in modules)\n"


def gpu(document: Json) -> Json:
    gpus: list[Json] = document["hardware"]["gpus"]
    assert len(gpus) == 1
    return gpus[0]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_every_shape_of_the_document_gives_the_same_values(
    host: Any, probe: Probe, static_entry: Entry, metric_entry: Entry, shape: Callable[[list[Json]], object]
) -> None:
    host.amd_gpu()
    host.amd_smi(shape([static_entry()]), shape([metric_entry()]))
    found = gpu(probe(host))
    assert (found["name"], found["architecture"], found["compute_units"]) == ("AMD Instinct MI300X", "gfx942", 304)
    assert found["memory_total_mib"] == 196592
    readings = found["readings"]
    assert (readings["temperature_c"], readings["power_w"], readings["utilization_percent"]) == (45.0, 158.0, 12.0)
    assert (readings["ecc_corrected"], readings["xgmi_error"]) == (3, None)


def test_flat_numbers_and_a_whole_section_that_is_unavailable_are_read(
    host: Any, probe: Probe, static_entry: Entry, metric_entry: Entry
) -> None:
    host.amd_gpu()
    metric = metric_entry(usage="N/A", temperature={"edge": 61, "hotspot": "N/A"}, power={"socket_power": "142 W"})
    host.amd_smi([static_entry()], [metric])
    readings = gpu(probe(host))["readings"]
    assert (readings["utilization_percent"], readings["temperature_c"], readings["power_w"]) == (None, 61.0, 142.0)


@pytest.mark.parametrize(
    "before",
    [
        "'CTRL' + 'C' to stop watching output:\n",
        "WARNING: User is missing the following required groups: render\n[drm] not JSON either\n",
        "\n",
    ],
)
def test_lines_before_the_json_are_skipped(
    host: Any, probe: Probe, static_entry: Entry, metric_entry: Entry, before: str
) -> None:
    """ROCm/amdsmi issue 114: a warning on stdout before the document."""
    host.amd_gpu()
    host.amd_smi([static_entry()], [metric_entry()], before=before)
    assert gpu(probe(host))["readings"]["temperature_c"] == 45.0


def test_no_json_at_all_is_a_clear_failure_with_what_was_printed(host: Any, probe: Probe) -> None:
    """ROCm/ROCm issue 4374: "No JSON data to report" and exit status 0."""
    host.amd_gpu()
    for tool in ("amd-smi", "rocm-smi"):
        host.tool(tool, [("*", "WARNING: No JSON data to report\n")])
    document = probe(host)
    for collector in ("amd-smi static", "amd-smi metric", "rocm-smi"):
        result = document["collectors"][collector]
        assert (result["ok"], result["failure"]) == (False, "mismatch")
        assert "printed no JSON (status 0), but: WARNING: No JSON data to report" in result["error"]
    assert gpu(document)["health"]["state"] == "unknown"


def test_a_driver_that_is_not_initialized_is_a_failure_also_with_status_zero(host: Any, probe: Probe) -> None:
    """ROCm/ROCm issues 2767 and 4477; rocm-smi then ends with 0."""
    host.amd_gpu()
    for tool in ("amd-smi", "rocm-smi"):
        host.tool(tool, [("*", NO_DRIVER)])
    results = probe(host)["collectors"]
    assert [results[name]["failure"] for name in ("amd-smi static", "rocm-smi")] == ["driver_unreachable"] * 2


def test_a_document_without_gpus_fails_that_reading_only(host: Any, probe: Probe, static_entry: Entry) -> None:
    host.amd_gpu()
    host.amd_smi([static_entry()], {"surprise": 1})
    document = probe(host)
    assert document["collectors"]["amd-smi metric"]["failure"] == "mismatch"
    assert gpu(document)["name"] == "AMD Instinct MI300X"


def test_a_metric_of_a_gpu_without_an_address_is_not_guessed_by_its_order(
    host: Any, probe: Probe, static_entry: Entry, metric_entry: Entry
) -> None:
    host.amd_gpu()
    host.amd_smi([static_entry(gpu=0)], [metric_entry(gpu=1)])
    document = probe(host)
    assert "GPU 1, whose PCI address is unknown" in document["collectors"]["amd-smi metric"]["error"]
    assert gpu(document)["readings"]["temperature_c"] is None


def test_partitions_belong_to_their_gpu_and_do_not_overwrite_it(
    host: Any, probe: Probe, static_entry: Entry, metric_entry: Entry
) -> None:
    """ROCm/amdsmi issue 132: in DPX mode the second partition is function 1, and all its values are N/A."""
    host.amd_gpu()
    static = [static_entry(0), static_entry(1, bdf="0000:0c:00.1")]
    metric = [metric_entry(0), metric_entry(1, usage="N/A", power="N/A", temperature="N/A")]
    host.amd_smi({"gpu_data": static}, {"gpu_data": metric})
    found = gpu(probe(host))
    assert found["partition_functions"] == ["0000:0c:00.1"]
    assert found["readings"]["temperature_c"] == 45.0


@pytest.mark.parametrize(("size", "mebibytes"), [({"value": 192, "unit": "GB"}, 196608), (65536, 65536), ("N/A", None)])
def test_memory_sizes_come_in_any_unit(
    module: Callable[[str], ModuleType], size: object, mebibytes: int | None
) -> None:
    assert module("amd_smi").mebibytes(size) == mebibytes


def test_an_unknown_unit_of_memory_is_refused(module: Callable[[str], ModuleType]) -> None:
    with pytest.raises(module("reading").ReadingError, match="a memory size in 'pages'"):
        module("amd_smi").mebibytes({"value": 1, "unit": "pages"})


def rocm_smi_card(**cells: str) -> Json:
    return {
        "PCI Bus": "0000:0C:00.0",
        "Card series": "Arcturus GL-XL [Instinct MI100]",
        "Temperature (Sensor edge) (C)": "31.0",
        "Temperature (Sensor junction) (C)": "34.0",
        "Average Graphics Package Power (W)": "39.0",
        "Max Graphics Package Power (W)": "290.0",
        "GPU use (%)": "0",
        "VRAM Total Memory (B)": "34342961152",
        "VRAM Total Used Memory (B)": "6782976",
    } | cells


@pytest.mark.parametrize(
    ("cells", "reading", "value"),
    [
        ({}, "power_w", 39.0),
        ({"Current Socket Graphics Package Power (W)": "159.0"}, "power_w", 159.0),
        ({"Average Graphics Package Power (W)": "N/A (Secondary die)"}, "power_w", None),
        ({"Temperature (Sensor junction) (C)": "511.0"}, "temperature_c", None),
        ({"Temperature (Sensor junction) (C)": "N/A"}, "temperature_c", 31.0),
        ({}, "utilization_percent", 0.0),
        ({}, "memory_used_mib", 6),
    ],
)
def test_rocm_smi_stands_in_where_amd_smi_is_missing(
    host: Any, probe: Probe, cells: dict[str, str], reading: str, value: float | None
) -> None:
    """ROCm/rocm_smi_lib issues 85 and 160: nonsense temperatures, and power on one die only."""
    host.amd_gpu(pci_id="1002:738c", class_code="0380")
    document = {"card0": rocm_smi_card(**cells), "system": {"Driver version": "6.2.4"}}
    warning = "WARNING: AMD GPU device(s) is/are in a low-power state\n"
    host.tool("rocm-smi", [("--json", warning + json.dumps(document))])
    found = probe(host)
    assert gpu(found)["readings"][reading] == value
    assert gpu(found)["name"] == "Arcturus GL-XL [Instinct MI100]"
    assert found["software"]["amdgpu"]["version"] == "6.2.4"


def test_a_failed_name_look_up_is_no_name(host: Any, probe: Probe) -> None:
    host.amd_gpu(pci_id="1002:73df", class_code="0300")
    host.tool("rocm-smi", [("--json", json.dumps({"card0": rocm_smi_card(**{"Card series": "0x1002"})}))])
    assert gpu(probe(host))["name"] is None


def test_sysfs_gives_memory_and_ras_counters_without_any_tool(host: Any, probe: Probe) -> None:
    host.amd_gpu()
    base = "/sys/bus/pci/devices/0000:0c:00.0"
    host.file(f"{base}/mem_info_vram_total", str(196592 * 2**20))
    host.file(f"{base}/ras/umc_err_count", "ue: 1\nce: 7\n")
    host.file(f"{base}/ras/gfx_err_count", "ue: 0\nce: 2\n")
    found = gpu(probe(host))
    assert found["memory_total_mib"] == 196592
    assert (found["readings"]["ecc_uncorrected"], found["readings"]["ecc_corrected"]) == (1, 9)
    assert [fault["kind"] for fault in found["health"]["faults"]] == ["ecc_uncorrected"]


@pytest.mark.parametrize(
    ("version", "name"),
    [(90402, "gfx942"), (90010, "gfx90a"), (90008, "gfx908"), (110000, "gfx1100"), (120001, "gfx1201"), (0, None)],
)
def test_the_architecture_is_decoded_from_the_topology(
    module: Callable[[str], ModuleType], version: int, name: str | None
) -> None:
    assert module("kfd").gfx_name(version) == name


def test_the_topology_gives_architecture_compute_units_and_xgmi_links(host: Any, probe: Probe) -> None:
    host.amd_gpu("0000:0c:00.0", pci_id="1002:ffff")
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    host.file(f"{nodes}/0/properties", "simd_count 0\ncpu_cores_count 96\n")
    host.file(
        f"{nodes}/1/properties",
        "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\nlocation_id 3072\ndomain 0\n",
    )
    for link, kind in enumerate((2, 11, 11)):
        host.file(f"{nodes}/1/io_links/{link}/properties", f"type {kind}\nnode_to {link}\n")
    found = gpu(probe(host))
    assert (found["architecture"], found["compute_units"]) == ("gfx942", 304)
    assert found["links"] == {"kind": "xgmi", "active": 2, "inactive": None, "rate_gbs": None}


@pytest.mark.parametrize(("power_state", "health"), [("active", "faulty"), ("suspended", "unknown")])
def test_a_card_that_sleeps_is_not_missing(  # noqa: PLR0917 - six fixtures
    host: Any, probe: Probe, static_entry: Entry, metric_entry: Entry, power_state: str, health: str
) -> None:
    """ROCm/ROCm issue 4878: a runtime-suspended card looked like a dead one."""
    host.amd_gpu("0000:0c:00.0")
    host.pci("0000:0d:00.0", "1002:744c", "0300", driver="amdgpu", power__runtime_status=power_state)
    host.amd_smi([static_entry()], [metric_entry()])
    states = {found["pci_address"]: found["health"]["state"] for found in probe(host)["hardware"]["gpus"]}
    assert states == {"0000:0c:00.0": "ok", "0000:0d:00.0": health}


def test_what_one_collector_knew_is_not_erased_by_another_that_does_not(
    host: Any, probe: Probe, static_entry: Entry, metric_entry: Entry
) -> None:
    host.amd_gpu()
    host.amd_smi([static_entry()], [metric_entry(mem_usage="N/A")])
    assert gpu(probe(host))["memory_total_mib"] == 196592
