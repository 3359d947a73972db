"""Events are counted once, and metrics that nobody read are not there."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.patience import PATIENCE_S

Module = Callable[[str], ModuleType]
Run = Callable[..., subprocess.CompletedProcess[str]]

XID = "[ {seconds}] NVRM: Xid (PCI:0000:0b:00): {code}, pid=1234, name=python3, Ch 00000001\n"


@pytest.fixture
def run(host: Any, tmp_path: Path, project: Path) -> Run:
    """The probe as the timer runs it, on the recorded host."""

    def probe(*arguments: str) -> subprocess.CompletedProcess[str]:
        usual = ["--root", host.root, "--state", tmp_path / "state", "--textfile", tmp_path / "gpu.prom"]
        command = [sys.executable, "-B", "-m", "gpu_probe", *map(str, usual), *arguments]
        folder = project / "roles/gpu_probe/files"
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    return probe


def metric(tmp_path: Path, name: str) -> dict[str, float]:
    """Series of a metric, by their labels as written."""
    lines = [
        line for line in (tmp_path / "gpu.prom").read_text().splitlines() if line.startswith(f"bimetal_gpu_{name}")
    ]
    pairs = (line.removeprefix(f"bimetal_gpu_{name}").rsplit(" ", 1) for line in lines)
    return {labels: float(value) for labels, value in pairs if labels[:1] in ("", "{")}


def kernel_log(host: Any, *lines: str) -> None:
    host.tool("dmesg", [("*", "".join(lines))])


def test_an_xid_is_counted_once_and_does_not_stay(host: Any, run: Run, tmp_path: Path) -> None:
    """NVIDIA/dcgm-exporter issues 500 and 95: the gauge kept the last Xid until a restart."""
    host.nvidia_gpu()
    series = '{pci="0000:0b:00.0"}'
    run()
    assert metric(tmp_path, "xid_total") == {series: 0}
    lines = [XID.format(seconds="12.000001", code=43)]
    for expected in (1, 1):
        kernel_log(host, *lines)
        run()
        assert metric(tmp_path, "xid_total") == {series: expected}
    lines.append(XID.format(seconds="12.000001", code=43))
    lines.append(XID.format(seconds="13.500000", code=79))
    kernel_log(host, *lines)
    run()
    assert metric(tmp_path, "xid_total") == {series: 3}
    assert metric(tmp_path, "xid_code_total") == {
        '{pci="0000:0b:00.0",xid="43"}': 2,
        '{pci="0000:0b:00.0",xid="79"}': 1,
    }


def test_lines_that_left_the_kernels_buffer_are_not_forgotten(host: Any, run: Run, tmp_path: Path) -> None:
    host.nvidia_gpu()
    kernel_log(host, XID.format(seconds="12.0", code=43))
    run()
    kernel_log(host)
    run()
    assert metric(tmp_path, "xid_total") == {'{pci="0000:0b:00.0"}': 1}


def test_a_reboot_begins_another_log_and_goes_on_counting(host: Any, run: Run, tmp_path: Path) -> None:
    host.nvidia_gpu()
    kernel_log(host, XID.format(seconds="900.0", code=43))
    run()
    host.file("/proc/sys/kernel/random/boot_id", "another boot")
    kernel_log(host, XID.format(seconds="12.0", code=43))
    run()
    assert metric(tmp_path, "xid_total") == {'{pci="0000:0b:00.0"}': 2}


def test_ras_counters_grow_by_what_is_new_and_survive_a_reload_of_the_driver(module: Module) -> None:
    counters = module("counters").Counters()
    key = ("ecc_uncorrected", "0000:0c:00.0", "")
    totals = []
    for level in (2, 2, 5, None, 1):
        counters.add_level(key, level)
        totals.append(counters.totals[key])
    assert totals == [2, 2, 5, 5, 6]


def test_events_of_amdgpu_are_counted_with_and_without_an_address(module: Module) -> None:
    log = module("kernel_log").parse(
        "[  100.000000] amdgpu 0000:0c:00.0: amdgpu: GPU reset begin!\n"
        "[  101.000000] amdgpu: GPU reset begin!\n"
        "[  102.000000] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=1\n"
        "[  103.000000] amdgpu 0000:0c:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block\n"
        "[  104.000000] amdgpu 0000:0c:00.0: amdgpu: socket: 0, 0 uncorrectable hardware errors detected in umc block\n"
        "a wrapped line: GPU reset begin!\n"
    )
    assert [(event.kind, event.pci_address, event.code) for event in log.events] == [
        ("reset", "0000:0c:00.0", None),
        ("reset", None, None),
        ("ring_timeout", None, "gfx_0.0.0"),
        ("ras", "0000:0c:00.0", "uncorrectable"),
    ]


def test_a_broken_state_file_begins_anew_and_says_so(host: Any, run: Run, tmp_path: Path) -> None:
    host.nvidia_gpu()
    (tmp_path / "state").write_text('{"totals": [[1]]}')
    document = json.loads(run().stdout)
    assert document["collectors"]["state"]["failure"] == "mismatch"
    assert json.loads((tmp_path / "state").read_text())["totals"] == []


def test_a_failed_collector_publishes_no_value_and_is_seen_to_be_down(
    host: Any, run: Run, tmp_path: Path, nvidia_xml: Callable[..., str]
) -> None:
    """NVIDIA/dcgm-exporter issue 707, ROCm/device-metrics-exporter issue 315: metrics silently vanished."""
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml(utilization="[N/A]"))
    run()
    series = '{pci="0000:0b:00.0",vendor="nvidia"}'
    assert metric(tmp_path, "temperature_celsius") == {series: 27}
    assert metric(tmp_path, "utilization_ratio") == {}
    assert metric(tmp_path, "healthy") == {series: 1}
    host.nvidia_smi(failure="Failed to initialize NVML: Unknown Error\n")
    run()
    assert metric(tmp_path, "temperature_celsius") == {}
    assert metric(tmp_path, "healthy") == {}
    assert metric(tmp_path, "probe_collector_up")['{collector="nvidia-smi xml"}'] == 0
    assert metric(tmp_path, "devices") == {'{vendor="amd"}': 0, '{vendor="nvidia"}': 1}
    assert list(metric(tmp_path, "probe_timestamp_seconds")) == [""]


def test_a_fault_is_a_metric_while_it_lasts(host: Any, run: Run, tmp_path: Path) -> None:
    host.nvidia_gpu()
    host.nvidia_smi(failure="Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost.\n")
    run()
    assert metric(tmp_path, "fault") == {'{pci="0000:0b:00.0",vendor="nvidia",kind="lost"}': 1}
    assert metric(tmp_path, "healthy") == {'{pci="0000:0b:00.0",vendor="nvidia"}': 0}


def test_the_textfile_is_what_prometheus_parses(host: Any, run: Run, tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - of this test only

    host.nvidia_gpu()
    kernel_log(host, XID.format(seconds="12.0", code=43))
    run()
    families = list(text_string_to_metric_families((tmp_path / "gpu.prom").read_text()))
    assert {family.name: family.type for family in families}["bimetal_gpu_xid"] == "counter"


def test_the_fact_is_the_document_and_replaces_the_old_one_whole(run: Run, tmp_path: Path) -> None:
    fact = tmp_path / "gpu.fact"
    fact.write_text("old")
    with fact.open() as reader:
        result = run("--fact", str(fact))
        assert reader.read() == "old"
    assert json.loads(fact.read_text()) == json.loads(result.stdout)
    assert [path.name for path in tmp_path.glob(".*")] == []
    assert fact.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--root", "/does/not/exist"], "is no directory: expected a recorded host"),
        (["--fact", "/does/not/exist/gpu.fact"], "cannot be written: No such file or directory"),
    ],
)
def test_what_cannot_be_used_is_named(run: Run, arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.returncode != 0
    assert words in result.stderr


def test_a_textfile_without_a_state_is_refused(module: Module, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        module("cli").main(["--textfile", "gpu.prom"])
    assert "--textfile needs --state" in capsys.readouterr().err
