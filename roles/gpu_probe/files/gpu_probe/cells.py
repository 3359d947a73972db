"""Values as the vendors' tools print them. Unavailable is None, never 0."""

from __future__ import annotations

import re

from .reading import ReadingError

# A GPU in this state has no values, and that itself is the news.
LOST = "GPU is lost"
RESET_NEEDED = "GPU requires reset"
# One user's Radeon read 511 °C, which is a sensor without power; no GPU computes above its 115 °C shutdown.
HIGHEST_PLAUSIBLE_CELSIUS = 150.0

_UNAVAILABLE = ("", "n/a", "not supported", "unknown error", "none", "unknown", "insufficient permissions")
_NUMBER = re.compile(r"^(-?\d+(?:\.\d+)?)\s*(?:[A-Za-z%°/]+)?$")


def is_unavailable(cell: str | None) -> bool:
    """`N/A`, `[N/A]`, `[Not Supported]`, `[Unknown Error]`, `N/A (Secondary die)` and whatever else is in brackets."""
    if cell is None:
        return True
    text = cell.strip()
    return text.startswith(("[", "N/A")) or text.lower() in _UNAVAILABLE or LOST in text or RESET_NEEDED in text


def text(cell: str | None) -> str | None:
    """The cell's text, or None."""
    return None if cell is None or is_unavailable(cell) else cell.strip()


def number(cell: str | None) -> float | None:
    """The number of `41`, `69.85 W` or `16x`; None when unavailable.

    Raises ReadingError for anything else (a decimal comma among it): a guessed number is worse than none.
    """
    if cell is None or is_unavailable(cell):
        return None
    match = _NUMBER.match(cell.strip())
    if match is None:
        raise ReadingError(
            f"'{cell.strip()}' is no number: expected digits with a decimal point and a unit",
            "Report the tool's version and its output.",
            failure="mismatch",
        )
    return float(match.group(1))


def integer(cell: str | None) -> int | None:
    """As `number`, for counts and MiB."""
    value = number(cell)
    return None if value is None else int(value)


def celsius(cell: str | None) -> float | None:
    """As `number`; a value that no GPU survives is unavailable."""
    value = number(cell)
    return None if value is None or value > HIGHEST_PLAUSIBLE_CELSIUS else value


def flag(cell: str | None) -> bool | None:
    """`Yes`, `Enabled`, `Active` against `No`, `Disabled`, `Not Active`; None for the rest."""
    word = (text(cell) or "").lower()
    if word in ("yes", "enabled", "active", "true"):
        return True
    return False if word in ("no", "disabled", "not active", "false") else None


def version_tuple(version: str | None) -> tuple[int, ...] | None:
    """`6.2.4-116` → (6, 2, 4): versions are compared as numbers, 5.10 is above 5.6. None without one."""
    match = re.match(r"\d+(?:\.\d+)*", version or "")
    return tuple(int(part) for part in match.group().split(".")) if match else None
