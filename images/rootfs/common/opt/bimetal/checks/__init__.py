"""What each kind of image is checked for, in this order. A check returns what it found, as text."""

import importlib

from checks.devices import device
from checks.libraries import every_library_resolves, vendor_libraries_come_first
from checks.outcome import Failed, Skipped

__all__ = ["CHECKS", "Failed", "Skipped"]


def _of(module, function):
    """Only the images of one kind have the module."""

    def check(facts):
        return getattr(importlib.import_module(f"checks.{module}"), function)(facts)

    return check


_COMMON = [
    ("libraries", every_library_resolves),
    ("library order", vendor_libraries_come_first),
    ("device", device),
]
CHECKS = {
    "triton": [
        *_COMMON,
        ("provider", _of("provider", "provider_is_offered")),
        ("server", _of("triton", "serves_and_drains")),
    ],
    "router": [*_COMMON, ("cluster", _of("cluster", "answers_and_stops"))],
    "train": [*_COMMON, ("torch", _of("torch_device", "computes"))],
}
