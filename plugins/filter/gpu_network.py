"""Ansible filters: the interfaces near the GPUs, what NCCL and RCCL are told of them, and files of settings. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def nearest(report: Json, vendor: str = "") -> str:
    """The interface for collectives: on the NUMA node of most GPUs, then the fastest; "" without one that is up."""
    nodes = _gpu_nodes(report, vendor)
    up = [interface for interface in report["network"]["interfaces"] if interface["state"] == "up"]
    best = max(
        up,
        # By name at last, so that two of a kind give the same one on every run.
        key=lambda interface: (
            nodes[interface["numa_node"]],
            interface["speed_mbps"] or 0,
            _reverse(interface["name"]),
        ),
        default=None,
    )
    return str(best["name"]) if best else ""


def _gpu_nodes(report: Json, vendor: str) -> Counter[int | None]:
    gpus = [gpu for gpu in report["hardware"]["gpus"] if vendor in ("", gpu["vendor"])]
    return Counter(gpu["numa_node"] for gpu in gpus if gpu["numa_node"] is not None)


def _reverse(name: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in name)


def rdma_ports(report: Json, vendor: str) -> list[str]:
    """Active RDMA ports as `device:port`: those on the GPUs' NUMA nodes, or all where none is there."""
    active = [port for port in report["network"]["infiniband"] if port["state"] == "ACTIVE"]
    nodes = _gpu_nodes(report, vendor)
    near = [port for port in active if nodes[port["numa_node"]]]
    return [f"{port['device']}:{port['port']}" for port in near or active]


def environment(interfaces: Sequence[str], ports: Sequence[str], infiniband: str) -> dict[str, str]:
    """What NCCL and RCCL are told; `infiniband` is auto, on or off. "=" stands for whole names."""
    if infiniband == "off" or not ports:
        rdma = {"NCCL_IB_DISABLE": "1"}
    else:
        rdma = {"NCCL_IB_DISABLE": "0", "NCCL_IB_HCA": f"={','.join(ports)}"}
    return {"NCCL_SOCKET_IFNAME": f"={','.join(interfaces)}", **rdma}


def conf_conflicts(text: str, wanted: Mapping[str, str], marker: str) -> list[str]:
    """Lines of nccl.conf outside of our block that set our names to something else: NCCL takes the first it meets."""
    begin, end = (re.escape(marker.replace("{mark}", word)) for word in ("BEGIN", "END"))
    rest = re.sub(rf"^{begin}$.*?^{end}$", "", text, flags=re.MULTILINE | re.DOTALL)
    settings = re.findall(r"^\s*(\w+)\s*=(.*)$", rest, re.MULTILINE)
    return [f"{name}={value.strip()}" for name, value in settings if wanted.get(name, value.strip()) != value.strip()]


def interface_problem(name: str, info: Json, mtu: int) -> str:
    """Why an interface cannot be given an MTU; empty when it can."""
    if not info["exists"]:
        return f"there is no interface {name}"
    if info["max_mtu"] and info["max_mtu"] < mtu:
        return f"{name}'s driver takes {info['max_mtu']} at most, and gpu_network_mtu is {mtu}"
    narrow = [f"{lower} ({size})" for lower, size in info["lower_mtus"].items() if size < mtu]
    if info["kind"] == "vlan" and narrow:
        return f"{name} lies on {', '.join(narrow)}, which must have {mtu} first"
    return _manager_problem(name, info, mtu)


def _manager_problem(name: str, info: Json, mtu: int) -> str:
    if info["own_mtu"] and int(info["own_mtu"]) != mtu:
        return (
            f"NetworkManager's connection of {name} says {info['own_mtu']} itself, which counts before a default:"
            f" nmcli connection modify {info['managers'][0]['place']} 802-3-ethernet.mtu 0"
        )
    names = [manager["name"] for manager in info["managers"]]
    if not names:
        return (
            f"nobody is known to configure {name}: expected netplan, systemd-networkd, NetworkManager or ifupdown, so"
            " its MTU would not outlive a boot"
        )
    if len(names) > 1:
        return f"{' and '.join(names)} both configure {name}: expected one, because either may undo the other"
    return ""


def result_problem(result: Json, mtu: int) -> str:
    """The same of one result of a loop over interfaces."""
    return interface_problem(str(result["item"]), result, mtu)


def open_sources(sources: Sequence[str]) -> list[str]:
    """Those that are no network, or the whole world: Triton's ports have no authentication."""
    wrong = []
    for source in sources:
        try:
            network = ipaddress.ip_network(source, strict=False)
        except ValueError:
            wrong.append(source)
            continue
        if network.prefixlen == 0:
            wrong.append(source)
    return wrong


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Each is the function of its name with the prefix `gpu_network_`."""
        functions = (nearest, rdma_ports, environment, conf_conflicts, interface_problem, result_problem, open_sources)
        return {f"gpu_network_{function.__name__}": function for function in functions}
