#!/usr/bin/python
"""Ansible module: PCIe ASPM policy now and at every boot, where the kernel lets it be set. Standard library only."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils.config_file import change

DOCUMENTATION = r"""
module: aspm_policy
short_description: Set the PCIe ASPM policy
description:
  - Sets the policy now and at every boot, where the kernel lets it be set.
  - A kernel started with pcie_aspm=off refuses every policy and leaves the links as the firmware set them, and in a
    container /sys cannot be written. Then there is nothing to set, and the module says why.
options:
  policy:
    description: The policy.
    type: str
    required: true
  file:
    description: The kernel's file.
    type: path
    default: /sys/module/pcie_aspm/parameters/policy
  tmpfiles:
    description: The systemd-tmpfiles configuration that sets the policy at boot.
    type: path
    required: true
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.aspm_policy:
    policy: performance
    tmpfiles: /etc/tmpfiles.d/bimetal-aspm.conf
"""

RETURN = r"""
before:
  description: Policy before; null where the kernel has none.
  type: str
  returned: always
after:
  description: Policy afterwards; in check mode what it would be.
  type: str
  returned: always
reason:
  description: Why the policy cannot be set; null where it can.
  type: str
  returned: always
"""

MARKER = "# Managed by Ansible (bimetal, role kernel_cmdline): change the inventory, not this file."


def selected(text: str) -> str:
    """The policy in force of `[default] performance powersave powersupersave`."""
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else text.strip()


def obstacle(path: Path) -> str | None:
    """Why the policy cannot be set, as far as reading tells; None when nothing speaks against it."""
    if not path.exists():
        return f"{path} does not exist: this kernel has no ASPM support"
    if not os.access(path, os.W_OK):
        return f"{path} is read-only here, as in a container"
    return None


def set_policy(path: Path, policy: str) -> str | None:
    """Write the policy; why the kernel refused it, or None.

    Raises OSError for what is no refusal.
    """
    try:
        path.write_text(policy)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EROFS, errno.EACCES):
            return "the kernel refuses every policy, as it does after a start with pcie_aspm=off"
        if error.errno == errno.EINVAL:
            return f"the kernel knows no policy '{policy}'"
        raise
    return None


def tmpfiles_text(path: Path, policy: str) -> str:
    """The configuration that sets the policy at boot; with `w-` a kernel that refuses it fails no boot."""
    return f"{MARKER}\nw- {path} - - - - {policy}\n"


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={
            "policy": {"type": "str", "required": True},
            "file": {"type": "path", "default": "/sys/module/pcie_aspm/parameters/policy"},
            "tmpfiles": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    policy, path = module.params["policy"], Path(module.params["file"])
    reason = obstacle(path)
    before = selected(path.read_text()) if path.exists() else None
    after = before
    if not reason and before != policy:
        reason = None if module.check_mode else set_policy(path, policy)
        after = before if reason else policy
    diff = None
    # What is refused now may have been set before a start with pcie_aspm=off: it harms nothing and stays.
    if not reason:
        diff = change(module, Path(module.params["tmpfiles"]), tmpfiles_text(path, policy), backup=False)
    module.exit_json(
        changed=before != after or diff is not None,
        before=before,
        after=after,
        reason=reason,
        diff=[diff] if diff else [],
    )


if __name__ == "__main__":
    main()
