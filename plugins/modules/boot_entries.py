#!/usr/bin/python
"""Ansible module: does the generated boot configuration hold the parameters? Standard library only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils.config_file import read
from ansible_collections.bimetal.cluster.plugins.module_utils.kernel_cmdline import (
    effective,
    kernel_words,
    missing,
    settings,
    split,
)

DOCUMENTATION = r"""
module: boot_entries
short_description: Compare boot entries with wanted kernel parameters
description:
  - Reads what the boot loader itself will read (grub.cfg, or the entries of the Boot Loader Specification), because a
    generator may succeed and leave entries as they were, as grub2-mkconfig does on EL 9.3 and later.
options:
  parameters:
    description: Parameters that every entry of this system must have in force.
    type: list
    elements: str
    required: true
  absent:
    description: Parameters that no entry may have, as a name or as name=value.
    type: list
    elements: str
    default: []
  grub_cfg:
    description: GRUB's generated configuration; exclusive with I(entries_dir).
    type: path
  entries_dir:
    description: Directory of boot loader entries; exclusive with I(grub_cfg).
    type: path
  entry_token:
    description: Names this system's entries where several systems share the directory; default is the machine id.
    type: str
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.boot_entries:
    parameters: [iommu=pt]
    grub_cfg: /boot/grub/grub.cfg
"""

RETURN = r"""
entries:
  description: This system's entries, each name with its command line.
  type: dict
  returned: always
wrong:
  description: Of the entries, those with missing or leftover parameters, each name with these.
  type: dict
  returned: always
complete:
  description: Whether there are entries and none is wrong.
  type: bool
  returned: always
"""

# Entries for other systems come from 30_os-prober: their parameters are not ours.
_OWN_SECTION = re.compile(r"^### BEGIN /etc/grub\.d/10_linux ###$(.*?)^### END ", re.MULTILINE | re.DOTALL)
_MENU_ENTRY = re.compile(r"\s*menuentry\s+'((?:[^'\\]|\\.)*)'")
_LINUX = re.compile(r"\s*linux(?:16|efi)?\s+\S+\s+(.*)")


def grub_entries(text: str) -> dict[str, str]:
    """Title → command line of this system's normal entries in a grub.cfg.

    Recovery entries leave GRUB_CMDLINE_LINUX_DEFAULT out on purpose.
    """
    found: dict[str, str] = {}
    title = ""
    for line in "\n".join(_OWN_SECTION.findall(text)).splitlines():
        entry, kernel = _MENU_ENTRY.match(line), _LINUX.match(line)
        if entry:
            title = entry[1]
        elif kernel and "recovery mode" not in title:
            found[title] = " ".join(split(kernel[1]))
    return found


def loader_entry(text: str) -> dict[str, str]:
    """Key → value of one entry file; several `options` lines are one line (UAPI.1 Boot Loader Specification)."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, rest = line.strip().partition(" ")
        if key == "options" and key in fields:
            rest = f"{fields[key]} {rest.strip()}"
        if key and not key.startswith("#"):
            fields[key] = rest.strip()
    return fields


def loader_entries(directory: Path, token: str) -> dict[str, str]:
    """File name → options of this system's entries."""
    found: dict[str, str] = {}
    for path in sorted(directory.glob("*.conf")):
        fields = loader_entry(path.read_text())
        own = path.name.startswith(f"{token}-") or fields.get("machine-id") == token
        if own and "linux" in fields:
            found[path.name] = fields.get("options", "")
    return found


def leftover(line: str, absent: Sequence[str]) -> list[str]:
    """Those of `absent` that a command line still has."""
    present = effective(kernel_words(split(line)))
    names = {parameter for parameter, _ in present}
    return [
        gone
        for gone in absent
        if all(present.get(key, "") == text for key, text in settings(gone).items())
        or ("=" not in gone and gone.replace("-", "_") in names)
    ]


def wrong(entries: dict[str, str], wanted: Sequence[str], absent: Sequence[str]) -> dict[str, list[str]]:
    """Entry → what it lacks and `-NAME` for what it should not have; only entries with any."""
    found = {
        entry: [*missing(line, wanted), *(f"-{gone}" for gone in leftover(line, absent))]
        for entry, line in entries.items()
    }
    return {entry: words for entry, words in found.items() if words}


def own_token() -> str:
    """What kernel-install names this system's entries by."""
    return (read(Path("/etc/kernel/entry-token")) or read(Path("/etc/machine-id")) or "").strip()


def main() -> None:
    """Module entry point."""
    words = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "parameters": words | {"required": True},
            "absent": words | {"default": []},
            "grub_cfg": {"type": "path"},
            "entries_dir": {"type": "path"},
            "entry_token": {"type": "str"},
        },
        required_one_of=[("grub_cfg", "entries_dir")],
        mutually_exclusive=[("grub_cfg", "entries_dir")],
        supports_check_mode=True,
    )
    options = module.params
    if options["grub_cfg"]:
        entries = grub_entries(read(Path(options["grub_cfg"])) or "")
    else:
        entries = loader_entries(Path(options["entries_dir"]), options["entry_token"] or own_token())
    bad = wrong(entries, options["parameters"], options["absent"])
    module.exit_json(changed=False, entries=entries, wrong=bad, complete=bool(entries) and not bad)


if __name__ == "__main__":
    main()
