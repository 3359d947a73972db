"""The AMD side: amd-smi, and rocm-smi where amd-smi gives nothing (ROCm 5, or a broken installation)."""

from __future__ import annotations

from . import amd_smi, json_output, rocm_smi
from .host import Host
from .reading import Json, ReadingError, VendorReadings


def collect(host: Host) -> VendorReadings:
    """Every reading of the AMD GPUs that a tool gives, each collector failing alone."""
    readings = VendorReadings()
    addresses: dict[int, str] = {}
    static = readings.collect(amd_smi.SOURCE_STATIC, lambda: _read_static(host, readings, addresses))
    metric = readings.collect(amd_smi.SOURCE_METRIC, lambda: _read_metric(host, readings, addresses))
    if not (static and metric):
        readings.collect(rocm_smi.SOURCE, lambda: _read_rocm_smi(host, readings))
    return readings


def _read_static(host: Host, readings: VendorReadings, addresses: dict[int, str]) -> None:
    for entry in amd_smi.entries(json_output.parse(host.run("amd-smi", "static", "--json"))):
        address = amd_smi.address(entry)
        if address is None:
            raise ReadingError(
                f"amd-smi static has no PCI address for GPU {entry['gpu']}: expected bus.bdf",
                "Report `amd-smi version` and the output.",
                failure="mismatch",
            )
        addresses[entry["gpu"]] = address
        reading = amd_smi.static_reading(entry)
        readings.versions.setdefault("driver", reading.pop("driver_version"))
        _add(readings, address, reading)


def _read_metric(host: Host, readings: VendorReadings, addresses: dict[int, str]) -> None:
    found = amd_smi.entries(json_output.parse(host.run("amd-smi", "metric", "--json")))
    for entry in found:
        if entry["gpu"] not in addresses:
            raise ReadingError(
                f"amd-smi metric has GPU {entry['gpu']}, whose PCI address is unknown: expected it in amd-smi static",
                "Run `amd-smi static --json` by hand: a metric without an address is not guessed by its order.",
                failure="mismatch",
            )
    for entry in found:
        _add(readings, addresses[entry["gpu"]], amd_smi.metric_reading(entry))


def _add(readings: VendorReadings, address: str, reading: Json) -> None:
    """Partitions of one GPU differ by the function number only, which no PCI device has: the first stands for it."""
    physical = f"{address[:-1]}0"
    if address == physical:
        readings.add(physical, reading)
    else:
        partitions = readings.gpus.setdefault(physical, {}).setdefault("partition_functions", [])
        if address not in partitions:
            partitions.append(address)


def _read_rocm_smi(host: Host, readings: VendorReadings) -> None:
    document = json_output.parse(host.run("rocm-smi", *rocm_smi.ARGUMENTS))
    found = [(rocm_smi.address(card), rocm_smi.reading(card)) for card in rocm_smi.cards(document)]
    for address, reading in found:
        readings.add(address, reading)
    if readings.versions.get("driver") is None:
        readings.versions["driver"] = rocm_smi.driver_version(document)
