#!/usr/bin/python
"""Ansible module: does the running kernel have the parameters in force? Standard library only."""

from __future__ import annotations

import gzip
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils.config_file import read
from ansible_collections.bimetal.cluster.plugins.module_utils.kernel_cmdline import contradictions, missing

DOCUMENTATION = r"""
module: running_cmdline
short_description: Compare the running kernel's command line with wanted parameters
description:
  - Tells which parameters are not in force.
  - The command line is not the only place. A kernel built with CONFIG_IOMMU_DEFAULT_PASSTHROUGH=y needs no iommu=pt.
options:
  parameters:
    description: Parameters that should be in force.
    type: list
    elements: str
    required: true
  built_in:
    description: Parameter → kernel configuration option that makes it unnecessary when it is C(y).
    type: dict
    default: {}
  root:
    description: Root of the host's file system.
    type: path
    default: /
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.running_cmdline:
    parameters: [iommu=pt]
    built_in: {iommu=pt: CONFIG_IOMMU_DEFAULT_PASSTHROUGH}
"""

RETURN = r"""
cmdline:
  description: The running command line.
  type: str
  returned: always
missing:
  description: Parameters that are neither on it nor built in.
  type: list
  elements: str
  returned: always
built_in:
  description: Parameters that are not on it but built in.
  type: list
  elements: str
  returned: always
contradictions:
  description: Parameters that others of the wanted overrule.
  type: list
  elements: str
  returned: always
boot_id:
  description: The kernel's id of this boot; empty where there is none.
  type: str
  returned: always
kernel_config:
  description: File that the kernel's configuration was read from; null where there is none.
  type: str
  returned: always
"""


def enabled_options(text: str) -> set[str]:
    """The options that a kernel configuration builds in."""
    return {line.removesuffix("=y") for line in text.splitlines() if line.endswith("=y")}


def kernel_config(root: Path, release: str) -> tuple[str | None, str]:
    """The file with the running kernel's configuration, and its text; None and "" where there is none."""
    for path in (f"boot/config-{release}", f"usr/lib/modules/{release}/config", f"lib/modules/{release}/config"):
        text = read(root / path)
        if text is not None:
            return f"/{path}", text
    compressed = root / "proc/config.gz"
    if compressed.exists():
        return "/proc/config.gz", gzip.decompress(compressed.read_bytes()).decode()
    return None, ""


def compare(
    line: str, wanted: Sequence[str], built_in: Mapping[str, str], options: set[str]
) -> tuple[list[str], list[str]]:
    """Of the parameters that are not on the line: those that are really missing, and those that are built in."""
    absent = missing(line, wanted)
    given = [word for word in absent if built_in.get(word) in options]
    return [word for word in absent if word not in given], given


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={
            "parameters": {"type": "list", "elements": "str", "required": True},
            "built_in": {"type": "dict", "default": {}},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    root = Path(module.params["root"])
    wanted = module.params["parameters"]
    line = (root / "proc/cmdline").read_text().strip()
    path, text = kernel_config(root, platform.release())
    lacking, given = compare(line, wanted, module.params["built_in"], enabled_options(text))
    module.exit_json(
        changed=False,
        cmdline=line,
        missing=lacking,
        built_in=given,
        contradictions=contradictions(wanted),
        boot_id=(read(root / "proc/sys/kernel/random/boot_id") or "").strip(),
        kernel_config=path,
    )


if __name__ == "__main__":
    main()
