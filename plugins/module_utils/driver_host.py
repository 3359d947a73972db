"""What tools and files of a host say about its kernels: Secure Boot, DKMS, modules, initramfs images.

Pure and standard library only; shared with the role rocm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# Bridge and device class of an NVSwitch; its vendor is NVIDIA's.
NVSWITCH_CLASS = "0x068000"
NVIDIA_VENDOR = "0x10de"


@dataclass(frozen=True)
class DkmsEntry:
    """One line of `dkms status`; the kernel is None for sources that were added and built for none."""

    module: str
    version: str
    kernel: str | None
    state: str


def secure_boot_state(output: str) -> str:
    """Of `mokutil --sb-state`: enabled, disabled, unsupported, or unknown for words that nobody knows.

    Shim can stop validating while the firmware goes on: then no key is asked for.
    """
    if "validation is disabled in shim" in output:
        return "disabled"
    for words, state in (
        ("SecureBoot enabled", "enabled"),
        ("SecureBoot disabled", "disabled"),
        ("EFI variables are not supported", "unsupported"),
        ("doesn't support Secure Boot", "unsupported"),
    ):
        if words in output:
            return state
    return "unknown"


def key_enrolled(output: str) -> bool | None:
    """Of `mokutil --test-key FILE`, whose exit status differs between releases; None where it does not tell."""
    if "is not enrolled" in output:
        return False
    if "already enrolled" in output or "is enrolled" in output:
        return True
    return None


def dkms_entries(output: str) -> list[DkmsEntry]:
    """`dkms status` of DKMS 2 (`nvidia, 470.1, 5.4…, x86_64: installed`) and 3 (`nvidia/470.1, 5.4…`)."""
    found = []
    for line in output.splitlines():
        match = re.match(r"([^,/\s]+)(?:/|,\s*)([^,:\s]+)(?:,\s*([^,\s]+))?(?:,\s*[^,:\s]+)?:\s*(\w+)", line)
        if match:
            found.append(DkmsEntry(*match.groups()))
    return found


def nouveau_modules(names: Iterable[str]) -> list[str]:
    """nouveau's module files in an initramfs listing, compressed or not; its firmware and our own file are none."""
    return [name for name in names if re.search(r"/nouveau\.ko(\.\w+)?$", name)]


def holds(names: Iterable[str], path: str) -> bool:
    """Whether a listing has a file; dracut and initramfs-tools differ in the slash before it."""
    wanted = path.lstrip("/")
    return any(name.lstrip("./") == wanted or name.endswith(f" {wanted}") for name in names)
