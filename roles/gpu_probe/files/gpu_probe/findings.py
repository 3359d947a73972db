"""The document in findings: one function per layer, and none of them reads anything but the document."""

from __future__ import annotations

from .finding import FAIL, OK, WARN, Finding
from .nvidia_xml import KNOWN_FORMATS
from .reading import Json

# Xid after which the card itself is suspect (NVIDIA's Xid catalog): double-bit ECC, remap, NVLink, off the bus,
# contained and uncontained ECC, GSP.
HARDWARE_XIDS = ("48", "62", "63", "64", "74", "79", "94", "95", "119", "120", "140", "149")
JUMBO_MTU = 9000

# Where one of AMD's tools fails, the other's reading is enough.
_STANDS_IN = {"amd-smi": "rocm-smi", "rocm-smi": "amd-smi"}
_BESIDE_THE_GPUS = ("dmesg", "state")
_FAULT_STEPS = {
    "lost": "Drain the host, save `nvidia-bug-report.sh`, power-cycle it; lost again: replace the card.",
    "unreachable": "Look at `dmesg | grep Xid`, then power-cycle the host.",
    "missing": "Look at `dmesg` for why the driver did not take it.",
    "ecc_uncorrected": "Drain the GPU, reset it; errors again: replace the card.",
    "row_remap_failed": "Replace the card.",
    "reset_needed": "Drain the GPU and reset it (`nvidia-smi --gpu-reset`, or a reboot).",
}


def all_findings(document: Json) -> list[Finding]:
    """Everything but the driver's diagnosis, which needs facts beside the document."""
    return [
        *collectors(document),
        *hardware(document["hardware"]),
        *lost_from_the_bus(document["faults_without_gpu"]),
        *events(document["events"]),
        *software(document),
        *system(document),
        *network(document),
    ]


def collectors(document: Json) -> list[Finding]:
    """A failed collector is no sick GPU: the finding says what could not be read."""
    found = []
    read = {name.split()[0] for name, result in document["collectors"].items() if result["ok"]}
    for name, result in document["collectors"].items():
        if result["ok"]:
            continue
        tool = name.split()[0]
        status = WARN if read & {tool, _STANDS_IN.get(tool)} or name in _BESIDE_THE_GPUS else FAIL
        found.append(Finding("collectors", name, status, "host", result["error"], result["next_step"]))
    formats = document["versions"]["nvidia"].get("xml_format")
    if formats and formats not in KNOWN_FORMATS:
        message = (
            f"nvidia-smi's XML is {formats}, and the probe knows {', '.join(KNOWN_FORMATS)}: some values may be null"
        )
        found.append(Finding("collectors", "xml_format", WARN, "host", message, "Update bimetal."))
    return found


def hardware(layer: Json) -> list[Finding]:
    """Faults, links, and facts that nobody knows."""
    found = []
    for gpu in layer["gpus"]:
        subject = gpu["pci_address"]
        state = gpu["health"]["state"]
        for fault in gpu["health"]["faults"]:
            step = _FAULT_STEPS[fault["kind"]]
            found.append(Finding("hardware", f"gpu_{fault['kind']}", FAIL, subject, fault["message"], step))
        if state != "faulty":
            found.append(_health(gpu, state))
        if gpu["pcie"]["width_reduced"]:
            lanes = f"{gpu['pcie']['negotiated']['width']} of {gpu['pcie']['possible']['width']} lanes"
            step = "Reseat the card and its riser; look for a slot that shares its lanes."
            found.append(Finding("hardware", "pcie_width", WARN, subject, f"the link runs on {lanes}", step))
        found += _links(gpu)
        if gpu["facts"]["model"] is None:
            step = "Its weight comes from measured times only; add a row to devices.csv to have published numbers."
            found.append(Finding("hardware", "facts", WARN, subject, gpu["facts"]["note"], step))
    return found


def lost_from_the_bus(faults: list[Json]) -> list[Finding]:
    """Faults of GPUs that the bus has no more, or that the tool did not name."""
    return [
        Finding(
            "hardware",
            f"gpu_{fault['kind']}",
            FAIL,
            fault["pci_address"] or "an unnamed GPU",
            fault["message"],
            _FAULT_STEPS[fault["kind"]],
        )
        for fault in faults
    ]


def _health(gpu: Json, state: str) -> Finding:
    if state == "ok":
        return Finding("hardware", "gpu", OK, gpu["pci_address"], f"{gpu['name']} is healthy")
    step = "See the driver's findings and the collectors'."
    return Finding("hardware", "gpu", WARN, gpu["pci_address"], "its health is unknown: no tool read it", step)


def _links(gpu: Json) -> list[Finding]:
    links = gpu["links"]
    built_in = "NVLink" in (gpu["facts"]["interconnect"] or "") and "bridge" not in gpu["facts"]["interconnect"]
    if not links or not (links["inactive"] or (built_in and not links["active"])):
        return []
    total = f" of {links['active'] + links['inactive']}" if links["inactive"] else ""
    message = f"{links['active']}{total} {links['kind']} links are active"
    step = "Check nvidia-fabricmanager (exactly the driver's version) and `dmesg | grep -i nvlink`."
    return [Finding("hardware", "links", WARN, gpu["pci_address"], message, step)]


def events(counted: list[Json]) -> list[Finding]:
    """What the kernel log has of this boot. It is news, not a state: health comes from the readings."""
    found = []
    for event in counted:
        code = f" {event['code']}" if event["code"] else ""
        message = f"{event['kind']}{code} in this boot's kernel log: {event['count']}"
        hardware_event = event["kind"] != "xid" or event["code"] in HARDWARE_XIDS
        step = (
            "Drain the host and look at the lines around it in `dmesg`." if hardware_event else "Look at the program."
        )
        subject = event["pci_address"] or "host"
        found.append(Finding("hardware", f"event_{event['kind']}", WARN, subject, message, step))
    return found


def software(document: Json) -> list[Finding]:
    """Versions against their minimums, and libraries that hide each other."""
    layer, vendors = document["software"], {gpu["vendor"] for gpu in document["hardware"]["gpus"]}
    found = []
    for vendor, name, role in (("nvidia", "cuda", "nvidia_driver"), ("amd", "rocm", "rocm")):
        stack = layer[name]
        if vendor not in vendors:
            continue
        version = stack.get("driver_supports") or stack.get("toolkit") or stack.get("version")
        status = {True: OK, False: FAIL, None: WARN}[stack["meets_minimum"]]
        message = f"{name} {version or 'unknown'}, and at least {stack['minimum']} is needed"
        step = "" if status == OK else f"Run role {role}."
        found.append(Finding("software", name, status, "host", message, step))
    for library, hidden in layer["libraries"]["shadowed"].items():
        first = layer["libraries"]["paths"][library][0]
        message = f"the loader takes {library} from {first} and never from {', '.join(hidden)}"
        step = "Remove one of them, or order /etc/ld.so.conf.d, then run `ldconfig`."
        found.append(Finding("software", "library_order", WARN, "host", message, step))
    return found


def system(document: Json) -> list[Finding]:
    """Daemons, power saving and address translation, where there is a GPU that they matter to."""
    layer, gpus = document["system"], document["hardware"]["gpus"]
    if not gpus:
        return []
    found = []
    if any(gpu["vendor"] == "nvidia" for gpu in gpus):
        found += _persistenced(layer["nvidia_persistenced"])
    if layer["aspm"]["off"] is False:
        message = f"PCIe power saving is on (policy {layer['aspm']['policy']})"
        step = "Run role kernel_cmdline (pcie_aspm=off), then reboot."
        found.append(Finding("system", "aspm", WARN, "host", message, step))
    if layer["iommu"]["passthrough"] is False:
        message = "the IOMMU translates every DMA of the GPUs: peer-to-peer is slow or fails"
        step = "Run role kernel_cmdline (iommu=pt), then reboot."
        found.append(Finding("system", "iommu", WARN, "host", message, step))
    if layer["secure_boot"]["enabled"] and not layer["kernel_headers"]:
        message = "Secure Boot is on, and the headers to build a signed module are missing"
        step = "Install the headers of the running kernel."
        found.append(Finding("system", "secure_boot", WARN, "host", message, step))
    return found


def _persistenced(service: Json) -> list[Finding]:
    if service["active"] == "active":
        return []
    words = {None: "not installed", "masked": "masked"}.get(service["enabled"], service["active"] or "not running")
    step = "Run role nvidia_driver: it unmasks and starts it where there is a device."
    message = f"nvidia-persistenced is {words}: the first request after a pause waits for the driver"
    return [Finding("system", "nvidia_persistenced", WARN, "host", message, step)]


def network(document: Json) -> list[Finding]:
    """MTU and NUMA of the interface that carries collectives, and the bandwidth to a peer."""
    layer, gpus = document["network"], document["hardware"]["gpus"]
    name = layer["collective_interface"]["configured"] or layer["collective_interface"]["fastest"]
    found = []
    for interface in layer["interfaces"]:
        if not gpus or interface["name"] != name:
            continue
        if (interface["mtu"] or 0) < JUMBO_MTU:
            step = "Run role gpu_network, after every switch port on the way has jumbo frames."
            message = f"its MTU is {interface['mtu']}, and {JUMBO_MTU} is what collectives want"
            found.append(Finding("network", "mtu", WARN, name, message, step))
        nodes = sorted({gpu["numa_node"] for gpu in gpus if gpu["numa_node"] is not None})
        if interface["numa_node"] is not None and nodes and interface["numa_node"] not in nodes:
            message = f"it is on NUMA node {interface['numa_node']}, and the GPUs are on {nodes}"
            step = "Use an interface of the GPUs' node (NCCL_SOCKET_IFNAME)."
            found.append(Finding("network", "numa", WARN, name, message, step))
    bandwidth = layer["rdma_bandwidth"]
    if bandwidth:
        message = f"{bandwidth['gbps']:g} Gbit/s to {bandwidth['peer']}, at least {bandwidth['minimum_gbps']:g} needed"
        step = "" if bandwidth["ok"] else "Check the link's rate, PCIe width of the card, MTU and NUMA node."
        found.append(Finding("network", "rdma_bandwidth", OK if bandwidth["ok"] else FAIL, "host", message, step))
    return found
