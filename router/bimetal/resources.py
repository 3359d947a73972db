"""Files that are no code: at their own place in a checkout, beside the code in an installed wheel."""

import os
from pathlib import Path

_WHEEL = Path(__file__).with_name("shipped")

CHECKOUT = None if _WHEEL.is_dir() else Path(__file__).parents[2]
"""The checkout that this code runs from, also by an editable install; None in an installed wheel."""


def resource(name: str) -> Path:
    """A file or folder of the project, by its place in a checkout: "requirements.lock", "images/templates"."""
    return (CHECKOUT or _WHEEL) / name


def work_dir(name: str) -> Path:
    """Where the project makes the folder `name` unless it is told otherwise: in the checkout, else where one stands."""
    return (CHECKOUT or Path.cwd()) / name


def cache_dir(name: str) -> Path:
    """Where downloads called `name` are kept: `.cache` of a checkout, else the user's (XDG base directories)."""
    if CHECKOUT:
        return CHECKOUT / ".cache" / name
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bimetal" / name
