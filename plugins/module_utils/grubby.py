"""grubby's entries, and the options that bring them to wanted kernel parameters. Pure and standard library only.

grubby is the one tool of an EL host that changes the entries and what new kernels get; grub2-mkconfig leaves the
entries alone since EL 9.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ansible_collections.bimetal.cluster.plugins.module_utils.kernel_cmdline import split, with_parameters

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


def plan(entries: Mapping[str, str], wanted: Sequence[str], absent: Sequence[str]) -> list[str]:
    """grubby's options that bring all entries, and those of kernels to come, to `wanted`; empty when they are."""
    changes = [difference(line, with_parameters(line, wanted, absent)) for line in entries.values()]
    removed = list(dict.fromkeys(word for words, _ in changes for word in words))
    added = list(dict.fromkeys(word for _, words in changes for word in words))
    if not removed and not added:
        return []
    options = ["--update-kernel=ALL"]
    options += [f"--remove-args={' '.join(removed)}"] if removed else []
    return options + ([f"--args={' '.join(added)}"] if added else [])
