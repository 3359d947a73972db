"""Published facts of GPU models: `devices.csv`, one row per model, with the source of its numbers."""

from __future__ import annotations

import csv
import pkgutil
from functools import lru_cache

from .reading import Json

# Tools report 0 to 7 % less than the data sheet (ECC, firmware); another model under a shared PCI id differs by more.
MEMORY_TOLERANCE = 0.12


@lru_cache(maxsize=1)
def rows() -> tuple[dict[str, str], ...]:
    """The table, read from the package so that it works from a zip file."""
    content = pkgutil.get_data(__package__, "devices.csv")
    if content is None:
        raise FileNotFoundError("devices.csv is missing from the package")
    return tuple(csv.DictReader(content.decode().splitlines()))


def specification(vendor: str, pci_id: str, name: str | None, memory_mib: int | None) -> Json:
    """Facts of one device (one of the two on an MI250): bandwidth GB/s, fp16 dense TFLOPS, units, interconnect.

    Found by PCI id, and by the tool's exact name where the table has no id. Numbers are None, and `note` says why,
    when there is no row, or when the memory that the tool reports shows another model under the same id.
    """
    row = next((row for row in rows() if row["pci_id"] == pci_id), None) or _by_name(vendor, name)
    if row is None:
        return _empty(f"no published facts for {pci_id}")
    boards = int(row["devices_per_board"])
    memory_gb = float(row["memory_gb"]) / boards
    if memory_mib is not None and abs(memory_mib / 1024 - memory_gb) > MEMORY_TOLERANCE * memory_gb:
        measured = f"{memory_mib / 1024:.0f} GiB"
        return _empty(f"{pci_id} is listed as {row['model']} with {memory_gb:g} GB, and this one has {measured}")
    units = _number(row["compute_units"], boards)
    return {
        "model": row["model"],
        "architecture": row["arch"],
        "memory_gb": memory_gb,
        "memory_bandwidth_gbs": _number(row["memory_bandwidth_gbs"], boards),
        "fp16_dense_tflops": _number(row["fp16_dense_tflops"], boards),
        "compute_units": None if units is None else int(units),
        "matrix_units": row["matrix_units"],
        "interconnect": row["interconnect"] or None,
        "board_power_w": _number(row["tdp_w"], boards),
        "source": row["source"],
        "note": row["notes"] or None,
    }


def _by_name(vendor: str, name: str | None) -> dict[str, str] | None:
    wanted = _plain(name)
    unnumbered = [row for row in rows() if row["vendor"] == vendor and not row["pci_id"]]
    return next((row for row in unnumbered if wanted and _plain(row["model"]) == wanted), None)


def _plain(name: str | None) -> str:
    words = (name or "").lower().split()
    return " ".join(word for word in words if word not in ("nvidia", "amd"))


def _number(cell: str, share: int) -> float | None:
    return float(cell) / share if cell else None


def _empty(note: str) -> Json:
    keys = (
        "model",
        "architecture",
        "memory_gb",
        "memory_bandwidth_gbs",
        "fp16_dense_tflops",
        "compute_units",
        "matrix_units",
        "interconnect",
        "board_power_w",
        "source",
    )
    return {**dict.fromkeys(keys), "note": note}
