#!/usr/bin/python
"""Ansible module: is a kernel module built for a kernel, and of which version? Standard library only."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils import driver_host

if TYPE_CHECKING:
    from typing import Any as Module

DOCUMENTATION = r"""
module: dkms_module_info
short_description: Tell whether a kernel module is built
description:
  - Asks for each kernel whether it has the module, and in which version.
  - DKMS's word is not enough. Its status stays at installed when the module is later replaced by another of that
    name, and a package can end well after a build that failed. C(modinfo) reads the file that modprobe would load.
options:
  names:
    description: Names that the module can have; Debian calls nvidia nvidia-current.
    type: list
    elements: str
    required: true
  kernels:
    description: Kernels that must have it.
    type: list
    elements: str
    required: true
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.dkms_module_info:
    names: [nvidia, nvidia-current]
    kernels: ["{{ ansible_facts.kernel }}"]
  register: built
"""

RETURN = r"""
versions:
  description: Version of the module that modprobe would load, by kernel; null where there is none.
  type: dict
  returned: always
dkms:
  description: What DKMS says of the module (module, version, kernel, state).
  type: list
  elements: dict
  returned: always
"""


def module_version(module: Module, names: list[str], kernel: str) -> str | None:
    """Version of the first of the names that the kernel has a file of."""
    for name in names:
        status, output, _ = module.run_command(["modinfo", "-k", kernel, "--field=version", name])
        if status == 0 and output.strip():
            return str(output.strip())
    return None


def dkms_status(module: Module, names: list[str]) -> list[dict[str, object]]:
    """DKMS's entries of the module; none on a host without DKMS."""
    if module.get_bin_path("dkms") is None:
        return []
    _, output, _ = module.run_command(["dkms", "status"], environ_update={"LC_ALL": "C"})
    return [asdict(entry) for entry in driver_host.dkms_entries(output) if entry.module in names]


def main() -> None:
    """Module entry point."""
    names = {"type": "list", "elements": "str", "required": True}
    module = AnsibleModule(argument_spec={"names": names, "kernels": names}, supports_check_mode=True)
    wanted = module.params["names"]
    module.exit_json(
        changed=False,
        versions={kernel: module_version(module, wanted, kernel) for kernel in module.params["kernels"]},
        dkms=dkms_status(module, wanted),
    )


if __name__ == "__main__":
    main()
