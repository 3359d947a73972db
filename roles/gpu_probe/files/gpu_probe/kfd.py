"""The topology of AMD's compute driver: /sys/class/kfd/kfd/topology/nodes (include/uapi/linux/kfd_sysfs.h)."""

from __future__ import annotations

from dataclasses import dataclass

from .host import Host
from .reading import Json

NODES = "/sys/class/kfd/kfd/topology/nodes"
LINK_XGMI = "11"  # HSA_IOLINKTYPE_XGMI


@dataclass(frozen=True)
class Node:
    """A GPU node: its PCI address, its architecture, its compute units, its XGMI links."""

    number: int
    pci_address: str
    gfx: str | None
    compute_units: int | None
    links: Json | None


def gpu_nodes(host: Host) -> list[Node]:
    """The GPUs among the nodes; CPUs have no SIMDs."""
    found = []
    for name in sorted(host.names(NODES), key=lambda text: int(text) if text.isdigit() else -1):
        properties = _properties(host, f"{NODES}/{name}/properties")
        if properties.get("simd_count", "0") == "0":
            continue
        per_unit = int(properties.get("simd_per_cu", "0"))
        found.append(
            Node(
                number=int(name),
                pci_address=_address(int(properties.get("domain", "0")), int(properties.get("location_id", "0"))),
                gfx=gfx_name(int(properties.get("gfx_target_version", "0"))),
                compute_units=int(properties["simd_count"]) // per_unit if per_unit else None,
                links=_links(host, name),
            )
        )
    return found


def _properties(host: Host, path: str) -> dict[str, str]:
    lines = (line.split() for line in (host.read(path) or "").splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2}


def _address(domain: int, location: int) -> str:
    """location_id is bus << 8 | device << 3 | function."""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 0x7}"


def gfx_name(version: int) -> str | None:
    """90402 → gfx942, 90010 → gfx90a: major, minor and stepping in pairs of digits, the last two in hex."""
    if not version:
        return None
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _links(host: Host, node: str) -> Json | None:
    """XGMI links to other GPUs; None where there is none (one card, or PCIe only)."""
    base = f"{NODES}/{node}/io_links"
    types = [_properties(host, f"{base}/{name}/properties").get("type") for name in host.names(base)]
    count = types.count(LINK_XGMI)
    return {"kind": "xgmi", "active": count, "inactive": None, "rate_gbs": None} if count else None
