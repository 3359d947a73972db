#!/usr/bin/python
"""Ansible module: the GPUs' device nodes, and who may open them. Standard library only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types

DOCUMENTATION = r"""
module: gpu_device_nodes
short_description: Tell the GPUs' device nodes and their groups
description:
  - Groups are numbers. Their names differ from host to host and need not exist, and a container knows none of them.
options:
  root:
    description: Root of the host's file system.
    type: path
    default: /
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.gpu_device_nodes:
  register: nodes
"""

RETURN = r"""
amd:
  description: /dev/kfd and the render nodes of amdgpu; empty without /dev/kfd.
  type: list
  elements: str
  returned: always
amd_groups:
  description: Numbers of the groups of those nodes.
  type: list
  elements: int
  returned: always
nvidia:
  description: Nodes of NVIDIA's driver.
  type: list
  elements: str
  returned: always
without_link:
  description: Those of NVIDIA's nodes that have no link in /dev/char.
  type: list
  elements: str
  returned: always
"""


def amd_nodes(root: Path) -> list[str]:
    """/dev/kfd and every render node that amdgpu drives; none of another vendor's card in the same host."""
    if not (root / "dev/kfd").exists():
        return []
    nodes = ["/dev/kfd"]
    for node in sorted((root / "dev/dri").glob("renderD*")):
        driver = root / "sys/class/drm" / node.name / "device/driver"
        if driver.is_symlink() and Path(os.readlink(driver)).name == "amdgpu":
            nodes.append(f"/dev/dri/{node.name}")
    return nodes


def groups(root: Path, nodes: list[str]) -> list[int]:
    """Numbers of the groups that may open the nodes, each once; root's group needs no mention."""
    return sorted({(root / node.lstrip("/")).stat().st_gid for node in nodes} - {0})


def nvidia_nodes(root: Path) -> list[str]:
    """Nodes of NVIDIA's driver, those of nvidia-uvm and the capabilities among them."""
    found = [*(root / "dev").glob("nvidia*"), *(root / "dev/nvidia-caps").glob("nvidia-cap*")]
    return sorted(f"/{path.relative_to(root)}" for path in found if not path.is_dir())


def without_link(root: Path, nodes: list[str]) -> list[str]:
    """Nodes that systemd cannot find by their number: after a reload of its units it takes them from containers."""
    missing = []
    for node in nodes:
        status = (root / node.lstrip("/")).stat()
        if stat.S_ISCHR(status.st_mode):
            link = root / f"dev/char/{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
            if not link.is_symlink():
                missing.append(node)
    return missing


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    root = Path(module.params["root"])
    amd, nvidia = amd_nodes(root), nvidia_nodes(root)
    module.exit_json(
        changed=False,
        amd=amd,
        amd_groups=groups(root, amd),
        nvidia=nvidia,
        without_link=without_link(root, nvidia),
    )


if __name__ == "__main__":
    main()
