"""`nvidia-smi --query-gpu=… --format=csv`, read by the names in its header.

The header repeats the fields that were asked for, some with a unit: `power.draw [W]`.
"""

from __future__ import annotations

import csv

from . import cells
from .reading import Fault, Json, ReadingError, pci_address

# Fields that every driver since 450 knows; an older one names the field that it refuses.
FIELDS = (
    "index",
    "uuid",
    "name",
    "driver_version",
    "pci.bus_id",
    "temperature.gpu",
    "temperature.memory",
    "utilization.gpu",
    "memory.total",
    "memory.used",
    "power.draw",
    "power.limit",
    "mig.mode.current",
    "ecc.errors.corrected.volatile.total",
    "ecc.errors.uncorrected.volatile.total",
    "remapped_rows.pending",
    "remapped_rows.failure",
)
SOURCE = "nvidia-smi csv"


def rows(output: str) -> list[dict[str, str]]:
    """One dictionary per GPU, units cut from its keys.

    Raises ReadingError when there is no header, or when a row has another number of cells than the header.
    """
    lines = output.splitlines()
    start = next((number for number, line in enumerate(lines) if line.split(",")[0].strip() == FIELDS[0]), None)
    if start is None:
        raise ReadingError(
            f"nvidia-smi printed no header: expected a line that begins with '{FIELDS[0]},'",
            "Run `nvidia-smi --query-gpu=index --format=csv` by hand.",
            failure="mismatch",
        )
    header, *body = csv.reader(lines[start:], skipinitialspace=True)
    names = [name.split(" [")[0].strip() for name in header]
    found = []
    for row in body:
        if not row:
            continue
        if len(row) != len(names):
            raise ReadingError(
                f"nvidia-smi printed {len(row)} cells under a header of {len(names)}: expected the same number",
                "Report the driver's version and the output of `nvidia-smi --query-gpu=…`.",
                failure="mismatch",
            )
        found.append({name: row[position].strip() for position, name in enumerate(names)})
    return found


def check_header(row: dict[str, str], asked: list[str]) -> None:
    """Raise ReadingError when the header has other names than those asked for."""
    if list(row) != asked:
        different = sorted(set(row) ^ set(asked)) or ["their order"]
        raise ReadingError(
            f"nvidia-smi's header differs from what was asked for: {', '.join(different)}",
            "Report the driver's version and the header.",
            failure="mismatch",
        )


def refused_field(output: str) -> str | None:
    """The field that this driver does not know, from `Field "x" is not a valid field to query.`."""
    _, quote, rest = output.partition('Field "')
    return rest.partition('"')[0] if quote and "is not a valid field" in rest else None


def reading(row: dict[str, str]) -> Json:
    """A row in the words of the document; what the driver does not have is None."""
    get = row.get
    return {
        "index": cells.integer(get("index")),
        "uuid": cells.text(get("uuid")),
        "name": cells.text(get("name")),
        "temperature_c": cells.celsius(get("temperature.gpu")),
        "memory_temperature_c": cells.celsius(get("temperature.memory")),
        "utilization_percent": cells.number(get("utilization.gpu")),
        "memory_total_mib": cells.integer(get("memory.total")),
        "memory_used_mib": cells.integer(get("memory.used")),
        "power_w": cells.number(get("power.draw")),
        "power_limit_w": cells.number(get("power.limit")),
        "mig_enabled": cells.flag(get("mig.mode.current")),
        "ecc_corrected": cells.integer(get("ecc.errors.corrected.volatile.total")),
        "ecc_uncorrected": cells.integer(get("ecc.errors.uncorrected.volatile.total")),
        "row_remap_pending": cells.flag(get("remapped_rows.pending")),
        "row_remap_failed": cells.flag(get("remapped_rows.failure")),
    }


def fault(row: dict[str, str]) -> Fault | None:
    """`[GPU is lost]` in any cell; the address is None when that cell is lost as well."""
    for kind, words in (("lost", cells.LOST), ("reset_needed", cells.RESET_NEEDED)):
        if any(words in cell for cell in row.values()):
            return Fault(address(row), kind, f"nvidia-smi prints '{words}' for GPU {row['index']}", SOURCE)
    return None


def address(row: dict[str, str]) -> str | None:
    """The row's PCI address, or None where the cell is unavailable."""
    bus_id = cells.text(row.get("pci.bus_id"))
    return pci_address(bus_id) if bus_id else None
