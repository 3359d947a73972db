"""One GPU of the document: the bus's view, the tool's readings, the published facts, and how it is."""

from __future__ import annotations

from . import devices, kfd
from .host import Host
from .pci import DEVICES, PciDevice
from .reading import Fault, Json, VendorReadings

_READINGS = (
    "temperature_c",
    "memory_temperature_c",
    "slowdown_temperature_c",
    "utilization_percent",
    "memory_used_mib",
    "power_w",
    "power_limit_w",
    "ecc_corrected",
    "ecc_uncorrected",
    "retirement_pending",
    "row_remap_pending",
    "row_remap_failed",
    "reset_required",
    "xgmi_error",
)
# Readings that say that a GPU is not well: kind, and the sentence.
_BAD_WHEN_TRUE = {
    "row_remap_failed": ("row_remap_failed", "a row of its memory could not be remapped: the card must be replaced"),
    "reset_required": ("reset_needed", "the driver asks for a reset of it"),
    "row_remap_pending": ("reset_needed", "a remapped row waits for a reset"),
    "retirement_pending": ("reset_needed", "a retired page waits for a reset"),
}


def entry(host: Host, device: PciDevice, readings: VendorReadings, node: kfd.Node | None) -> Json:
    """The GPU's object; every value that nobody gave is None."""
    base = f"{DEVICES}/{device.address}"
    tool = readings.gpus.get(device.address, {})
    known = {name: tool.get(name) for name in _READINGS}
    if device.vendor == "amd":
        known.update(_amd_sysfs(host, base, known))
    memory = tool.get("memory_total_mib") or _vram_mib(host, base)
    facts = devices.specification(device.vendor, device.pci_id, tool.get("name"), memory)
    return {
        "pci_address": device.address,
        "vendor": device.vendor,
        "pci_id": device.pci_id,
        "class": device.class_code,
        "kernel_driver": device.driver,
        "index": tool.get("index"),
        "uuid": tool.get("uuid"),
        "name": tool.get("name") or facts["model"],
        "architecture": tool.get("architecture") or (node.gfx if node else None) or facts["architecture"],
        "generation": tool.get("generation"),
        "compute_units": tool.get("compute_units") or (node.compute_units if node else None) or facts["compute_units"],
        "memory_total_mib": memory,
        "facts": facts,
        "pcie": device.pcie,
        "largest_bar_mib": device.largest_bar_mib,
        "links": tool.get("links") or (node.links if node else None),
        "numa_node": device.numa_node,
        "iommu_group_type": device.iommu_group_type,
        "power_state": device.power_state,
        "mig_enabled": tool.get("mig_enabled"),
        "mig_devices": tool.get("mig_devices") or [],
        "partition_functions": tool.get("partition_functions") or [],
        "readings": known,
        "health": _health(device, known, tool, readings),
    }


def _vram_mib(host: Host, base: str) -> int | None:
    """amdgpu tells the memory size without any tool."""
    size = host.integer(f"{base}/mem_info_vram_total")
    return None if size is None else size // 2**20


def _amd_sysfs(host: Host, base: str, known: Json) -> Json:
    """RAS counters of all blocks, as amdgpu has them in sysfs, for what the tools did not tell."""
    totals: dict[str, int] = {}
    for name in host.names(f"{base}/ras"):
        if name.endswith("_err_count"):
            for line in (host.read(f"{base}/ras/{name}") or "").splitlines():
                kind, _, value = line.partition(":")
                if value.strip().isdigit():
                    totals[kind] = totals.get(kind, 0) + int(value)
    return {
        name: known[name] if known[name] is not None else totals.get(kind)
        for name, kind in (("ecc_uncorrected", "ue"), ("ecc_corrected", "ce"))
    }


def _health(device: PciDevice, known: Json, tool: Json, readings: VendorReadings) -> Json:
    """`ok`, `faulty`, or `unknown` when no collector read this GPU: silence is not health."""
    faults = [fault for fault in readings.faults if fault.pci_address == device.address]
    faults += [
        Fault(device.address, kind, message, "driver")
        for name, (kind, message) in _BAD_WHEN_TRUE.items()
        if known[name]
    ]
    if known["ecc_uncorrected"]:
        message = f"{known['ecc_uncorrected']} uncorrectable memory errors since the driver was loaded"
        faults.append(Fault(device.address, "ecc_uncorrected", message, "driver"))
    awake = device.power_state != "suspended"  # a sleeping Radeon is left out by some releases of amd-smi
    if readings.gpus and not tool and not faults and awake and device.driver in ("nvidia", "amdgpu"):
        message = "the kernel has it with its driver, and the vendor's tool lists only others"
        faults.append(Fault(device.address, "missing", message, "vendor tool"))
    state = "faulty" if faults else "ok" if any(value is not None for value in tool.values()) else "unknown"
    return {
        "state": state,
        "faults": [{"kind": fault.kind, "message": fault.message, "source": fault.source} for fault in faults],
    }
