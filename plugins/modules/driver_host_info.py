#!/usr/bin/python
"""Ansible module: what decides whether a driver can be built and loaded on this host. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils import driver_host

if TYPE_CHECKING:
    from typing import Any as Module

DOCUMENTATION = r"""
module: driver_host_info
short_description: Tell what a driver meets on this host
description:
  - Tells what decides whether a driver can be built and loaded on this host.
options:
  kernels:
    description: Kernels that the driver is for; none means the running one.
    type: list
    elements: str
    default: []
  module:
    description: Name of the driver's module as the kernel shows it.
    type: str
    required: true
  device_nodes:
    description: Glob of the driver's device nodes below the root.
    type: str
    required: true
  keys:
    description: Where the key that signs DKMS's modules can be.
    type: list
    elements: str
    default: []
  root:
    description: Root of the host's file system.
    type: path
    default: /
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.driver_host_info:
    module: nvidia
    device_nodes: dev/nvidia[0-9]*
  register: host
"""

RETURN = r"""
kernel:
  description: The running kernel.
  type: str
  returned: always
kernels:
  description: Kernels that the driver is for.
  type: list
  elements: str
  returned: always
without_headers:
  description: Those of them whose headers are not installed.
  type: list
  elements: str
  returned: always
boot_free_mb:
  description: Free space for the initramfs.
  type: int
  returned: always
loaded:
  description: Version of the loaded module; null when it is not loaded.
  type: str
  returned: always
nouveau_loaded:
  description: Whether nouveau is loaded.
  type: bool
  returned: always
devices:
  description: Device nodes of the driver.
  type: list
  elements: str
  returned: always
nvswitches:
  description: Number of NVSwitches.
  type: int
  returned: always
secure_boot:
  description: State (enabled, disabled, unsupported, unknown), key and whether it is enrolled.
  type: dict
  returned: always
boot_id:
  description: Changes with every boot; the same as the controller's on the controller's machine.
  type: str
  returned: always
"""


def read(path: Path) -> str | None:
    """A small file's text without the end of its line; None where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def without_headers(root: Path, kernels: list[str]) -> list[str]:
    """Kernels whose `build` is missing, or a link into packages that are gone."""
    return [kernel for kernel in kernels if not (root / "lib/modules" / kernel / "build").exists()]


def loaded_version(root: Path, name: str) -> str | None:
    """Version of a loaded module; "" for one that tells none (built into the kernel's own tree)."""
    directory = root / "sys/module" / name
    return (read(directory / "version") or "") if directory.is_dir() else None


def nvswitches(root: Path) -> int:
    """Counted by vendor and class, never by a name."""
    devices = [path.parent for path in (root / "sys/bus/pci/devices").glob("*/vendor")]
    return sum(
        read(device / "vendor") == driver_host.NVIDIA_VENDOR and read(device / "class") == driver_host.NVSWITCH_CLASS
        for device in devices
    )


def secure_boot(module: Module, root: Path, keys: list[str]) -> dict[str, object]:
    """Whether the kernel asks for signatures, and whether it knows DKMS's key."""
    if not (root / "sys/firmware/efi").is_dir():
        return {"state": "unsupported", "key": None, "enrolled": None}
    mokutil = module.get_bin_path("mokutil")
    if mokutil is None:
        return {"state": "unknown", "key": None, "enrolled": None}

    def ask(*arguments: str) -> str:
        _, output, errors = module.run_command([mokutil, *arguments], environ_update={"LC_ALL": "C"})
        return f"{output}\n{errors}"

    key = next((path for path in keys if Path(path).exists()), None)
    return {
        "state": driver_host.secure_boot_state(ask("--sb-state")),
        "key": key,
        "enrolled": driver_host.key_enrolled(ask("--test-key", key)) if key else None,
    }


def main() -> None:
    """Module entry point."""
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "kernels": names,
            "module": {"type": "str", "required": True},
            "device_nodes": {"type": "str", "required": True},
            "keys": names,
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    root = Path(module.params["root"])
    running = read(root / "proc/sys/kernel/osrelease") or ""
    kernels = module.params["kernels"] or [running]
    boot = os.statvfs(root / "boot" if (root / "boot").is_dir() else root)
    module.exit_json(
        changed=False,
        kernel=running,
        kernels=kernels,
        without_headers=without_headers(root, kernels),
        boot_free_mb=boot.f_bavail * boot.f_frsize // 1_000_000,
        loaded=loaded_version(root, module.params["module"]),
        nouveau_loaded=loaded_version(root, "nouveau") is not None,
        devices=sorted(str(path) for path in root.glob(module.params["device_nodes"])),
        nvswitches=nvswitches(root),
        secure_boot=secure_boot(module, root, module.params["keys"]),
        boot_id=read(root / "proc/sys/kernel/random/boot_id") or "",
    )


if __name__ == "__main__":
    main()
