#!/usr/bin/python
"""Ansible module: kernel parameters in the files that Debian's grub-mkconfig reads. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils.config_file import change, read
from ansible_collections.bimetal.cluster.plugins.module_utils.grub_defaults import drop_in, without_obsolete

DOCUMENTATION = r"""
module: grub_cmdline
short_description: Set kernel parameters in GRUB's defaults
description:
  - Writes what Debian's grub-mkconfig reads.
  - What is added stands in a drop-in of our own. What contradicts it is cut out of the files where it stands, with a
    backup, because a kernel given two values of one parameter is a riddle for whoever reads it.
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
  defaults_file:
    description: GRUB's own file.
    type: path
    default: /etc/default/grub
  drop_in:
    description: The file of our own; others of its directory are read before it.
    type: path
    required: true
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.grub_cmdline:
    parameters: [iommu=pt]
    drop_in: /etc/default/grub.d/zz-bimetal.cfg
"""

RETURN = r"""
files:
  description: Files that were changed.
  type: list
  elements: str
  returned: always
"""

MARKER = "# Managed by Ansible (bimetal, role kernel_cmdline): change the inventory, not this file."


def sources(defaults_file: Path, own: Path) -> list[Path]:
    """The files that grub-mkconfig sources before our drop-in, in its order."""
    drop_ins = sorted(path for path in own.parent.glob("*.cfg") if path != own)
    return [path for path in [defaults_file, *drop_ins] if path.is_file()]


def plan(defaults_file: Path, own: Path, wanted: Sequence[str], absent: Sequence[str]) -> list[tuple[Path, str | None]]:
    """The text that every file should have; None for a drop-in that is not needed."""
    files = sources(defaults_file, own)
    edited = [without_obsolete(path.read_text(), wanted, absent) for path in files]
    return [*zip(files, edited, strict=True), (own, drop_in(edited, wanted, MARKER))]


def foreign(own: Path) -> bool:
    """Whether somebody else wrote a file of our drop-in's name."""
    text = read(own)
    return text is not None and not text.startswith(MARKER)


def main() -> None:
    """Module entry point."""
    words = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "parameters": words | {"required": True},
            "absent": words | {"default": []},
            "defaults_file": {"type": "path", "default": "/etc/default/grub"},
            "drop_in": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    own = Path(module.params["drop_in"])
    if foreign(own):
        module.fail_json(
            msg=f"{own} was not written by this role: its first line should be '{MARKER}'."
            " Move the file away, or set kernel_cmdline_grub_drop_in to another name."
        )
    changes = [
        change(module, path, text, backup=path != own)
        for path, text in plan(
            Path(module.params["defaults_file"]), own, module.params["parameters"], module.params["absent"]
        )
    ]
    diffs = [diff for diff in changes if diff]
    module.exit_json(changed=bool(diffs), diff=diffs, files=[diff["after_header"] for diff in diffs])


if __name__ == "__main__":
    main()
