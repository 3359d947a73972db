"""`nvidia-smi -q -x`, document types v11 to v13.

v12 renamed power_readings to gpu_power_readings; v13 split power_draw into instant and average, splits the SRAM
counters by error kind, and brings kmd_version and cuda_umd_version for driver_version and cuda_version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree

from . import cells
from .reading import Fault, Json, ReadingError, pci_address

KNOWN_FORMATS = ("v11", "v12", "v13")
SOURCE = "nvidia-smi xml"
_NEXT_STEP = "Report the driver's version and the output of `nvidia-smi -q -x`."


@dataclass(frozen=True)
class Log:
    """One document: versions, readings by PCI address, and GPUs that are lost."""

    format: str | None
    driver_version: str | None
    cuda_version: str | None
    gpus: dict[str, Json]
    faults: list[Fault]


def parse(output: str) -> Log:
    """Read a document; lines before it (warnings) are skipped.

    Raises ReadingError when it is not XML, or a <gpu> of it has no PCI address.
    """
    start = min((at for at in (output.find("<?xml"), output.find("<nvidia_smi_log")) if at >= 0), default=None)
    if start is None:
        raise ReadingError("nvidia-smi printed no XML: expected <nvidia_smi_log>", _NEXT_STEP, failure="mismatch")
    try:
        root = ElementTree.fromstring(output[start:])
    except ElementTree.ParseError as error:
        raise ReadingError(f"nvidia-smi printed broken XML: {error}", _NEXT_STEP, failure="mismatch") from error
    document_type = re.search(r"nvsmi_device_(v\d+)\.dtd", output)
    gpus: dict[str, Json] = {}
    lost = []
    for element in root.findall("gpu"):
        if "id" not in element.attrib:
            raise ReadingError("a <gpu> has no id: expected its PCI address", _NEXT_STEP, failure="mismatch")
        address = pci_address(element.attrib["id"])
        gpus[address] = _reading(element)
        lost += _faults(element, address)
    return Log(
        format=document_type.group(1) if document_type else None,
        driver_version=_first(root, "kmd_version", "driver_version"),
        cuda_version=_first(root, "cuda_umd_version", "cuda_version"),
        gpus=gpus,
        faults=lost,
    )


def _first(element: ElementTree.Element, *paths: str) -> str | None:
    """The text of the first path that has one: names differ by document type."""
    return next((found for path in paths if (found := cells.text(element.findtext(path)))), None)


def _reading(gpu: ElementTree.Element) -> Json:
    power = ("gpu_power_readings", "power_readings")
    draw = [f"{group}/{name}" for group in power for name in ("power_draw", "instant_power_draw", "average_power_draw")]
    limit = [f"{group}/{name}" for group in power for name in ("current_power_limit", "enforced_power_limit")]
    volatile = gpu.find("ecc_errors/volatile")
    return {
        "uuid": _first(gpu, "uuid"),
        "name": _first(gpu, "product_name"),
        "generation": _first(gpu, "product_architecture"),
        "temperature_c": cells.celsius(_first(gpu, "temperature/gpu_temp")),
        "memory_temperature_c": cells.celsius(_first(gpu, "temperature/memory_temp")),
        "slowdown_temperature_c": _slowdown_temperature(gpu),
        "utilization_percent": cells.number(_first(gpu, "utilization/gpu_util")),
        "memory_total_mib": cells.integer(_first(gpu, "fb_memory_usage/total")),
        "memory_used_mib": cells.integer(_first(gpu, "fb_memory_usage/used")),
        "power_w": cells.number(_first(gpu, *draw)),
        "power_limit_w": cells.number(_first(gpu, *limit)),
        "mig_enabled": cells.flag(_first(gpu, "mig_mode/current_mig")),
        "mig_devices": [_mig_device(device) for device in gpu.findall("mig_devices/mig_device")],
        "ecc_corrected": _ecc_sum(volatile, uncorrectable=False),
        "ecc_uncorrected": _ecc_sum(volatile, uncorrectable=True),
        "retirement_pending": cells.flag(_first(gpu, "retired_pages/pending_retirement")),
        "row_remap_pending": cells.flag(_first(gpu, "remapped_rows/remapped_row_pending")),
        "row_remap_failed": cells.flag(_first(gpu, "remapped_rows/remapped_row_failure")),
        "reset_required": cells.flag(_first(gpu, "gpu_reset_status/reset_required")),
        "persistence_enabled": cells.flag(_first(gpu, "persistence_mode")),
    }


def _slowdown_temperature(gpu: ElementTree.Element) -> float | None:
    """Where the hardware slows down. From Ada on the driver tells only distances: how far it is from a limit, and how
    far from that limit (with its sign) the slowdown begins."""
    told = cells.celsius(_first(gpu, "temperature/gpu_temp_slow_threshold"))
    if told is not None:
        return told
    names = ("gpu_temp", "gpu_temp_tlimit", "gpu_temp_slow_tlimit_threshold")
    now, distance, begins = (cells.celsius(_first(gpu, f"temperature/{name}")) for name in names)
    return None if now is None or distance is None or begins is None else now + distance - begins


def _mig_device(device: ElementTree.Element) -> Json:
    return {
        "gpu_instance": cells.integer(device.findtext("gpu_instance_id")),
        "compute_instance": cells.integer(device.findtext("compute_instance_id")),
        "memory_total_mib": cells.integer(device.findtext("fb_memory_usage/total")),
    }


def _ecc_sum(counts: ElementTree.Element | None, *, uncorrectable: bool) -> int | None:
    """Volatile errors of SRAM and DRAM together, however the document type splits them; None when none is a number."""
    if counts is None:
        return None
    pattern = re.compile(r"_uncorrectable(_|$)" if uncorrectable else r"_correctable(_|$)")
    values = [cells.integer(count.text) for count in counts if pattern.search(count.tag)]
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _faults(gpu: ElementTree.Element, address: str) -> list[Fault]:
    texts = [element.text or "" for element in gpu.iter()]
    return [
        Fault(address, kind, f"nvidia-smi prints '{words}' among its values", SOURCE)
        for kind, words in (("lost", cells.LOST), ("reset_needed", cells.RESET_NEEDED))
        if any(words in value for value in texts)
    ]
