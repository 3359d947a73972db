"""The line of /etc/kernel/cmdline, which kernel-install puts into every boot entry.

Standard library only; it reads the host's files and changes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ansible_collections.bimetal.cluster.plugins.module_utils.config_file import read
from ansible_collections.bimetal.cluster.plugins.module_utils.kernel_cmdline import name, split, with_parameters

# Boot loaders add these to the line that the kernel shows (kernel-install's 90-loaderentry.install).
_OF_THE_BOOT_LOADER = frozenset({"BOOT_IMAGE", "initrd"})


def current_line(root: Path) -> str:
    """The line that kernel-install would use now.

    Without the file kernel-install falls back to /usr/lib/kernel/cmdline and then to the running command line
    (kernel-install(8)). So does this function, and making the file loses no `root=`.
    """
    for path in ("etc/kernel/cmdline", "usr/lib/kernel/cmdline"):
        text = read(root / path)
        if text is not None and text.strip():
            return " ".join(split(text))
    words = split((root / "proc/cmdline").read_text())
    return " ".join(word for word in words if name(word) not in _OF_THE_BOOT_LOADER)


def plan(root: Path, wanted: Sequence[str], absent: Sequence[str]) -> list[tuple[Path, str | None]]:
    """The text that the file should have; empty when its words, on however many lines, are those already."""
    path = root / "etc/kernel/cmdline"
    line = with_parameters(current_line(root), wanted, absent)
    return [] if " ".join(split(read(path) or "")) == line else [(path, line + "\n")]
