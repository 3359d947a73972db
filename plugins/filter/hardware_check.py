"""Ansible filters: a probe's document held against what bimetal publishes as its hardware requirements.

Pure: the document and the limits in, checks out. Nothing is read from the host here, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

Json = Mapping[str, Any]

OK, WARN, FAIL = "ok", "warn", "fail"
_ORDER = (OK, WARN, FAIL)
GIB_PER_MIB = 1 / 1024
# What firmware maps when it may not go above 4 GiB.
SMALL_BAR_MIB = 256
_UNKNOWN = "unknown"


class Check(TypedDict):
    """`remedy` is empty for ok."""

    check: str
    status: str
    measured: str
    expected: str
    remedy: str


class Limits(TypedDict):
    """The role's variables, without their prefix."""

    vendor: str
    min_cpu_cores: int
    memory_ratio: float
    memory_tolerance: float
    min_nvme_gb: float
    min_network_gbps: float
    base_power_w: float
    power_headroom: float
    accepted: list[str]


def checks(document: Json, limits: Limits) -> list[Check]:
    """Every check of the list, in its order. An accepted check that fails is a warning."""
    hardware, network = document["hardware"], document["network"]
    found = [
        gpu_check(hardware["gpus"], limits["vendor"]),
        cpu_check(hardware["cpu"], limits),
        memory_check(hardware, limits),
        nvme_check(hardware["nvme"], limits),
        network_check(network["interfaces"], limits),
        power_check(hardware, limits),
        firmware_check(hardware),
    ]
    for check in found:
        if check["status"] == FAIL and check["check"] in limits["accepted"]:
            check["status"] = WARN
            check["remedy"] = f"Accepted by hardware_check_accepted. {check['remedy']}"
    return found


def as_findings(found: list[Check]) -> list[dict[str, str]]:
    """The checks in the shape of the probe's findings, for a report of both."""
    return [
        {
            "layer": "requirements",
            "check": entry["check"],
            "status": entry["status"],
            "subject": "host",
            "message": f"found {entry['measured']}, expected {entry['expected']}",
            "next_step": entry["remedy"],
        }
        for entry in found
    ]


def worst(found: list[Json]) -> str:
    """The worst status of checks or of the probe's findings: ok, warn or fail."""
    return max((entry["status"] for entry in found), key=_ORDER.index, default=OK)


def _check(name: str, status: str, measured: str, expected: str, remedy: str) -> Check:
    return Check(check=name, status=status, measured=measured, expected=expected, remedy="" if status == OK else remedy)


def gpu_check(gpus: list[Json], vendor: str) -> Check:
    """A GPU of the vendor that the inventory gives the host; with no vendor, any number of GPUs will do."""
    names = [f"{gpu['vendor']} {gpu['name'] or gpu['pci_id']}" for gpu in gpus]
    status = OK if not vendor or any(gpu["vendor"] == vendor for gpu in gpus) else FAIL
    remedy = "Look at `lspci -nn`: seat the card, enable its slot in the firmware, or move the host to another group."
    return _check("gpu", status, ", ".join(names) or "none", f"a GPU of {vendor}" if vendor else "any", remedy)


def cpu_check(cpu: Json, limits: Limits) -> Check:
    """Physical cores of all sockets."""
    cores, wanted = cpu["cores"], limits["min_cpu_cores"]
    status = WARN if cores is None else OK if cores >= wanted else FAIL
    remedy = "Use a CPU with more cores, or enable those that the firmware turned off (CCD/core control)."
    return _check("cpu", status, _amount(cores, "cores"), f"at least {wanted} cores", remedy)


def memory_check(hardware: Json, limits: Limits) -> Check:
    """Main memory against the memory of all GPUs; what the kernel keeps for itself is forgiven."""
    per_gpu: list[float] = []
    for gpu in hardware["gpus"]:
        size = gpu["memory_total_mib"] or _published_mib(gpu)
        per_gpu += [] if size is None else [size]
    memory = hardware["memory_mib"]
    if memory is None or len(per_gpu) < len(hardware["gpus"]):
        expected = f"{limits['memory_ratio']:g} x the GPUs' memory"
        remedy = "Run the check again when the driver is installed: the GPUs' memory is not known yet."
        return _check("memory", WARN, _amount(memory and memory * GIB_PER_MIB, "GiB"), expected, remedy)
    wanted = limits["memory_ratio"] * sum(per_gpu)
    status = OK if memory >= wanted * (1 - limits["memory_tolerance"]) else FAIL
    expected = f"at least {wanted * GIB_PER_MIB:.0f} GiB ({limits['memory_ratio']:g} x the GPUs' memory)"
    remedy = "Add memory: models are loaded through it, and pinned buffers of every GPU stay in it."
    return _check("memory", status, _amount(memory * GIB_PER_MIB, "GiB"), expected, remedy)


def _published_mib(gpu: Json) -> float | None:
    """Without a driver no tool tells the size, and the PCI id does."""
    published = gpu["facts"]["memory_gb"]
    return None if published is None else published * 1024


def nvme_check(drives: list[Json], limits: Limits) -> Check:
    """All NVMe drives together, in GB as drives are sold."""
    size = sum(drive["bytes"] or 0 for drive in drives) / 1e9
    wanted = limits["min_nvme_gb"]
    remedy = "Add an NVMe drive: model repositories and images are read at start, a SATA disk takes minutes longer."
    return _check("nvme", OK if size >= wanted else FAIL, f"{size:.0f} GB", f"at least {wanted:g} GB", remedy)


def network_check(interfaces: list[Json], limits: Limits) -> Check:
    """The fastest interface with a link. A virtual one tells no speed: unknown, and not too slow."""
    up = [interface for interface in interfaces if interface["state"] == "up"]
    speeds = [interface["speed_mbps"] / 1000 for interface in up if interface["speed_mbps"]]
    wanted = limits["min_network_gbps"]
    fastest = max(speeds, default=None)
    too_slow = FAIL if len(speeds) == len(up) else WARN
    status = OK if fastest is not None and fastest >= wanted else too_slow
    remedy = "Connect a faster port; `ethtool IF` shows what both ends offer. Tensors of requests go over it."
    measured = _amount(fastest, "Gbit/s") if up else "no link"
    return _check("network", status, measured, f"at least {wanted:g} Gbit/s", remedy)


def power_check(hardware: Json, limits: Limits) -> Check:
    """What the supplies can give against what the boards may draw; a note for a person, never a failure.

    With redundant supplies half of the sum must suffice, and DMI does not tell whether they are redundant.
    """
    draws = [gpu["readings"]["power_limit_w"] or gpu["facts"]["board_power_w"] for gpu in hardware["gpus"]]
    supplies = [supply["watts"] for supply in hardware["power_supplies"] if supply["watts"]]
    remedy = "Check the supplies by hand: the sum without the redundant ones must exceed the load."
    if None in draws:
        return _check("power", WARN, _amount(sum(supplies) or None, "W"), _UNKNOWN, remedy)
    wanted = (limits["base_power_w"] + sum(draws)) * limits["power_headroom"]
    status = OK if sum(supplies) >= wanted else WARN
    return _check("power", status, _amount(sum(supplies) or None, "W"), f"at least {wanted:.0f} W", remedy)


def firmware_check(hardware: Json) -> Check:
    """Address windows: with 256 MiB the firmware maps nothing above 4 GiB, and peers cannot reach the memory."""
    small = [
        gpu["pci_address"]
        for gpu in hardware["gpus"]
        if gpu["largest_bar_mib"] is not None and gpu["largest_bar_mib"] <= SMALL_BAR_MIB
    ]
    firmware = hardware["firmware"]
    version = " ".join(firmware[name] or "?" for name in ("bios_vendor", "bios_version", "bios_date"))
    measured = f"{version}; small windows: {', '.join(small) or 'none'}"
    remedy = "Enable Above 4G Decoding and Resizable BAR in the firmware. A T4 and some GeForce cards have no more."
    return _check("firmware", WARN if small else OK, measured, "address windows above 256 MiB", remedy)


def _amount(value: float | None, unit: str) -> str:
    return _UNKNOWN if value is None else f"{value:.0f} {unit}"


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """`document | hardware_check(limits)`; of its result `hardware_check_worst`, `hardware_check_findings`."""
        return {
            "hardware_check": checks,
            "hardware_check_worst": worst,
            "hardware_check_findings": as_findings,
        }
