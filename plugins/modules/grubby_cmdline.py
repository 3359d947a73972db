#!/usr/bin/python
"""Ansible module: kernel parameters in all boot entries of an EL host, through grubby. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils.kernel_cmdline import split, with_parameters

DOCUMENTATION = r"""
module: grubby_cmdline
short_description: Set kernel parameters with grubby
description:
  - Sets the parameters in all boot entries of an EL host.
  - grubby is the one tool there that changes the entries and what new kernels get; grub2-mkconfig leaves the entries
    alone since EL 9.3. Its own arithmetic is on text, so the entries are read again afterwards.
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
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.grubby_cmdline:
    parameters: [iommu=pt]
"""

RETURN = r"""
entries:
  description: Kernel → command line, as it is afterwards.
  type: dict
  returned: always
"""

_KERNEL = re.compile(r'kernel="?([^"]*)"?$')
_ARGUMENTS = re.compile(r'args="(.*)"$')


def parse_info(text: str) -> dict[str, str]:
    """Kernel → command line of `grubby --info=ALL`; entries without a kernel (memory tests) are left out."""
    found: dict[str, str] = {}
    kernel = ""
    for line in text.splitlines():
        if line.startswith("index="):
            kernel = ""
        elif match := _KERNEL.match(line):
            kernel = match[1]
            found[kernel] = ""
        elif kernel and (match := _ARGUMENTS.match(line)):
            found[kernel] = match[1]
    return found


def difference(line: str, target: str) -> tuple[list[str], list[str]]:
    """The words to remove from a command line and the words to add to it, for it to be `target`."""
    old, new = split(line), split(target)
    return [word for word in old if word not in new], [word for word in new if word not in old]


def arguments(entries: dict[str, str], wanted: Sequence[str], absent: Sequence[str]) -> list[str]:
    """grubby's options that bring all entries, and those of kernels to come, to `wanted`; empty when they are."""
    changes = [difference(line, with_parameters(line, wanted, absent)) for line in entries.values()]
    removed = list(dict.fromkeys(word for words, _ in changes for word in words))
    added = list(dict.fromkeys(word for _, words in changes for word in words))
    if not removed and not added:
        return []
    options = ["--update-kernel=ALL"]
    options += [f"--remove-args={' '.join(removed)}"] if removed else []
    return options + ([f"--args={' '.join(added)}"] if added else [])


def read_entries(module: AnsibleModule) -> dict[str, str]:
    """All entries as grubby shows them."""
    _, output, _ = module.run_command(["grubby", "--info=ALL"], check_rc=True)
    entries = parse_info(output)
    if not entries:
        module.fail_json(
            msg="`grubby --info=ALL` lists no kernel: expected at least the running one."
            " Reinstall the kernel package, or set kernel_cmdline_boot_loader if another loader starts this host."
        )
    return entries


def main() -> None:
    """Module entry point."""
    words = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={"parameters": words | {"required": True}, "absent": words | {"default": []}},
        supports_check_mode=True,
    )
    wanted, absent = module.params["parameters"], module.params["absent"]
    before = read_entries(module)
    options = arguments(before, wanted, absent)
    if not options or module.check_mode:
        module.exit_json(changed=bool(options), entries=before)
    module.run_command(["grubby", *options], check_rc=True)
    after = read_entries(module)
    if left := arguments(after, wanted, absent):
        module.fail_json(
            msg=f"grubby {' '.join(options)} succeeded, and the entries still need {' '.join(left[1:])}."
            " Compare `grubby --info=ALL` with /etc/default/grub and /etc/kernel/cmdline.",
            entries=after,
        )
    diff = {"before": before, "after": after}
    module.exit_json(changed=True, entries=after, diff=diff)


if __name__ == "__main__":
    main()
