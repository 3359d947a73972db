"""The document: four layers, how each collector fared, and the findings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from . import (
    SCHEMA,
    amd,
    diagnosis,
    findings,
    gpu,
    kernel,
    kernel_log,
    kfd,
    machine,
    network,
    nvidia,
    pci,
    software,
    system,
)
from .host import Host
from .kernel_log import KernelLog
from .reading import Fault, Json, VendorReadings, attempt

_MODULE_FILES = {
    "nvidia": ("nvidia", "nvidia-current", "nvidia-current-open"),
    "amd": ("amdgpu",),
}


@dataclass(frozen=True)
class Peer:
    """A host on which `ib_write_bw` listens, and the bandwidth in Gbit/s that it must give."""

    address: str
    minimum_gbps: float = network.MINIMUM_RDMA_GBPS


def build(host: Host, collected_at: str, peer: Peer | None = None) -> tuple[Json, KernelLog]:
    """The document, and the kernel log's events for the counters. `collected_at` is ISO 8601.

    A vendor's tools run only where the bus has a GPU of that vendor; with both, both are there.
    """
    devices = pci.gpus(host)
    vendors = {device.vendor for device in devices}
    readings = {
        "nvidia": nvidia.collect(host) if "nvidia" in vendors else VendorReadings(),
        "amd": amd.collect(host) if "amd" in vendors else VendorReadings(),
    }
    results = [result for vendor in readings.values() for result in vendor.collectors]
    log, log_result = attempt(kernel_log.SOURCE, lambda: kernel_log.read(host))
    log = log or KernelLog([], [])
    network_layer = network.read(host)
    if peer:
        network_layer["rdma_bandwidth"], peer_result = network.rdma_bandwidth(
            host, peer.address, peer.minimum_gbps, network_layer["infiniband"]
        )
        results.append(peer_result)
    nodes = {node.pci_address: node for node in kfd.gpu_nodes(host)}
    document: Json = {
        "schema": SCHEMA,
        "collected_at": collected_at,
        "hostname": host.read("/proc/sys/kernel/hostname"),
        "hardware": {
            "gpus": [gpu.entry(host, device, readings[device.vendor], nodes.get(device.address)) for device in devices],
            "cpu": machine.cpu(host),
            "memory_mib": machine.memory_mib(host),
            "nvme": machine.nvme(host),
            "power_supplies": machine.power_supplies(host),
            "firmware": machine.firmware(host),
        },
        "software": software.read(host, readings["nvidia"], readings["amd"]),
        "system": system.read(host),
        "network": network_layer,
        "versions": {vendor: found.versions for vendor, found in readings.items()},
        "collectors": {result.name: result.as_json() for result in [*results, log_result]},
        "faults_without_gpu": _unplaced(devices, readings),
        "events": _counted(log),
    }
    diagnoses = [cause for vendor in sorted(vendors) for cause in diagnosis.causes(_facts(host, vendor, document, log))]
    document["findings"] = [found.as_json() for found in [*diagnoses, *findings.all_findings(document)]]
    return document, log


def _unplaced(devices: list[pci.PciDevice], readings: dict[str, VendorReadings]) -> list[Json]:
    """Faults whose address is on no bus any more, or that came without one."""
    present = {device.address for device in devices}
    faults: list[Fault] = [fault for found in readings.values() for fault in found.faults]
    return [
        {"pci_address": fault.pci_address, "kind": fault.kind, "message": fault.message, "source": fault.source}
        for fault in faults
        if fault.pci_address not in present
    ]


def _counted(log: KernelLog) -> list[Json]:
    counts = Counter((event.kind, event.pci_address, event.code) for event in log.events)
    return [
        {"kind": kind, "pci_address": address, "code": code, "count": count}
        for (kind, address, code), count in counts.items()
    ]


def _facts(host: Host, vendor: str, document: Json, log: KernelLog) -> diagnosis.DriverFacts:
    module = "nvidia" if vendor == "nvidia" else "amdgpu"
    layer = document["software"]
    return diagnosis.DriverFacts(
        vendor=vendor,
        module=module,
        bound_drivers=tuple(
            found["kernel_driver"] for found in document["hardware"]["gpus"] if found["vendor"] == vendor
        ),
        module_loaded=kernel.module_loaded(host, module),
        module_file=kernel.module_file(host, *_MODULE_FILES[vendor]),
        dkms=tuple(entry for entry in layer["dkms"] if entry["module"].startswith(module)),
        kernel=document["system"]["kernel"],
        headers=document["system"]["kernel_headers"],
        secure_boot=document["system"]["secure_boot"]["enabled"],
        refused_module_lines=tuple(log.refused_module_lines),
        module_version=layer["nvidia_driver"]["module"] if vendor == "nvidia" else None,
        library_version=layer["nvidia_driver"]["library"] if vendor == "nvidia" else None,
        device_node=document["system"]["kfd"]["device"],
    )
