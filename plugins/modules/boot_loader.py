#!/usr/bin/python
"""Ansible module: which boot loader starts this host, and where its configuration is. Standard library only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types

DOCUMENTATION = r"""
module: boot_loader
short_description: Detect the boot loader
description:
  - Tells which boot loader starts this host, and where its configuration is.
options:
  root:
    description: Root of the host's file system.
    type: path
    default: /
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.boot_loader:
  register: found
"""

RETURN = r"""
name:
  description: grub, grubby or systemd-boot; null when there is none or the traces leave it open.
  type: str
  returned: always
evidence:
  description: What was found, by boot loader.
  type: dict
  returned: always
boot_root:
  description: Directory with loader/entries; null where there is none.
  type: str
  returned: always
"""

# systemd's interface to boot loaders: the one that started this system names itself in an EFI variable.
LOADER_INFO = "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
# Where kernel-install looks for the partition with the entries, in its order.
BOOT_ROOTS = ("efi", "boot", "boot/efi")


@dataclass(frozen=True)
class Found:
    """The traces of boot loaders on one host, and what they say."""

    name: str | None
    evidence: dict[str, str]
    boot_root: str | None


def running_loader(root: Path) -> str | None:
    """The loader that started this system; None where none says so (BIOS, container, older GRUB)."""
    try:
        raw = (root / LOADER_INFO).read_bytes()
    except OSError:
        return None
    text = raw[4:].decode("utf-16-le", errors="replace").lower()  # four bytes of attributes come first
    return next((loader for loader in ("systemd-boot", "grub") if loader in text), None)


def boot_root(root: Path) -> str | None:
    """The directory whose loader/entries the boot loader reads."""
    return next((f"/{path}" for path in BOOT_ROOTS if (root / path / "loader/entries").is_dir()), None)


def traces(root: Path) -> dict[str, str]:
    """One sign of each boot loader that is installed."""
    evidence = {}
    entries = root / "boot/loader/entries"
    if (root / "usr/sbin/grubby").exists() and entries.is_dir():
        evidence["grubby"] = "/usr/sbin/grubby and boot loader entries in /boot/loader/entries"
    elif (root / "usr/sbin/update-grub").exists() and (root / "boot/grub").is_dir():
        evidence["grub"] = "/usr/sbin/update-grub and /boot/grub"
    for path in BOOT_ROOTS:
        installed = any((root / path / "EFI/systemd").glob("systemd-boot*.efi"))
        if installed or (root / path / "loader/loader.conf").exists():
            evidence["systemd-boot"] = f"systemd-boot in /{path}"
            break
    return evidence


def detect(root: Path) -> Found:
    """What the traces and the running loader say; of two installed loaders the running one decides."""
    evidence = traces(root)
    running = running_loader(root)
    if len(evidence) > 1 and running:
        named = [loader for loader in evidence if loader.startswith("grub") == (running == "grub")]
    else:
        named = list(evidence)
    return Found(named[0] if len(named) == 1 else None, evidence, boot_root(root))


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    module.exit_json(changed=False, **asdict(detect(Path(module.params["root"]))))


if __name__ == "__main__":
    main()
