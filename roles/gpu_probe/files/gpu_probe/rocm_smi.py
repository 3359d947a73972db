"""rocm-smi's JSON: `cardN` objects of texts under long English keys, some of which differ by release."""

from __future__ import annotations

from typing import Any

from . import cells
from .reading import Json, ReadingError, pci_address

SOURCE = "rocm-smi"
ARGUMENTS = (
    "--showid",
    "--showbus",
    "--showproductname",
    "--showtemp",
    "--showuse",
    "--showpower",
    "--showmaxpower",
    "--showmeminfo",
    "vram",
    "--showdriverversion",
    "--json",
)
_NEXT_STEP = "Report `rocm-smi --version` and its output."
# The same value under the names of several releases, the present one first.
_POWER = ("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)")
_TEMPERATURE = ("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")
_NAME = ("Card Series", "Card series", "Card model")


def cards(document: Any) -> list[Json]:
    """The objects of the cards. Raises ReadingError when there is none."""
    found = [card for key, card in document.items() if key.startswith("card")] if isinstance(document, dict) else []
    if not found:
        raise ReadingError("rocm-smi's JSON holds no card: expected 'card0'", _NEXT_STEP, failure="mismatch")
    return found


def driver_version(document: Any) -> str | None:
    """The amdgpu driver's version: of the kernel where it is the kernel's own."""
    system = document.get("system") if isinstance(document, dict) else None
    return cells.text(system.get("Driver version")) if isinstance(system, dict) else None


def address(card: Json) -> str:
    """The card's PCI address. Raises ReadingError without one: cards are not told apart by their order."""
    text = card.get("PCI Bus")
    if not isinstance(text, str):
        raise ReadingError("a card of rocm-smi has no 'PCI Bus'", _NEXT_STEP, failure="mismatch")
    return pci_address(text)


def reading(card: Json) -> Json:
    """A card in the words of the document. A secondary die of an MI250 has no power of its own: None."""
    total, used = (cells.number(card.get(f"VRAM Total {word}(B)")) for word in ("Memory ", "Used Memory "))
    name = cells.text(_first(card, _NAME))
    return {
        # A failed look-up leaves the PCI id in its place.
        "name": None if name and name.startswith("0x") else name,
        "temperature_c": cells.celsius(_first(card, _TEMPERATURE)),
        "memory_temperature_c": cells.celsius(card.get("Temperature (Sensor memory) (C)")),
        "utilization_percent": cells.number(card.get("GPU use (%)")),
        "memory_total_mib": None if total is None else int(total) // 2**20,
        "memory_used_mib": None if used is None else int(used) // 2**20,
        "power_w": cells.number(_first(card, _POWER)),
        "power_limit_w": cells.number(card.get("Max Graphics Package Power (W)")),
    }


def _first(card: Json, keys: tuple[str, ...]) -> str | None:
    """The first key with a value; where all are unavailable, what the last one says."""
    present = [str(card[key]) for key in keys if key in card]
    return next((value for value in present if not cells.is_unavailable(value)), None)
