#!/usr/bin/python
"""Ansible module: does each kernel's initramfs hold a file of /etc, as it is now? Standard library only."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils import driver_host

DOCUMENTATION = r"""
module: initramfs_info
short_description: Look into the initramfs images
description:
  - Tells whether each kernel's initramfs holds a file of /etc as it is now.
  - A blacklist on the disk is too late, because what the initramfs loads is loaded before the disk is there.
options:
  file:
    description: The file that the images must hold.
    type: path
    required: true
  boot:
    description: Where the images are.
    type: path
    default: /boot
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.initramfs_info:
    file: /etc/modprobe.d/own.conf
  register: images
"""

RETURN = r"""
images:
  description: Every image (kernel, path, current, nouveau); current when it has the file and is newer than it.
  type: list
  elements: dict
  returned: always
tool:
  description: lsinitramfs, lsinitrd, or null when the host has neither and no image can be looked into.
  type: str
  returned: always
"""

# Image names of initramfs-tools and of dracut, with what comes before and after the kernel's version.
_NAMES = {"lsinitramfs": ("initrd.img-", ""), "lsinitrd": ("initramfs-", ".img")}


def images(boot: Path, tool: str) -> dict[str, Path]:
    """Kernel version → image; a kdump or rescue image is none of a kernel that is booted."""
    prefix, suffix = _NAMES[tool]
    found = {path.name.removeprefix(prefix).removesuffix(suffix): path for path in boot.glob(f"{prefix}*{suffix}")}
    return {
        kernel: path
        for kernel, path in sorted(found.items())
        if not kernel.endswith(("kdump", ".old-dkms", ".bak", ".dpkg-bak")) and "rescue" not in kernel
    }


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={"file": {"type": "path", "required": True}, "boot": {"type": "path", "default": "/boot"}},
        supports_check_mode=True,
    )
    tool = next((name for name in _NAMES if module.get_bin_path(name)), None)
    file = Path(module.params["file"])
    found = []
    for kernel, path in images(Path(module.params["boot"]), tool).items() if tool else ():
        _, output, _ = module.run_command([tool, str(path)], check_rc=True)
        names = output.splitlines()
        newer = file.exists() and path.stat().st_mtime >= file.stat().st_mtime
        found.append(
            {
                "kernel": kernel,
                "path": str(path),
                "current": newer and driver_host.holds(names, str(file)),
                "nouveau": driver_host.nouveau_modules(names),
            }
        )
    module.exit_json(changed=False, images=found, tool=tool)


if __name__ == "__main__":
    main()
