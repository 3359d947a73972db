#!/usr/bin/python
"""Ansible module: kernel parameters of the next boot, where the boot loader keeps them. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils import grub_defaults, grubby, kernel_install
from ansible_collections.bimetal.cluster.plugins.module_utils.config_file import Diff, change

DOCUMENTATION = r"""
module: kernel_cmdline
short_description: Set kernel parameters of the next boot
description:
  - Sets the parameters where the boot loader keeps them; what contradicts them there is removed.
  - With V(grub) and V(systemd-boot) files change, and the boot entries are as they were until they are generated.
  - With V(grubby) the entries change. Its own arithmetic is on text, so they are read again afterwards.
options:
  loader:
    description:
      - V(grub) edits what Debian's grub-mkconfig reads, with a backup of each file, and adds a drop-in.
      - V(grubby) changes all boot entries of an EL host, and what new kernels get.
      - V(systemd-boot) writes C(/etc/kernel/cmdline), which kernel-install puts into every boot entry.
    type: str
    choices: [grub, grubby, systemd-boot]
    required: true
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
  drop_in:
    description: The file of our own in GRUB's defaults; others of its directory are read before it. For V(grub).
    type: path
  defaults_file:
    description: GRUB's own file. For V(grub).
    type: path
    default: /etc/default/grub
  root:
    description: Root of the host's file system. For V(systemd-boot).
    type: path
    default: /
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.kernel_cmdline:
    loader: grub
    parameters: [iommu=pt]
    drop_in: /etc/default/grub.d/zz-bimetal.cfg

- bimetal.cluster.kernel_cmdline:
    loader: grubby
    parameters: [iommu=pt]
    absent: [pcie_aspm]
"""

RETURN = r"""
files:
  description: Files that were changed; empty for V(grubby).
  type: list
  elements: str
  returned: always
entries:
  description: Kernel → command line, as it is afterwards; empty for V(grub) and V(systemd-boot).
  type: dict
  returned: always
"""

Words = Sequence[str]


def set_in_grub(module: AnsibleModule, wanted: Words, absent: Words) -> dict[str, Any]:
    """Edit GRUB's defaults; fails on a drop-in that somebody else wrote."""
    own = Path(module.params["drop_in"])
    if grub_defaults.foreign(own):
        module.fail_json(
            msg=f"{own} was not written by this role: its first line should be '{grub_defaults.MARKER}'."
            " Move the file away, or set kernel_cmdline_grub_drop_in to another name."
        )
    plan = grub_defaults.plan(Path(module.params["defaults_file"]), own, wanted, absent)
    return of_files([change(module, path, text, backup=path != own) for path, text in plan])


def set_in_kernel_install(module: AnsibleModule, wanted: Words, absent: Words) -> dict[str, Any]:
    """Write kernel-install's line."""
    plan = kernel_install.plan(Path(module.params["root"]), wanted, absent)
    return of_files([change(module, path, text, backup=True) for path, text in plan])


def of_files(changes: Sequence[Diff | None]) -> dict[str, Any]:
    """The result of changes to files, None for one that needed none."""
    diffs = [diff for diff in changes if diff]
    return {"changed": bool(diffs), "diff": diffs, "files": [diff["after_header"] for diff in diffs], "entries": {}}


def set_with_grubby(module: AnsibleModule, wanted: Words, absent: Words) -> dict[str, Any]:
    """Change all entries; fails when they are not as wanted afterwards."""
    before = read_entries(module)
    options = grubby.plan(before, wanted, absent)
    if not options or module.check_mode:
        return {"changed": bool(options), "diff": [], "files": [], "entries": before}
    module.run_command(["grubby", *options], check_rc=True)
    after = read_entries(module)
    if left := grubby.plan(after, wanted, absent):
        module.fail_json(
            msg=f"grubby {' '.join(options)} succeeded, and the entries still need {' '.join(left[1:])}."
            " Compare `grubby --info=ALL` with /etc/default/grub and /etc/kernel/cmdline.",
            entries=after,
        )
    return {"changed": True, "diff": [{"before": before, "after": after}], "files": [], "entries": after}


def read_entries(module: AnsibleModule) -> dict[str, str]:
    """All entries as grubby shows them; fails when there are none."""
    _, output, _ = module.run_command(["grubby", "--info=ALL"], check_rc=True)
    entries = grubby.parse_info(output)
    if not entries:
        module.fail_json(
            msg="`grubby --info=ALL` lists no kernel: expected at least the running one."
            " Reinstall the kernel package, or set kernel_cmdline_boot_loader if another loader starts this host."
        )
    return entries


LOADERS: dict[str, Callable[[AnsibleModule, Words, Words], dict[str, Any]]] = {
    "grub": set_in_grub,
    "grubby": set_with_grubby,
    "systemd-boot": set_in_kernel_install,
}


def main() -> None:
    """Module entry point."""
    words = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "loader": {"type": "str", "choices": list(LOADERS), "required": True},
            "parameters": words | {"required": True},
            "absent": words | {"default": []},
            "drop_in": {"type": "path"},
            "defaults_file": {"type": "path", "default": "/etc/default/grub"},
            "root": {"type": "path", "default": "/"},
        },
        required_if=[("loader", "grub", ["drop_in"])],
        supports_check_mode=True,
    )
    set_parameters = LOADERS[module.params["loader"]]
    module.exit_json(**set_parameters(module, module.params["parameters"], module.params["absent"]))


if __name__ == "__main__":
    main()
