"""A recorded host, made of what its tools and files would say: sysfs, procfs, and fake vendor tools."""

import importlib
import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PACKAGE_PARENT = Path(__file__).parents[3] / "roles/gpu_probe/files"

Json = dict[str, Any]
Probe = Callable[..., Json]


@pytest.fixture(scope="session")
def module() -> Callable[[str], ModuleType]:
    """A module of the probe's package, by name."""
    if str(PACKAGE_PARENT) not in sys.path:
        sys.path.insert(0, str(PACKAGE_PARENT))
    return lambda name: importlib.import_module(f"gpu_probe.{name}")


class FakeHost:
    """A host in a folder, as `--root` reads it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tool("dmesg", [("*", "")])
        self.file("/proc/sys/kernel/osrelease", "6.1.0-43-amd64")
        self.file("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
        self.file("/proc/sys/kernel/hostname", "gpu-host")

    def file(self, path: str, content: str | bytes) -> None:
        """A file of the host."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())

    def link(self, path: str, target: str) -> None:
        """A symbolic link of the host."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def tool(self, name: str, answers: list[tuple[str, str] | tuple[str, str, int]]) -> None:
        """A fake executable: the first shell pattern that its arguments match gives its output and exit status."""
        folder = self.root / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        branches = []
        for number, (pattern, output, *status) in enumerate(answers):
            (folder / f"{name}.d.{number}").write_text(output)
            quoted = "*" if pattern == "*" else f"*{shlex.quote(pattern)}*"
            branches.append(f'{quoted}) cat "$0.d.{number}"; exit {status[0] if status else 0};;')
        script = folder / name
        script.write_text('#!/bin/sh\ncase "$*" in\n' + "\n".join(branches) + "\nesac\nexit 64\n")
        script.chmod(0o755)

    def pci(self, address: str, pci_id: str, class_code: str, driver: str | None = None, **files: str) -> None:
        """A device on the bus; more sysfs files by keyword."""
        base = f"/sys/bus/pci/devices/{address}"
        vendor, device = pci_id.split(":")
        for name, content in {"vendor": f"0x{vendor}", "device": f"0x{device}", "class": f"0x{class_code}00"}.items():
            self.file(f"{base}/{name}", content)
        for name, content in files.items():
            self.file(f"{base}/{name.replace('__', '/')}", content)
        if driver:
            self.link(f"{base}/driver", f"../../../bus/pci/drivers/{driver}")

    def nvidia_gpu(self, address: str = "0000:0b:00.0", pci_id: str = "10de:20b2", class_code: str = "0302") -> None:
        """An A100 by default, with its driver loaded and in agreement with the library."""
        self.pci(address, pci_id, class_code, driver="nvidia")
        self.file("/sys/module/nvidia/version", "535.261.03")
        self.ldconfig({"libnvidia-ml.so.1": "/usr/lib/x86_64-linux-gnu"})
        library = self.root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
        if not library.is_symlink():
            self.link("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "libnvidia-ml.so.535.261.03")

    def amd_gpu(self, address: str = "0000:0c:00.0", pci_id: str = "1002:74a1", class_code: str = "1200") -> None:
        """An MI300X by default, with amdgpu loaded."""
        self.pci(address, pci_id, class_code, driver="amdgpu")
        self.file("/sys/module/amdgpu/initstate", "live")
        self.file("/dev/kfd", "")

    def ldconfig(self, *directories: dict[str, str]) -> None:
        """The loader's cache, in its order."""
        lines = [
            f"\t{name} (libc6,x86-64) => {directory}/{name}"
            for libraries in directories
            for name, directory in libraries.items()
        ]
        self.tool("ldconfig", [("-p", "\n".join([f"{len(lines)} libs found in cache", *lines]) + "\n")])

    def nvidia_smi(
        self, xml: str | None = None, csv: str | None = None, links: str = "", failure: str | None = None
    ) -> None:
        """nvidia-smi that answers its three queries, or fails in the same way at each."""
        if failure is not None:
            self.tool("nvidia-smi", [("*", failure, 9)])
            return
        answers: list[tuple[str, str] | tuple[str, str, int]] = [("nvlink -s", links)]
        answers.append(("-q -x", xml) if xml is not None else ("-q -x", "Segmentation fault\n", 139))
        answers.append(("--query-gpu", csv) if csv is not None else ("--query-gpu", "Segmentation fault\n", 139))
        self.tool("nvidia-smi", answers)

    def amd_smi(self, static: object, metric: object, before: str = "") -> None:
        """amd-smi with these JSON documents, after whatever it prints before them."""
        self.tool(
            "amd-smi",
            [("static --json", before + json.dumps(static)), ("metric --json", before + json.dumps(metric))],
        )


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """A host without any GPU."""
    return FakeHost(tmp_path / "host")


@pytest.fixture
def probe(module: Callable[[str], ModuleType]) -> Probe:
    """Probe a recorded host and return the document."""

    def run(host: FakeHost, **options: object) -> Json:
        build = module("report").build
        document: Json = build(module("host").Host(host.root), "2026-01-01T00:00:00+00:00", **options)[0]
        return document

    return run


@pytest.fixture
def nvidia_xml() -> Callable[..., str]:
    """`nvidia-smi -q -x` in one of its document types: what each renamed is renamed here."""

    def render(version: str = "v12", address: str = "00000000:0B:00.0", **cells: str) -> str:
        value = {
            "name": "NVIDIA A100-SXM4-80GB",
            "temperature": "27 C",
            "memory_temperature": "44 C",
            "utilization": "0 %",
            "power": "67.03 W",
            "uncorrectable": "0",
            "row_remap_failure": "No",
            "limits": "",
        } | cells
        power = {
            "v11": f"<power_readings><power_draw>{value['power']}</power_draw>"
            "<enforced_power_limit>400.00 W</enforced_power_limit></power_readings>",
            "v12": f"<gpu_power_readings><power_draw>{value['power']}</power_draw>"
            "<current_power_limit>400.00 W</current_power_limit></gpu_power_readings>",
        }
        power["v13"] = power["v12"].replace("power_draw>", "instant_power_draw>")
        sram = "sram_uncorrectable_parity" if version == "v13" else "sram_uncorrectable"
        versions = {"v13": ("kmd_version", "cuda_umd_version")}.get(version, ("driver_version", "cuda_version"))
        return f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_{version}.dtd">
<nvidia_smi_log>
  <{versions[0]}>535.261.03</{versions[0]}><{versions[1]}>12.2</{versions[1]}>
  <gpu id="{address}">
    <product_name>{value["name"]}</product_name><product_architecture>Ampere</product_architecture>
    <uuid>GPU-00000000-0000-0000-0000-000000000001</uuid>
    <mig_mode><current_mig>Disabled</current_mig></mig_mode><mig_devices>None</mig_devices>
    <fb_memory_usage><total>81920 MiB</total><used>50 MiB</used></fb_memory_usage>
    <utilization><gpu_util>{value["utilization"]}</gpu_util></utilization>
    <ecc_errors><volatile>
      <sram_correctable>1</sram_correctable><{sram}>{value["uncorrectable"]}</{sram}>
      <dram_correctable>2</dram_correctable><dram_uncorrectable>N/A</dram_uncorrectable>
    </volatile></ecc_errors>
    <remapped_rows><remapped_row_failure>{value["row_remap_failure"]}</remapped_row_failure></remapped_rows>
    <temperature><gpu_temp>{value["temperature"]}</gpu_temp>
      {value["limits"]}<memory_temp>{value["memory_temperature"]}</memory_temp></temperature>
    {power.get(version, power["v13"])}
  </gpu>
</nvidia_smi_log>
"""

    return render


@pytest.fixture
def nvidia_csv(module: Callable[[str], ModuleType]) -> Callable[..., str]:
    """`nvidia-smi --query-gpu` of the fields that the probe asks for, one row per GPU; cells by field name."""
    fields = module("nvidia_csv").FIELDS
    units = {"utilization.gpu": "%", "memory.total": "MiB", "memory.used": "MiB", "power.draw": "W", "power.limit": "W"}
    usual = {
        "uuid": "GPU-00000000-0000-0000-0000-000000000001",
        "name": "NVIDIA A100-SXM4-80GB",
        "driver_version": "535.261.03",
        "pci.bus_id": "00000000:0B:00.0",
        "temperature.gpu": "27",
        "utilization.gpu": "0 %",
        "memory.total": "81920 MiB",
        "memory.used": "50 MiB",
        "power.draw": "67.03 W",
        "power.limit": "400.00 W",
    }

    def render(*rows: dict[str, str], without: tuple[str, ...] = ()) -> str:
        names = [name for name in fields if name not in without]
        header = ", ".join(f"{name} [{units[name]}]" if name in units else name for name in names)
        lines = [
            ", ".join(({"index": str(index)} | usual | row).get(name, "[N/A]") for name in names)
            for index, row in enumerate(rows or ({},))
        ]
        return "\n".join([header, *lines]) + "\n"

    return render


@pytest.fixture
def static_entry() -> Callable[..., Json]:
    """An entry of `amd-smi static --json` (ROCm 6.2 to 7)."""

    def make(gpu: int = 0, bdf: str = "0000:0c:00.0", **asic: object) -> Json:
        return {
            "gpu": gpu,
            "asic": {
                "market_name": "AMD Instinct MI300X",
                "target_graphics_version": "gfx942",
                "num_compute_units": 304,
            }
            | asic,
            "bus": {"bdf": bdf},
            "driver": {"name": "amdgpu", "version": "6.12.12"},
            "vram": {"type": "HBM", "size": {"value": 196592, "unit": "MB"}},
        }

    return make


@pytest.fixture
def metric_entry() -> Callable[..., Json]:
    """An entry of `amd-smi metric --json` (ROCm 7) of an Instinct card: no edge sensor."""

    def make(gpu: int = 0, **sections: object) -> Json:
        return {
            "gpu": gpu,
            "usage": {"gfx_activity": {"value": 12, "unit": "%"}, "mm_activity": "N/A"},
            "power": {"socket_power": {"value": 158, "unit": "W"}},
            "temperature": {"edge": "N/A", "hotspot": {"value": 45, "unit": "C"}, "mem": {"value": 38, "unit": "C"}},
            "mem_usage": {"total_vram": {"value": 196592, "unit": "MB"}, "used_vram": {"value": 283, "unit": "MB"}},
            "ecc": {"total_correctable_count": 3, "total_uncorrectable_count": 0},
            "xgmi_err": "N/A",
        } | sections

    return make


@pytest.fixture
def no_vendor_tools_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH whose first folder has an nvidia-smi that must never run."""
    folder = tmp_path / "path"
    folder.mkdir()
    trap = folder / "nvidia-smi"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    trap.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "ran"
