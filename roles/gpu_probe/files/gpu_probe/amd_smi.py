"""amd-smi's JSON: a bare list in ROCm 6, `gpu_data` since 7, and a value as number, text or {value, unit}."""

from __future__ import annotations

from typing import Any

from . import cells
from .reading import Json, ReadingError, pci_address

SOURCE_STATIC = "amd-smi static"
SOURCE_METRIC = "amd-smi metric"
# amd-smi says MB and GB for powers of two.
_MIB = {"B": 1 / 2**20, "KB": 1 / 2**10, "MB": 1.0, "GB": 2.0**10}


def entries(document: Any) -> list[Json]:
    """The entry of each GPU. Raises ReadingError for a shape without any.

    A list of entries, a dictionary that holds such a list under whatever name (`gpu_data` in ROCm 7), or a
    dictionary of entries; an entry is what has a "gpu".
    """
    if isinstance(document, dict) and "gpu" in document:
        return [document]
    candidates = [document, *document.values(), list(document.values())] if isinstance(document, dict) else [document]
    for candidate in candidates:
        if not isinstance(candidate, list):
            continue
        found = [entry for entry in candidate if isinstance(entry, dict) and "gpu" in entry]
        if found:
            return found
    raise ReadingError(
        "amd-smi's JSON holds no GPU: expected a list of entries with 'gpu', or one under 'gpu_data'",
        "Report `amd-smi version` and the output.",
        failure="mismatch",
    )


def dig(entry: Any, *keys: str) -> Any:
    """The value at a path, or None: a whole section can be missing or the text "N/A"."""
    for key in keys:
        if not isinstance(entry, dict):
            return None
        entry = entry.get(key)
    return entry


def quantity(value: Any) -> float | None:
    """The number of 45, "45", "45 W" or {"value": 45, "unit": "W"}; None when unavailable.

    Raises ReadingError for any other shape.
    """
    if isinstance(value, dict) and "value" in value:
        value = value["value"]
    if value is None or isinstance(value, str):
        return cells.number(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise ReadingError(
        f"amd-smi gave {value!r}: expected a number, or an object with 'value'",
        "Report `amd-smi version` and the output.",
        failure="mismatch",
    )


def mebibytes(value: Any) -> int | None:
    """A memory size in MiB, from whatever unit it comes in (without one: MB)."""
    amount = quantity(value)
    if amount is None:
        return None
    unit = value.get("unit", "MB") if isinstance(value, dict) else "MB"
    if unit not in _MIB:
        raise ReadingError(
            f"amd-smi gave a memory size in '{unit}': expected one of {', '.join(_MIB)}",
            "Report `amd-smi version`.",
            failure="mismatch",
        )
    return int(amount * _MIB[unit])


def count(value: Any) -> int | None:
    """As `quantity`, for counters."""
    amount = quantity(value)
    return None if amount is None else int(amount)


def address(entry: Json) -> str | None:
    """The PCI address in an entry of `static` or `list`, or None."""
    text = dig(entry, "bus", "bdf") or dig(entry, "bdf")
    return pci_address(text) if isinstance(text, str) and not cells.is_unavailable(text) else None


def static_reading(entry: Json) -> Json:
    """What does not change: names, architecture, memory, driver."""
    name = dig(entry, "asic", "market_name")
    architecture = dig(entry, "asic", "target_graphics_version")
    driver = dig(entry, "driver", "version")
    return {
        "index": entry["gpu"],
        "name": cells.text(name),
        "architecture": cells.text(architecture),
        "compute_units": count(dig(entry, "asic", "num_compute_units")),
        "memory_total_mib": mebibytes(dig(entry, "vram", "size")),
        "slowdown_temperature_c": _of_the_hottest(entry, "limit", "slowdown_{}_temperature"),
        "driver_version": cells.text(driver),
    }


def metric_reading(entry: Json) -> Json:
    """What changes."""
    return {
        "index": entry["gpu"],
        "temperature_c": _of_the_hottest(entry, "temperature", "{}"),
        "memory_temperature_c": _plausible(quantity(dig(entry, "temperature", "mem"))),
        "utilization_percent": quantity(dig(entry, "usage", "gfx_activity")),
        "memory_total_mib": mebibytes(dig(entry, "mem_usage", "total_vram")),
        "memory_used_mib": mebibytes(dig(entry, "mem_usage", "used_vram")),
        "power_w": quantity(dig(entry, "power", "socket_power")),
        "ecc_corrected": count(dig(entry, "ecc", "total_correctable_count")),
        "ecc_uncorrected": count(dig(entry, "ecc", "total_uncorrectable_count")),
        "xgmi_error": cells.text(str(value)) if (value := dig(entry, "xgmi_err")) is not None else None,
    }


def _of_the_hottest(entry: Json, section: str, name: str) -> float | None:
    """A temperature of the hotspot, which throttles a card (Instinct cards have no other sensor), else of the edge."""
    found = (_plausible(quantity(dig(entry, section, name.format(sensor)))) for sensor in ("hotspot", "edge"))
    return next((celsius for celsius in found if celsius is not None), None)


def _plausible(celsius: float | None) -> float | None:
    return None if celsius is None or celsius > cells.HIGHEST_PLAUSIBLE_CELSIUS else celsius
