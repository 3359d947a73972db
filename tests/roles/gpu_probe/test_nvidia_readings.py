"""What nvidia-smi prints, in every spelling, and what is made of it."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

Json = dict[str, Any]
Render = Callable[..., str]
Probe = Callable[..., Json]

UNAVAILABLE = ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "Unknown Error", "[Insufficient Permissions]"]


def gpu(document: Json) -> Json:
    gpus: list[Json] = document["hardware"]["gpus"]
    assert len(gpus) == 1
    return gpus[0]


@pytest.mark.parametrize("version", ["v11", "v12", "v13"])
def test_every_document_type_gives_the_same_values(host: Any, probe: Probe, nvidia_xml: Render, version: str) -> None:
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml(version))
    document = probe(host)
    found = gpu(document)
    assert (found["name"], found["generation"], found["memory_total_mib"]) == ("NVIDIA A100-SXM4-80GB", "Ampere", 81920)
    readings = found["readings"]
    assert (readings["power_w"], readings["power_limit_w"], readings["temperature_c"]) == (67.03, 400.0, 27.0)
    assert (readings["ecc_corrected"], readings["ecc_uncorrected"]) == (3, 0)
    assert document["versions"]["nvidia"] == {"driver": "535.261.03", "cuda": "12.2", "xml_format": version}


def test_a_document_type_from_the_future_is_read_and_said_to_be_unknown(
    host: Any, probe: Probe, nvidia_xml: Render
) -> None:
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml("v14"))
    document = probe(host)
    assert gpu(document)["readings"]["temperature_c"] == 27.0
    assert [found["status"] for found in document["findings"] if found["check"] == "xml_format"] == ["warn"]


@pytest.mark.parametrize("cell", UNAVAILABLE)
def test_an_unavailable_xml_value_is_null_and_never_zero(
    host: Any, probe: Probe, nvidia_xml: Render, cell: str
) -> None:
    """enkore/i3pystatus PR 776 and 850, wookayin/gpustat issue 6: a cell without a number was a crash or a zero."""
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml(utilization=cell, temperature=cell, power=cell, uncorrectable=cell))
    found = gpu(probe(host))
    names = ("utilization_percent", "temperature_c", "power_w", "ecc_uncorrected")
    assert {name: found["readings"][name] for name in names} == dict.fromkeys(names)
    assert found["health"]["state"] == "ok"


@pytest.mark.parametrize("cell", UNAVAILABLE)
def test_an_unavailable_csv_cell_is_null_and_never_zero(host: Any, probe: Probe, nvidia_csv: Render, cell: str) -> None:
    """utkuozdemir/nvidia_gpu_exporter issue 68: [N/A] of a MIG device was published as 0."""
    host.nvidia_gpu()
    host.nvidia_smi(csv=nvidia_csv({"utilization.gpu": cell, "power.draw": cell, "temperature.gpu": cell}))
    readings = gpu(probe(host))["readings"]
    assert (readings["utilization_percent"], readings["power_w"], readings["temperature_c"]) == (None, None, None)
    assert readings["memory_used_mib"] == 50


def test_a_lost_gpu_in_a_csv_cell_is_a_fault_of_that_gpu_only(host: Any, probe: Probe, nvidia_csv: Render) -> None:
    """utkuozdemir/nvidia_gpu_exporter issue 68 and i3pystatus PR 850: "[GPU is lost]" in place of a number."""
    host.nvidia_gpu("0000:0b:00.0")
    host.nvidia_gpu("0000:0c:00.0")
    lost = {"temperature.gpu": "[GPU is lost]", "power.draw": "[GPU is lost]", "pci.bus_id": "00000000:0C:00.0"}
    host.nvidia_smi(csv=nvidia_csv({}, lost))
    document = probe(host)
    states = {found["pci_address"]: found["health"]["state"] for found in document["hardware"]["gpus"]}
    assert states == {"0000:0b:00.0": "ok", "0000:0c:00.0": "faulty"}
    assert ("gpu_lost", "fail", "0000:0c:00.0") in [
        (found["check"], found["status"], found["subject"]) for found in document["findings"]
    ]


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost. Reboot the system\n", "lost"),
        ("Unable to determine the device handle for GPU 0000:0b:00.0: GPU is lost.  Reboot\n the system\n", "lost"),
        ("Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error\n", "unreachable"),
        ("Unable to determine the device handle for GPU0000:0B:00.0: Unknown Error\n", "unreachable"),
        ("Unable to determine the device handle for GPU\n 000:0B:00.0: GPU is lost\n", "lost"),
    ],
    ids=["older wording", "wrapped", "unknown error", "without a space", "a short domain, wrapped before it"],
)
def test_a_gpu_without_a_handle_is_a_fault_while_the_collector_only_failed(
    host: Any, probe: Probe, output: str, kind: str
) -> None:
    """utkuozdemir/nvidia_gpu_exporter issue 65, NVIDIA/open-gpu-kernel-modules issue 387."""
    host.nvidia_gpu()
    host.nvidia_smi(failure=output)
    document = probe(host)
    assert [fault["kind"] for fault in gpu(document)["health"]["faults"]] == [kind]
    assert document["collectors"]["nvidia-smi xml"]["ok"] is False


def test_a_lost_gpu_that_left_the_bus_is_still_reported(host: Any, probe: Probe) -> None:
    host.nvidia_gpu("0000:0c:00.0")
    host.nvidia_smi(failure="Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost. Reboot\n")
    document = probe(host)
    assert [fault["pci_address"] for fault in document["faults_without_gpu"]] == ["0000:0b:00.0"]
    assert ("gpu_lost", "0000:0b:00.0") in [(found["check"], found["subject"]) for found in document["findings"]]


def test_a_failed_collector_leaves_health_unknown_and_not_faulty(host: Any, probe: Probe) -> None:
    host.nvidia_gpu()
    host.nvidia_smi(failure="Failed to initialize NVML: Unknown Error\n")
    document = probe(host)
    assert document["collectors"]["nvidia-smi xml"]["failure"] == "nvml"
    assert gpu(document)["health"] == {"state": "unknown", "faults": []}


def test_a_gpu_that_the_tool_does_not_list_is_missing(host: Any, probe: Probe, nvidia_xml: Render) -> None:
    host.nvidia_gpu("0000:0b:00.0")
    host.nvidia_gpu("0000:0c:00.0")
    host.nvidia_smi(xml=nvidia_xml(address="00000000:0B:00.0"))
    faults = {found["pci_address"]: found["health"]["faults"] for found in probe(host)["hardware"]["gpus"]}
    assert faults["0000:0b:00.0"] == []
    assert [fault["kind"] for fault in faults["0000:0c:00.0"]] == ["missing"]


@pytest.mark.parametrize(
    "case",
    [
        (lambda text: text.replace("NVIDIA A100-SXM4-80GB", "NVIDIA A100, SXM4"), "18 cells under a header of 17"),
        (lambda text: text.replace("power.draw", "power.drawn"), "power.draw, power.drawn"),
        (lambda text: text.replace("67.03 W", "67,03 W"), "18 cells under a header of 17"),
        (lambda text: text.splitlines()[1] + "\n", "no header"),
    ],
    ids=["a comma in a name", "another field", "a decimal comma", "no header"],
)
def test_a_csv_that_does_not_fit_its_header_fails_alone_and_clearly(
    host: Any, probe: Probe, nvidia_xml: Render, nvidia_csv: Render, case: tuple[Callable[[str], str], str]
) -> None:
    break_it, words = case
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml(), csv=break_it(nvidia_csv()))
    document = probe(host)
    result = document["collectors"]["nvidia-smi csv"]
    assert (result["ok"], result["failure"]) == (False, "mismatch")
    assert words in result["error"]
    assert gpu(document)["readings"]["temperature_c"] == 27.0
    assert gpu(document)["index"] is None


def test_a_field_that_an_older_driver_refuses_is_left_out(host: Any, probe: Probe, nvidia_csv: Render) -> None:
    host.nvidia_gpu()
    refused = 'Field "remapped_rows.pending" is not a valid field to query.\n'
    without = ("remapped_rows.pending",)
    host.tool("nvidia-smi", [("remapped_rows.pending", refused, 2), ("--query-gpu", nvidia_csv({}, without=without))])
    document = probe(host)
    assert document["collectors"]["nvidia-smi csv"]["ok"] is True
    assert gpu(document)["readings"]["power_w"] == 67.03


def test_broken_xml_fails_alone_and_the_csv_stays(
    host: Any, probe: Probe, nvidia_xml: Render, nvidia_csv: Render
) -> None:
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml().replace("</gpu>", ""), csv=nvidia_csv())
    document = probe(host)
    assert "broken XML" in document["collectors"]["nvidia-smi xml"]["error"]
    assert gpu(document)["readings"]["power_w"] == 67.03
    assert [found["status"] for found in document["findings"] if found["check"] == "nvidia-smi xml"] == ["warn"]


def test_a_warning_before_the_xml_is_skipped(host: Any, probe: Probe, nvidia_xml: Render) -> None:
    host.nvidia_gpu()
    host.nvidia_smi(xml="WARNING: infoROM is corrupted at gpu 0000:0B:00.0\n" + nvidia_xml())
    assert gpu(probe(host))["readings"]["temperature_c"] == 27.0


def test_tools_run_in_the_c_locale(
    host: Any, probe: Probe, nvidia_xml: Render, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVIDIA/deepops commit b2465e53: a decimal comma from the locale made the fact invalid JSON."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml())
    script = host.root / "bin/nvidia-smi"
    original = host.root / "bin/nvidia-smi-c"
    script.rename(original)
    for number in range(3):
        (host.root / f"bin/nvidia-smi.d.{number}").rename(host.root / f"bin/nvidia-smi-c.d.{number}")
    script.write_text(
        f'#!/bin/sh\n[ "$LC_ALL" = C ] && exec "{original}" "$@"\n"{original}" "$@" | sed "s/67\\.03/67,03/"\n'
    )
    script.chmod(0o755)
    assert gpu(probe(host))["readings"]["power_w"] == 67.03


def test_a_decimal_comma_is_refused_and_not_guessed(module: Callable[[str], ModuleType]) -> None:
    """NVIDIA/deepops commit b2465e53."""
    with pytest.raises(module("reading").ReadingError, match="'67,03 W' is no number"):
        module("cells").number("67,03 W")


def test_a_tool_that_hangs_is_ended_and_named(host: Any, module: Callable[[str], ModuleType]) -> None:
    script = host.root / "bin/nvidia-smi"
    script.write_text("#!/bin/sh\nsleep 600\n")
    script.chmod(0o755)
    run = module("host").Host(host.root, tool_timeout=0.2).run("nvidia-smi")
    assert (run.status, run.problem) == (None, "nvidia-smi gave no answer within 0.2 s")


LINKS = "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-00000000-0000-0000-0000-000000000001)\n"


@pytest.mark.parametrize(
    ("answer", "links"),
    [
        (
            LINKS + "\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n",
            {"kind": "nvlink", "active": 1, "inactive": 1, "rate_gbs": 25.0},
        ),
        (
            LINKS + "NVML: Unable to retrieve Nvlink information as all links are inActive\n",
            {"kind": "nvlink", "active": 0, "inactive": None, "rate_gbs": None},
        ),
        (LINKS + "Nvlink queries are not supported for Devices in MIG mode\n", None),
    ],
    ids=["one of two", "all down", "MIG"],
)
def test_nvlink_states_are_told_apart(
    host: Any, probe: Probe, nvidia_xml: Render, answer: str, links: Json | None
) -> None:
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml(), links=answer)
    document = probe(host)
    assert gpu(document)["links"] == links
    warned = [found["check"] for found in document["findings"] if found["check"] == "links"]
    assert warned == (["links"] if links else [])


def test_uncorrectable_errors_and_a_failed_remap_make_a_gpu_faulty(host: Any, probe: Probe, nvidia_xml: Render) -> None:
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml(uncorrectable="2", row_remap_failure="Yes"))
    health = gpu(probe(host))["health"]
    assert health["state"] == "faulty"
    assert {fault["kind"] for fault in health["faults"]} == {"ecc_uncorrected", "row_remap_failed"}
