#!/usr/bin/python
"""Ansible module: kernel parameters in /etc/kernel/cmdline, which kernel-install puts into every boot entry.

Standard library only.
"""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils.config_file import change, read
from ansible_collections.bimetal.cluster.plugins.module_utils.kernel_cmdline import name, split, with_parameters

DOCUMENTATION = r"""
module: kernel_cmdline_file
short_description: Set kernel parameters in kernel-install's command line file
description:
  - Writes /etc/kernel/cmdline, which kernel-install puts into every boot entry.
  - Without the file kernel-install falls back to /usr/lib/kernel/cmdline and then to the running command line
    (kernel-install(8)). So does this module, and making the file loses no C(root=).
options:
  parameters:
    description: Parameters that must be in force, for example C(iommu=pt).
    type: list
    elements: str
    required: true
  absent:
    description: Parameters that must be gone, as a name or as name=value.
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
- bimetal.cluster.kernel_cmdline_file:
    parameters: [iommu=pt]
"""

RETURN = r"""
cmdline:
  description: The whole line.
  type: str
  returned: always
"""

# Boot loaders add these to the line that the kernel shows (kernel-install's 90-loaderentry.install).
_OF_THE_BOOT_LOADER = frozenset({"BOOT_IMAGE", "initrd"})


def current_line(root: Path) -> str:
    """The line that kernel-install would use now."""
    for path in ("etc/kernel/cmdline", "usr/lib/kernel/cmdline"):
        text = read(root / path)
        if text is not None and text.strip():
            return " ".join(split(text))
    words = split((root / "proc/cmdline").read_text())
    return " ".join(word for word in words if name(word) not in _OF_THE_BOOT_LOADER)


def main() -> None:
    """Module entry point."""
    words = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "parameters": words | {"required": True},
            "absent": words | {"default": []},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    root = Path(module.params["root"])
    line = with_parameters(current_line(root), module.params["parameters"], module.params["absent"])
    path = root / "etc/kernel/cmdline"
    in_force = " ".join(split(read(path) or "")) == line
    diff = None if in_force else change(module, path, line + "\n", backup=True)
    module.exit_json(changed=diff is not None, diff=[diff] if diff else [], cmdline=line)


if __name__ == "__main__":
    main()
