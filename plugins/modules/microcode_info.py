#!/usr/bin/python
"""Ansible module: which microcode runs, which is installed, and can it be loaded now? Standard library only."""

from __future__ import annotations

import lzma
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types

DOCUMENTATION = r"""
module: microcode_info
short_description: Compare the running microcode with the installed one
description:
  - Tells which microcode runs, which is installed, and whether it can be loaded now.
  - A revision that is not known is null, never 0, because a virtual machine shows whatever its hypervisor makes up.
options:
  root:
    description: Root of the host's file system.
    type: path
    default: /
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.microcode_info:
  register: microcode
"""

RETURN = r"""
vendor:
  description: amd or intel; null for any other CPU.
  type: str
  returned: always
running:
  description: Lowest revision that any CPU runs, as 0x…; null where it cannot be known.
  type: str
  returned: always
mixed:
  description: Whether CPUs run different revisions.
  type: bool
  returned: always
reason:
  description: Why there is no running revision; null where there is one.
  type: str
  returned: always
installed:
  description: Newest revision for this CPU below /lib/firmware, as 0x…; null where there is none.
  type: str
  returned: always
pending:
  description: Whether the installed revision is newer than the running one.
  type: bool
  returned: always
late_load:
  description: Whether this kernel lets microcode be loaded while it runs.
  type: bool
  returned: always
"""

VENDORS = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}
RELOAD = "sys/devices/system/cpu/microcode/reload"
# What hypervisors and old kernels show instead of a revision.
_NO_REVISION = frozenset({0, 0xFFFFFFFF})

# arch/x86/kernel/cpu/microcode/amd.c: a container is a table of CPUs followed by patches, each a section.
_AMD_MAGIC = 0x00414D44
_AMD_TABLE = 0
_AMD_PATCH = 1
_AMD_TABLE_ENTRY = struct.Struct("<IIIHH")  # CPUID, errata mask and value, CPU's id in the patches, reserved
_AMD_PATCH_HEADER = struct.Struct("<II16xH")  # date, revision, …, CPU's id
# arch/x86/include/asm/microcode.h, struct microcode_header_intel.
_INTEL_HEADER = struct.Struct("<9I")  # version, revision, date, CPUID, sum, loader, platforms, sizes of data, of all
_INTEL_DEFAULT_SIZE = 2048


@dataclass(frozen=True)
class Cpu:
    """What identifies a CPU to its vendor's microcode."""

    vendor: str | None
    family: int
    model: int
    stepping: int
    guest: bool

    @property
    def signature(self) -> int:
        """EAX of CPUID leaf 1."""
        base = min(self.family, 0xF)
        extended = self.family - base
        return extended << 20 | (self.model >> 4) << 16 | base << 8 | (self.model & 0xF) << 4 | self.stepping


@dataclass(frozen=True)
class Info:
    """The module's answer."""

    vendor: str | None
    running: str | None
    mixed: bool
    reason: str | None
    installed: str | None
    pending: bool
    late_load: bool


def cpu(cpuinfo: str) -> Cpu:
    """The first CPU of /proc/cpuinfo."""
    first = dict(re.findall(r"^([^\t:]+?)\s*:[ ]?(.*)$", cpuinfo.split("\n\n", maxsplit=1)[0], re.MULTILINE))
    return Cpu(
        vendor=VENDORS.get(first.get("vendor_id", "")),
        family=int(first.get("cpu family", 0)),
        model=int(first.get("model", 0)),
        stepping=int(first["stepping"]) if first.get("stepping", "").isdigit() else 0,
        guest="hypervisor" in first.get("flags", "").split(),
    )


def revisions(root: Path, cpuinfo: str) -> set[int]:
    """The revisions that the CPUs say they run; empty when they say nothing."""
    files = sorted(root.glob("sys/devices/system/cpu/cpu[0-9]*/microcode/version"))
    texts = [path.read_text() for path in files] or re.findall(r"^microcode\s*:\s*(0x[0-9a-f]+)", cpuinfo, re.MULTILINE)
    return {int(text, 16) for text in texts} - _NO_REVISION


def why_unknown(found: Cpu, known: set[int]) -> str | None:
    """Why the running revision is not known; None when it is."""
    if found.guest:
        return "it is a virtual machine, whose host loads microcode and makes up what the machine sees"
    return None if known else "the kernel shows no revision"


def amd_revisions(data: bytes, signature: int) -> Iterator[int]:
    """The revisions for a CPU in one of AMD's containers; several containers may follow each other."""
    ids: set[int] = set()
    position = 0
    while position + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, position)
        if kind == _AMD_MAGIC:
            position += 4
            continue
        section = data[position + 8 : position + 8 + size]
        if kind == _AMD_TABLE:
            whole = section[: len(section) // _AMD_TABLE_ENTRY.size * _AMD_TABLE_ENTRY.size]
            ids = {entry[3] for entry in _AMD_TABLE_ENTRY.iter_unpack(whole) if entry[0] == signature}
        elif kind == _AMD_PATCH and len(section) >= _AMD_PATCH_HEADER.size:
            _, revision, own_id = _AMD_PATCH_HEADER.unpack_from(section)
            if own_id in ids:
                yield revision
        position += 8 + size


def intel_revisions(data: bytes, signature: int, platform: int | None) -> Iterator[int]:
    """The revisions for a CPU in one of Intel's files; `platform` is its bit of the platform mask, if known."""
    position = 0
    while position + _INTEL_HEADER.size <= len(data):
        _, revision, _, own, _, _, platforms, _, size = _INTEL_HEADER.unpack_from(data, position)
        if own == signature and (platform is None or platforms & platform):
            yield revision
        position += size or _INTEL_DEFAULT_SIZE


def firmware(root: Path, name: str) -> bytes | None:
    """A firmware file, compressed or not; None where there is none."""
    for path in (root / "lib/firmware" / name, root / "usr/lib/firmware" / name):
        if path.exists():
            return path.read_bytes()
        compressed = path.with_name(f"{path.name}.xz")
        if compressed.exists():
            return lzma.decompress(compressed.read_bytes())
    return None


def installed_revision(root: Path, found: Cpu) -> int | None:
    """The newest revision for this CPU that the vendor's package has brought."""
    if found.vendor == "amd":
        name = f"microcode_amd_fam{found.family:02x}h.bin" if found.family >= 0x15 else "microcode_amd.bin"
        data = firmware(root, f"amd-ucode/{name}")
        return max(amd_revisions(data or b"", found.signature), default=None)
    if found.vendor == "intel":
        name = f"{found.family:02x}-{found.model:02x}-{found.stepping:02x}"
        flags = root / "sys/devices/system/cpu/cpu0/microcode/processor_flags"
        platform = int(flags.read_text(), 16) if flags.exists() else None
        return max(
            intel_revisions(firmware(root, f"intel-ucode/{name}") or b"", found.signature, platform), default=None
        )
    return None


def as_hex(revision: int | None) -> str | None:
    """A revision as the kernel writes it."""
    return None if revision is None else f"{revision:#x}"


def inspect(root: Path) -> Info:
    """All that is known about the host's microcode."""
    cpuinfo = (root / "proc/cpuinfo").read_text()
    found = cpu(cpuinfo)
    known = revisions(root, cpuinfo)
    reason = why_unknown(found, known)
    running = None if reason else min(known)
    installed = installed_revision(root, found)
    return Info(
        vendor=found.vendor,
        running=as_hex(running),
        mixed=not reason and len(known) > 1,
        reason=reason,
        installed=as_hex(installed),
        pending=running is not None and installed is not None and installed > running,
        late_load=os.access(root / RELOAD, os.W_OK),
    )


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    module.exit_json(changed=False, **asdict(inspect(Path(module.params["root"]))))


if __name__ == "__main__":
    main()
