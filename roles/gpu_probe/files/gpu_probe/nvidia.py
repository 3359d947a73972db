"""The NVIDIA side: nvidia-smi's XML, CSV and NVLink status, each a collector of its own."""

from __future__ import annotations

import re

from . import cells, nvidia_csv, nvidia_errors, nvidia_xml
from .host import Host, ToolRun
from .reading import Json, ReadingError, VendorReadings

NVLINK_SOURCE = "nvidia-smi nvlink"
_LINK = re.compile(r"^\s+Link \d+: (?:([\d.]+) GB/s|(<inactive>))")
_ALL_DOWN = "all links are inActive"
_LINK_GPU = re.compile(r"^GPU (\d+): .*?(?:\(UUID: (\S+)\))?$")


def collect(host: Host) -> VendorReadings:
    """Every reading that nvidia-smi gives. Each fails alone, and a lost GPU is a fault, not a failure."""
    readings = VendorReadings()
    readings.collect(nvidia_xml.SOURCE, lambda: _read_xml(host, readings))
    readings.collect(nvidia_csv.SOURCE, lambda: _read_csv(host, readings))
    readings.collect(NVLINK_SOURCE, lambda: _read_links(host, readings))
    return readings


def _checked(run: ToolRun, readings: VendorReadings, source: str) -> str:
    """The run's output; a lost GPU is reported also where the run gave no reading because of it."""
    readings.report(nvidia_errors.faults(run.output, source))
    nvidia_errors.check(run)
    return run.stdout


def _read_xml(host: Host, readings: VendorReadings) -> None:
    log = nvidia_xml.parse(_checked(host.run("nvidia-smi", "-q", "-x"), readings, nvidia_xml.SOURCE))
    for address, reading in log.gpus.items():
        readings.add(address, reading)
    readings.report(log.faults)
    readings.versions.update(driver=log.driver_version, cuda=log.cuda_version, xml_format=log.format)


def _read_csv(host: Host, readings: VendorReadings) -> None:
    fields = list(nvidia_csv.FIELDS)
    while True:
        run = host.run("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv")
        refused = nvidia_csv.refused_field(run.output)
        if refused not in fields:
            break
        fields.remove(refused)
    table = nvidia_csv.rows(_checked(run, readings, nvidia_csv.SOURCE))
    for row in table:
        nvidia_csv.check_header(row, fields)
    for row in table:
        fault = nvidia_csv.fault(row)
        readings.report([fault] if fault else [])
        address = nvidia_csv.address(row)
        if address:
            readings.add(address, nvidia_csv.reading(row))
        if readings.versions.get("driver") is None:
            readings.versions["driver"] = cells.text(row["driver_version"])


def _read_links(host: Host, readings: VendorReadings) -> None:
    run = host.run("nvidia-smi", "nvlink", "-s")
    nvidia_errors.check(run)
    for index, uuid, links in parse_links(run.output):
        for reading in readings.gpus.values():
            # Newer drivers print no UUID here.
            if reading.get("uuid") == uuid if uuid else reading.get("index") == index:
                reading["links"] = links


def parse_links(output: str) -> list[tuple[int, str | None, Json]]:
    """`nvidia-smi nvlink -s`: per GPU its index, its UUID, and its active and inactive links with the rate of one.

    A GPU in MIG mode answers with a sentence and is left out. One whose links are all down, or that has a connector
    and no bridge on it, answers without their number: inactive is then None. Raises ReadingError when that answer
    names no GPU.
    """
    found: list[tuple[int, str | None, Json]] = []
    for line in output.splitlines():
        gpu, link = _LINK_GPU.match(line), _LINK.match(line)
        if gpu:
            links: Json = {"kind": "nvlink", "active": 0, "inactive": 0, "rate_gbs": None}
            found.append((int(gpu.group(1)), gpu.group(2), links))
        elif _ALL_DOWN in line and not found:
            raise ReadingError(
                "nvidia-smi says that all NVLink links are inactive, and not of which GPU",
                "Check that nvidia-fabricmanager runs and has exactly the driver's version.",
                failure="links_down",
            )
        elif _ALL_DOWN in line:
            found[-1][2]["inactive"] = None
        elif link and found:
            links = found[-1][2]
            links["active" if link.group(1) else "inactive"] += 1
            links["rate_gbs"] = float(link.group(1)) if link.group(1) else links["rate_gbs"]
    return [entry for entry in found if entry[2]["active"] or entry[2]["inactive"] != 0]
