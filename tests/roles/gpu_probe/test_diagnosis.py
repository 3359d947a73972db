""" "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver": why, and what next."""

from collections.abc import Callable
from typing import Any

import pytest

Json = dict[str, Any]
Probe = Callable[..., Json]

FAILED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest\n"
KERNEL = "6.1.0-43-amd64"
DEP = f"/lib/modules/{KERNEL}/modules.dep"


def causes(document: Json) -> dict[str, str]:
    """Failed driver checks and their next steps."""
    failed = [found for found in document["findings"] if found["check"].startswith("driver_")]
    return {found["check"]: found["next_step"] for found in failed}


@pytest.fixture
def silent(host: Any) -> Any:
    """A host with an A100 that no driver holds, and an nvidia-smi that says so."""
    host.pci("0000:0b:00.0", "10de:20b2", "0302")
    host.nvidia_smi(failure=FAILED)
    return host


def test_nouveau_that_holds_the_gpu_is_the_cause(host: Any, probe: Probe) -> None:
    host.pci("0000:0b:00.0", "10de:20b2", "0302", driver="nouveau")
    host.file(DEP, "updates/dkms/nvidia.ko:\n")
    host.nvidia_smi(failure=FAILED)
    assert "blacklists nouveau" in causes(probe(host))["driver_nouveau_loaded"]


def test_a_kernel_without_the_module_and_without_dkms_needs_the_role(silent: Any, probe: Probe) -> None:
    assert causes(probe(silent)) == {"driver_module_missing": "Run role nvidia_driver."}


@pytest.mark.parametrize("headers", [True, False])
def test_dkms_that_did_not_build_for_the_running_kernel_is_the_cause(silent: Any, probe: Probe, headers: bool) -> None:
    """NVIDIA/gpu-operator issues 85 and 583: no headers of the running kernel."""
    silent.tool("dkms", [("status", "nvidia-current/535.261.03, 6.1.0-40-amd64, x86_64: installed\n")])
    if headers:
        silent.file(f"/lib/modules/{KERNEL}/build/Makefile", "")
    document = probe(silent)
    step = causes(document)["driver_dkms_not_built"]
    assert f"dkms autoinstall -k {KERNEL}" in step
    assert ("Install the headers" in step) is not headers
    assert "built for 6.1.0-40-amd64" in document["findings"][0]["message"]


@pytest.mark.parametrize(
    "line",
    ["Loading of unsigned module is rejected", "Lockdown: modprobe: unsigned module loading is restricted; see man"],
)
def test_a_refused_signature_names_the_key_to_enroll(silent: Any, probe: Probe, line: str) -> None:
    """openSUSE nvidia-driver, ROCm issue 4328, realtek-r8126-dkms issue 3: Secure Boot on, key not enrolled."""
    silent.file(DEP, "updates/dkms/nvidia-current.ko.xz: kernel/drivers/video/backlight.ko\n")
    silent.tool("dmesg", [("*", f"[    5.123456] {line}\n")])
    assert "mokutil --import" in causes(probe(silent))["driver_signature_refused"]


def test_a_tainting_module_is_not_a_refused_one(silent: Any, probe: Probe) -> None:
    silent.file(DEP, "updates/dkms/nvidia-current.ko:\n")
    silent.tool("dmesg", [("*", "[    5.123456] nvidia: module verification failed: tainting kernel\n")])
    assert list(causes(probe(silent))) == ["driver_module_not_loaded"]


def test_a_module_that_is_there_and_not_loaded_is_to_be_loaded(silent: Any, probe: Probe) -> None:
    silent.file(DEP, "updates/dkms/nvidia-current.ko:\n")
    assert "modprobe nvidia" in causes(probe(silent))["driver_module_not_loaded"]


def test_a_library_that_was_upgraded_under_the_module_is_the_cause(host: Any, probe: Probe) -> None:
    host.nvidia_gpu()
    host.file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.247.01  Mon\n")
    host.nvidia_smi(failure="Failed to initialize NVML: Driver/library version mismatch\n")
    document = probe(host)
    assert "reboot" in causes(document)["driver_version_mismatch"]
    assert document["collectors"]["nvidia-smi xml"]["failure"] == "version_mismatch"
    assert document["software"]["nvidia_driver"] == {"module": "535.247.01", "library": "535.261.03", "open": False}


def test_a_module_without_its_library_is_the_cause(host: Any, probe: Probe) -> None:
    host.nvidia_gpu()
    host.ldconfig({})
    assert "ldconfig" in causes(probe(host))["driver_library_missing"]


@pytest.mark.parametrize(
    ("banner", "version", "is_open"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Thu Jul", "535.261.03", False),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  Release Build", "590.48.01", True),
    ],
)
def test_the_open_module_is_told_from_the_proprietary_one(
    host: Any, probe: Probe, banner: str, version: str, is_open: bool
) -> None:
    host.nvidia_gpu()
    host.file("/proc/driver/nvidia/version", banner)
    driver = probe(host)["software"]["nvidia_driver"]
    assert (driver["module"], driver["open"]) == (version, is_open)


def test_a_healthy_driver_has_no_cause(host: Any, probe: Probe, nvidia_xml: Callable[..., str]) -> None:
    host.nvidia_gpu()
    host.nvidia_smi(xml=nvidia_xml())
    assert causes(probe(host)) == {}


def test_a_gpu_set_aside_for_a_virtual_machine_is_said_so(host: Any, probe: Probe) -> None:
    host.nvidia_gpu()
    host.pci("0000:0c:00.0", "10de:20b2", "0302", driver="vfio-pci")
    assert list(causes(probe(host))) == ["driver_vfio"]


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        ({}, "driver_module_missing"),
        ({DEP: "kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko.xz:\n"}, "driver_module_not_loaded"),
        ({"/sys/module/amdgpu/initstate": "live"}, "driver_kfd_missing"),
    ],
)
def test_amdgpu_is_diagnosed_as_well(host: Any, probe: Probe, files: dict[str, str], cause: str) -> None:
    host.pci("0000:0c:00.0", "1002:74a1", "1200")
    for path, content in files.items():
        host.file(path, content)
    assert list(causes(probe(host))) == [cause]
