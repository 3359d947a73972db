"""The document as Prometheus text, for node_exporter's textfile collector. A value that is None is not published."""

from __future__ import annotations

from collections.abc import Iterable

from .counters import Counters
from .reading import Json

PREFIX = "bimetal_gpu"
MIB = 2**20

Sample = tuple[dict[str, str], "float | None"]

# Metric, help, reading, factor to the base unit.
_GAUGES = (
    ("temperature_celsius", "Temperature of the die.", "temperature_c", 1.0),
    ("slowdown_temperature_celsius", "Temperature at which the hardware slows down.", "slowdown_temperature_c", 1.0),
    ("memory_temperature_celsius", "Temperature of the memory.", "memory_temperature_c", 1.0),
    ("utilization_ratio", "Share of time with work.", "utilization_percent", 0.01),
    ("memory_used_bytes", "Device memory in use.", "memory_used_mib", float(MIB)),
    ("power_watts", "Power drawn.", "power_w", 1.0),
    ("power_limit_watts", "Power limit.", "power_limit_w", 1.0),
)
_EVENTS = {
    "xid": "Xid lines of the kernel log.",
    "reset": "GPU resets of amdgpu in the kernel log.",
    "ring_timeout": "Ring time-outs of amdgpu in the kernel log.",
    "ras": "Lines of uncorrectable errors of amdgpu in the kernel log.",
    "ecc_corrected": "Corrected memory errors.",
    "ecc_uncorrected": "Uncorrected memory errors.",
}


def render(document: Json, counters: Counters, now: float) -> str:
    """The whole file. `now` in seconds since the epoch: an alert on its age sees a probe that stopped."""
    gpus = document["hardware"]["gpus"]
    families = [
        _family("probe_timestamp_seconds", "gauge", "When the probe last ran.", [({}, now)]),
        _family("probe_collector_up", "gauge", "1 when a collector gave a reading.", _collectors(document)),
        _family("devices", "gauge", "GPUs on the PCI bus.", _counts(gpus)),
        _family("info", "gauge", "Always 1.", [(_labels(gpu) | _names(gpu), 1.0) for gpu in gpus]),
        _family("healthy", "gauge", "1 healthy, 0 faulty; absent when unknown.", _healthy(gpus)),
        _family("fault", "gauge", "1 for each fault that a GPU has now.", _faults(gpus)),
        _family("memory_total_bytes", "gauge", "Device memory.", _memory(gpus)),
        _family("pcie_link_width", "gauge", "Lanes negotiated.", _width(gpus)),
    ]
    for name, text, reading, factor in _GAUGES:
        samples = [(_labels(gpu), _scaled(gpu["readings"][reading], factor)) for gpu in gpus]
        families.append(_family(name, "gauge", text, samples))
    for kind, text in _EVENTS.items():
        families.append(_family(f"{kind}_total", "counter", text, _totals(gpus, counters, kind)))
    codes = [
        ({"pci": address, "xid": code}, float(total))
        for (kind, address, code), total in counters.totals.items()
        if kind == "xid"
    ]
    families.append(
        _family("xid_code_total", "counter", "Xid lines of the kernel log by code.", sorted(codes, key=str))
    )
    return "".join(families)


def _labels(gpu: Json) -> dict[str, str]:
    return {"pci": gpu["pci_address"], "vendor": gpu["vendor"]}


def _names(gpu: Json) -> dict[str, str]:
    return {name: str(gpu[name] or "") for name in ("name", "uuid", "architecture", "kernel_driver")}


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _collectors(document: Json) -> list[Sample]:
    return [({"collector": name}, float(result["ok"])) for name, result in document["collectors"].items()]


def _counts(gpus: list[Json]) -> list[Sample]:
    return [({"vendor": vendor}, sum(gpu["vendor"] == vendor for gpu in gpus)) for vendor in ("amd", "nvidia")]


def _healthy(gpus: list[Json]) -> list[Sample]:
    values = {"ok": 1.0, "faulty": 0.0}
    return [(_labels(gpu), values.get(gpu["health"]["state"])) for gpu in gpus]


def _faults(gpus: list[Json]) -> list[Sample]:
    return [(_labels(gpu) | {"kind": fault["kind"]}, 1.0) for gpu in gpus for fault in gpu["health"]["faults"]]


def _memory(gpus: list[Json]) -> list[Sample]:
    return [(_labels(gpu), _scaled(gpu["memory_total_mib"], float(MIB))) for gpu in gpus]


def _width(gpus: list[Json]) -> list[Sample]:
    return [(_labels(gpu), gpu["pcie"]["negotiated"]["width"]) for gpu in gpus]


def _totals(gpus: list[Json], counters: Counters, kind: str) -> list[Sample]:
    """One series per GPU, from 0 on, so that `increase()` sees the first event; what has no GPU is "unknown"."""
    sums = {gpu["pci_address"]: 0 for gpu in gpus}
    for (counted, address, _), total in counters.totals.items():
        if counted == kind:
            sums[address] = sums.get(address, 0) + total
    return [({"pci": address}, total) for address, total in sorted(sums.items())]


def _family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> str:
    lines = [f"# HELP {PREFIX}_{name} {text}", f"# TYPE {PREFIX}_{name} {kind}"]
    for labels, value in samples:
        if value is not None:
            inner = ",".join(f'{key}="{_escape(content)}"' for key, content in labels.items())
            lines.append(f"{PREFIX}_{name}{'{' + inner + '}' if inner else ''} {value:.15g}")
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
