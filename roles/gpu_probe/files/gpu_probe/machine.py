"""What holds the GPUs: CPU, memory, NVMe drives, power supplies, firmware."""

from __future__ import annotations

import re

from .host import Host
from .reading import Json

SECTOR_BYTES = 512  # of /sys/block/*/size, whatever the drive's own sector is


def cpu(host: Host) -> Json:
    """Physical cores count once, however many threads they run; None where /proc/cpuinfo names none (a container)."""
    blocks = [_fields(block) for block in (host.read("/proc/cpuinfo") or "").split("\n\n") if block.strip()]
    cores = {(block["physical id"], block["core id"]) for block in blocks if {"physical id", "core id"} <= set(block)}
    first = blocks[0] if blocks else {}
    return {
        "vendor": first.get("vendor_id"),
        "model": first.get("model name"),
        "sockets": len({socket for socket, _ in cores}) or None,
        "cores": len(cores) or None,
        "threads": len(blocks) or None,
        "microcode": first.get("microcode"),
    }


def _fields(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def memory_mib(host: Host) -> int | None:
    """What the kernel has to give; some 1 to 3 % of the installed memory is its own and the firmware's."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", host.read("/proc/meminfo") or "", re.MULTILINE)
    return int(match.group(1)) // 1024 if match else None


def nvme(host: Host) -> list[Json]:
    """NVMe namespaces with their size in bytes."""
    found = []
    for name in host.names("/sys/block"):
        if re.fullmatch(r"nvme\d+n\d+", name):
            sectors = host.integer(f"/sys/block/{name}/size")
            model = host.read(f"/sys/block/{name}/device/model")
            size = None if sectors is None else sectors * SECTOR_BYTES
            found.append({"name": name, "model": model, "bytes": size})
    return found


def firmware(host: Host) -> Json:
    """BIOS and board, from DMI."""
    names = ("sys_vendor", "product_name", "board_name", "bios_vendor", "bios_version", "bios_date")
    return {name: host.read(f"/sys/class/dmi/id/{name}") for name in names}


def power_supplies(host: Host) -> list[Json]:
    """Power supplies and their capacity in W, from `dmidecode -t 39` (root); empty where the board tells nothing."""
    run = host.run("dmidecode", "-t", "39")
    found = []
    for block in run.stdout.split("\n\n"):
        if "System Power Supply" in block:
            capacity = re.search(r"Max Power Capacity: (\d+) W", block)
            name = re.search(r"^\s*Name: (.+)$", block, re.MULTILINE)
            watts = int(capacity.group(1)) if capacity else None
            found.append({"name": name.group(1).strip() if name else None, "watts": watts})
    return found
