"""What mokutil, dkms, lsinitramfs and the host's files say."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.bimetal.cluster.plugins.module_utils import driver_host as host
from ansible_collections.bimetal.cluster.plugins.modules import driver_host_info as info

from tests.patience import PATIENCE_S


# ROCm 4328, realtek-r8126-dkms 3: Secure Boot was on and the key that signs modules was not enrolled.
@pytest.mark.parametrize(
    ("output", "state"),
    [
        ("SecureBoot enabled\n", "enabled"),
        ("SecureBoot disabled\n", "disabled"),
        ("SecureBoot disabled\nPlatform is in Setup Mode\n", "disabled"),
        ("SecureBoot enabled\nSecureBoot validation is disabled in shim\n", "disabled"),
        ("EFI variables are not supported on this system\n", "unsupported"),
        ("This system doesn't support Secure Boot\n", "unsupported"),
        ("Failed to read SecureBoot\n", "unknown"),
    ],
)
def test_the_state_of_secure_boot_is_read(output: str, state: str) -> None:
    assert host.secure_boot_state(output) == state


@pytest.mark.parametrize(
    ("output", "enrolled"),
    [
        ("/var/lib/dkms/mok.pub is already enrolled\n", True),
        ("/var/lib/dkms/mok.pub is not enrolled\n", False),
        ("Failed to get file status, /var/lib/dkms/mok.pub\n", None),
    ],
)
def test_the_key_is_enrolled_not_enrolled_or_unknown(output: str, enrolled: bool | None) -> None:
    assert host.key_enrolled(output) is enrolled


def test_dkms_status_is_read_in_the_forms_of_both_releases() -> None:
    lines = (
        "nvidia, 470.57.02, 5.4.0-80-generic, x86_64: installed\n"
        "nvidia-current/535.261.03, 6.1.0-40-amd64, x86_64: installed (WARNING! Diff between built and installed)\n"
        "amdgpu/6.12.12-2147987.24.04: added\n"
        "Deprecated feature: REMAKE_INITRD (/var/lib/dkms/x/1/source/dkms.conf)\n"
    )
    found = [(entry.module, entry.version, entry.kernel, entry.state) for entry in host.dkms_entries(lines)]
    assert found[:3] == [
        ("nvidia", "470.57.02", "5.4.0-80-generic", "installed"),
        ("nvidia-current", "535.261.03", "6.1.0-40-amd64", "installed"),
        ("amdgpu", "6.12.12-2147987.24.04", None, "added"),
    ]


# nvidia-driver-G06 62: nouveau was still in the initramfs.
def test_nouveau_is_found_compressed_or_not_and_its_firmware_is_none() -> None:
    names = [
        "usr/lib/modules/6.1.0-40-amd64/kernel/drivers/gpu/drm/nouveau/nouveau.ko",
        "usr/lib/modules/6.12/kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz",
        "usr/lib/firmware/nouveau/nv84_bsp",
        "etc/modprobe.d/bimetal-nouveau.conf",
    ]
    assert host.nouveau_modules(names) == names[:2]


@pytest.mark.parametrize(
    "line",
    [
        "etc/modprobe.d/own.conf",
        "./etc/modprobe.d/own.conf",
        "-rw-r--r--   1 root     root           84 Jan  1  1970 etc/modprobe.d/own.conf",
    ],
)
def test_a_file_is_found_in_the_listings_of_both_tools(line: str) -> None:
    assert host.holds([line], "/etc/modprobe.d/own.conf")
    assert not host.holds([f"{line}.bak", "usr/etc/modprobe.d/own.conf"], "/etc/modprobe.d/own.conf")


# gpu-operator 85 and 583: no kernel headers, and a build that failed late.
def test_headers_are_missing_without_build_or_with_a_link_into_nothing(tmp_path: Path) -> None:
    modules = tmp_path / "lib/modules"
    (modules / "6.1-good/build").mkdir(parents=True)
    (modules / "6.1-gone").mkdir()
    (modules / "6.1-gone/build").symlink_to("/usr/src/linux-headers-6.1-gone")
    assert info.without_headers(tmp_path, ["6.1-good", "6.1-gone", "6.1-none"]) == ["6.1-gone", "6.1-none"]


def test_a_module_is_loaded_with_its_version_without_one_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text("535.261.03\n")
    (tmp_path / "sys/module/nouveau").mkdir()
    found = [info.loaded_version(tmp_path, name) for name in ("nvidia", "nouveau", "amdgpu")]
    assert found == ["535.261.03", "", None]


def test_nvswitches_are_counted_by_vendor_and_class(tmp_path: Path) -> None:
    for number, (vendor, kind) in enumerate([("0x10de", "0x068000"), ("0x10de", "0x030200"), ("0x8086", "0x068000")]):
        device = tmp_path / f"sys/bus/pci/devices/0000:0{number}:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    assert info.nvswitches(tmp_path) == 1


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run the module as Ansible does, with fake tools first on PATH."""

    def run(tools: dict[str, str], name: str, **arguments: object) -> dict[str, Any]:
        directory = tmp_path / "tools"
        directory.mkdir()
        for tool, script in tools.items():
            (directory / tool).write_text(f"#!/bin/sh\n{script}\n")
            (directory / tool).chmod(0o755)
        command = [
            str(Path(sys.executable).with_name("ansible")),
            *("localhost", "-i", "localhost,", "-c", "local", "-o"),
            *("--playbook-dir", str(tmp_path), "-e", f"ansible_python_interpreter={sys.executable}"),
            *("-m", f"bimetal.cluster.{name}", "-a", json.dumps(arguments)),
        ]
        environment = os.environ | {
            "PATH": f"{directory}:{os.environ['PATH']}",
            "ANSIBLE_STDOUT_CALLBACK": "minimal",
            "LC_ALL": "C.UTF-8",
        }
        ended = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        answer: dict[str, Any] = json.loads(ended.stdout[ended.stdout.index("{") :])
        return answer

    return run


def test_the_first_key_that_exists_is_tested(ask: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "root/sys/firmware/efi").mkdir(parents=True)
    (tmp_path / "mok.pub").write_text("key")
    mokutil = 'case "$1" in --sb-state) echo SecureBoot enabled;; --test-key) echo "$2 is not enrolled"; esac'
    answer = ask(
        {"mokutil": mokutil},
        "driver_host_info",
        module="nvidia",
        device_nodes="dev/nvidia[0-9]*",
        keys=[str(tmp_path / "none"), str(tmp_path / "mok.pub")],
        root=str(tmp_path / "root"),
    )
    assert answer["secure_boot"] == {"state": "enabled", "key": str(tmp_path / "mok.pub"), "enrolled": False}


def test_modinfo_decides_and_not_dkms(ask: Callable[..., dict[str, Any]]) -> None:
    tools = {
        "dkms": "echo nvidia/535.1, 6.1-a, x86_64: installed; echo other/1, 6.1-a, x86_64: installed",
        "modinfo": '[ "$2" = 6.1-a ] && [ "$4" = nvidia-current ] && echo 550.2',
    }
    answer = ask(tools, "dkms_module_info", names=["nvidia", "nvidia-current"], kernels=["6.1-a", "6.1-b"])
    assert answer["versions"] == {"6.1-a": "550.2", "6.1-b": None}
    assert [entry["module"] for entry in answer["dkms"]] == ["nvidia"]


def test_an_image_that_is_older_than_the_file_is_not_current(
    ask: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "own.conf"
    for name, seconds in (("initrd.img-old", 100), ("own.conf", 200), ("initrd.img-new", 300), ("initrd.img-x.bak", 1)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (seconds, seconds))
    answer = ask({"lsinitramfs": f"echo {str(file)[1:]}"}, "initramfs_info", file=str(file), boot=str(tmp_path))
    assert [(image["kernel"], image["current"]) for image in answer["images"]] == [("new", True), ("old", False)]
