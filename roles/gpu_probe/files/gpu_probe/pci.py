"""GPUs on the PCI bus, from sysfs: by vendor id and class, never by a name.

A name misleads both ways: "VGA compatible controller" is a GPU's too, and an SSD can be called "Ultra 3D".
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from .host import Host
from .reading import Json

DEVICES = "/sys/bus/pci/devices"
VENDORS = {"10de": "nvidia", "1002": "amd"}
# VGA, 3D, other display controller; processing accelerator (Instinct MI300 and later). PCI Code and ID Assignment.
GPU_CLASSES = ("0300", "0302", "0380", "1200")
BRIDGE_CLASS = "0604"
# PCI Express base specification: GT/s of each generation.
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
WIDEST_LINK = 32


@dataclass(frozen=True)
class PciDevice:
    """A GPU as the kernel sees it. Unknown is None."""

    address: str
    vendor: str
    pci_id: str
    class_code: str
    driver: str | None
    numa_node: int | None
    pcie: Json
    largest_bar_mib: int | None
    iommu_group_type: str | None
    power_state: str | None


def gpus(host: Host) -> list[PciDevice]:
    """Every NVIDIA and AMD GPU, by address. Virtual functions are left out where their physical one is there."""
    found = []
    for address in host.names(DEVICES):
        base = f"{DEVICES}/{address}"
        vendor = VENDORS.get(_hex(host, f"{base}/vendor"))
        if vendor is None or _class(host, base) not in GPU_CLASSES or host.exists(f"{base}/physfn"):
            continue
        found.append(
            PciDevice(
                address=address,
                vendor=vendor,
                pci_id=f"{_hex(host, f'{base}/vendor')}:{_hex(host, f'{base}/device')}",
                class_code=_class(host, base),
                driver=host.link_name(f"{base}/driver"),
                numa_node=numa_node(host, base),
                pcie=link(host, address),
                largest_bar_mib=_largest_bar_mib(host, base),
                iommu_group_type=host.read(f"{base}/iommu_group/type"),
                power_state=host.read(f"{base}/power/runtime_status"),
            )
        )
    return found


def numa_node(host: Host, base: str) -> int | None:
    """The node of a device; -1, which firmware without the table gives, is None."""
    node = host.integer(f"{base}/numa_node")
    return None if node is None or node < 0 else node


def _hex(host: Host, path: str) -> str:
    return (host.read(path) or "").lower().removeprefix("0x")


def _class(host: Host, base: str) -> str:
    """Base class and subclass, four digits; the programming interface is cut."""
    return _hex(host, f"{base}/class").zfill(6)[:4]


def link(host: Host, address: str) -> Json:
    """PCIe generation and width of the slot's link: negotiated, and possible for both of its ends.

    AMD cards of several families carry a switch: the GPU's own link to it always trains fully, so the slot's link
    is that of the card's outermost bridge. A generation below the possible one is normal for an idle GPU.
    """
    chain = _upstream(host, address)
    inner = 1
    while inner < len(chain) and _is_card_bridge(host, chain[inner]):
        inner += 1
    slot, port = chain[inner - 1], chain[inner] if inner < len(chain) else None
    negotiated = _ends(host, [slot], "current")
    possible = _ends(host, [slot, port] if port else [slot], "max")
    width, widest = negotiated["width"], possible["width"]
    return {
        "negotiated": negotiated,
        "possible": possible,
        "width_reduced": None if width is None or widest is None else width < widest,
    }


def _upstream(host: Host, address: str) -> list[str]:
    """sysfs directories from the device up to its root port."""
    real = os.path.realpath(host.path(f"{DEVICES}/{address}"))
    addresses = [part for part in real.split(os.sep) if re.fullmatch(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.\d", part)]
    return [f"{DEVICES}/{part}" for part in reversed(addresses)] or [f"{DEVICES}/{address}"]


def _is_card_bridge(host: Host, base: str) -> bool:
    """A bridge with AMD's graphics vendor id is on the card; the mainboard's have 1022."""
    return _hex(host, f"{base}/vendor") == "1002" and _class(host, base) == BRIDGE_CLASS


def _ends(host: Host, ends: list[str], which: str) -> Json:
    generations = [_generation(host.read(f"{end}/{which}_link_speed")) for end in ends]
    widths = [_width(host.integer(f"{end}/{which}_link_width")) for end in ends]
    return {
        "generation": min((value for value in generations if value is not None), default=None),
        "width": min((value for value in widths if value is not None), default=None),
    }


def _generation(speed: str | None) -> int | None:
    """`16.0 GT/s PCIe` → 4; `Unknown` → None."""
    match = re.match(r"([\d.]+) GT/s", speed or "")
    return GENERATIONS.get(float(match.group(1))) if match else None


def _width(lanes: int | None) -> int | None:
    """0 and 255 mean that there is no link to speak of (a virtual machine, a fabric)."""
    return lanes if lanes and lanes <= WIDEST_LINK else None


def _largest_bar_mib(host: Host, base: str) -> int | None:
    """The largest address window. 256 MiB where the firmware cannot map more (Above 4G decoding off)."""
    sizes = []
    for line in (host.read(f"{base}/resource") or "").splitlines():
        start, end, _flags = (int(word, 16) for word in line.split())
        if end > start:
            sizes.append((end - start + 1) // 2**20)
    return max(sizes, default=None)
