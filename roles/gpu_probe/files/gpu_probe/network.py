"""Interfaces, InfiniBand and GPUDirect RDMA; with a peer, the bandwidth to it."""

from __future__ import annotations

import re

from . import kernel, pci
from .host import Host
from .reading import CollectorResult, Json, ReadingError, attempt

# The cluster's floor for RDMA between GPU hosts.
MINIMUM_RDMA_GBPS = 40.0


def read(host: Host) -> Json:
    """The layer's object, without a peer."""
    found = interfaces(host)
    return {
        "interfaces": found,
        "collective_interface": collective_interface(host, found),
        "infiniband": infiniband(host),
        "gpudirect_rdma": gpudirect(host),
        "rdma_bandwidth": None,
    }


def interfaces(host: Host) -> list[Json]:
    """Physical interfaces: those that hang on a device. `speed_mbps` is None while there is no link."""
    found = []
    for name in host.names("/sys/class/net"):
        base = f"/sys/class/net/{name}"
        if not host.exists(f"{base}/device"):
            continue
        speed = host.integer(f"{base}/speed")
        found.append(
            {
                "name": name,
                "state": host.read(f"{base}/operstate"),
                "mtu": host.integer(f"{base}/mtu"),
                "speed_mbps": speed if speed and speed > 0 else None,
                "driver": host.link_name(f"{base}/device/driver"),
                "numa_node": pci.numa_node(host, f"{base}/device"),
            }
        )
    return found


def collective_interface(host: Host, found: list[Json]) -> Json:
    """The interface of NCCL or RCCL: the (first) configured one, and the fastest that is up.

    The value's own "=" says that names are whole; "^" excludes, which names none.
    """
    text = "\n".join(host.read(path) or "" for path in ("/etc/nccl.conf", "/etc/rccl.conf"))
    match = re.search(r"^\s*NCCL_SOCKET_IFNAME\s*=\s*=?([^\s,^]+)", text, re.MULTILINE)
    up = [interface for interface in found if interface["state"] == "up"]
    fastest = max(up, key=lambda interface: interface["speed_mbps"] or 0, default=None)
    return {"configured": match.group(1) if match else None, "fastest": fastest["name"] if fastest else None}


def infiniband(host: Host) -> list[Json]:
    """Ports of RDMA devices, RoCE among them: `rate_gbps` of `400 Gb/sec (4X NDR)`."""
    found = []
    for device in host.names("/sys/class/infiniband"):
        for port in host.names(f"/sys/class/infiniband/{device}/ports"):
            base = f"/sys/class/infiniband/{device}/ports/{port}"
            rate = re.match(r"([\d.]+) Gb/sec", host.read(f"{base}/rate") or "")
            state = (host.read(f"{base}/state") or "").partition(": ")[2]
            found.append(
                {
                    "device": device,
                    "port": int(port),
                    "state": state or None,
                    "rate_gbps": float(rate.group(1)) if rate else None,
                    "link_layer": host.read(f"{base}/link_layer"),
                    "numa_node": pci.numa_node(host, f"/sys/class/infiniband/{device}/device"),
                }
            )
    return found


def gpudirect(host: Host) -> Json:
    """The ways for a network card to read GPU memory: NVIDIA's peer module, or the kernel's own DMA-BUF."""
    peer = [name for name in ("nvidia_peermem", "nv_peer_mem", "ib_peer_mem") if kernel.module_loaded(host, name)]
    dma_buf = [kernel.built_with(host, option) for option in ("PCI_P2PDMA", "DMABUF_MOVE_NOTIFY")]
    return {"peer_modules": peer, "dma_buf": None if None in dma_buf else all(dma_buf)}


def rdma_bandwidth(host: Host, peer: str, minimum: float, ports: list[Json]) -> tuple[Json | None, CollectorResult]:
    """`ib_write_bw` (perftest) to a peer on which it listens; average in Gbit/s against the floor."""
    gbps, result = attempt("ib_write_bw", lambda: _measure(host, peer, ports))
    if gbps is None:
        return None, result
    return {"peer": peer, "gbps": gbps, "minimum_gbps": minimum, "ok": gbps >= minimum}, result


def _measure(host: Host, peer: str, ports: list[Json]) -> float:
    active = [port for port in ports if port["state"] == "ACTIVE"]
    if not active:
        raise ReadingError("no RDMA port is active", "Check the cable, the switch and `ibstat`.", "no_port")
    best = max(active, key=lambda port: port["rate_gbps"] or 0)
    run = host.run("ib_write_bw", "-d", best["device"], "-i", str(best["port"]), "--report_gbits", "-F", peer)
    if not run.found:
        raise ReadingError("ib_write_bw is not installed", "Install the package perftest on both hosts.", "absent")
    rows = [line.split() for line in run.stdout.splitlines() if re.match(r"^\s*\d+\s+\d+\s+[\d.]+\s+[\d.]+", line)]
    if run.status != 0 or not rows:
        raise ReadingError(
            f"ib_write_bw to {peer} gave no bandwidth: {run.problem or run.output or 'no output'}",
            f"Start `ib_write_bw --report_gbits -F` on {peer} first.",
        )
    return float(rows[-1][3])
