"""Which program configures an interface, read from what the programs say and from their files.

Pure and standard library only.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

MARKER = "# Managed by Ansible (bimetal): change the inventory, not this file."

_NETPLAN_FOR_NETWORKD = re.compile(r"/run/systemd/network/10-netplan-(.+)\.network$")
_NETPLAN_FOR_NETWORKMANAGER = re.compile(r"/run/NetworkManager/system-connections/netplan-(.+?)(?:\.nmconnection)?$")


@dataclass(frozen=True)
class Manager:
    """A program that configures an interface: `netplan`, `networkd`, `networkmanager` or `ifupdown`.

    `place` is what its setting hangs on: netplan's name of the interface, networkd's .network file, NetworkManager's
    connection, ifupdown's file.
    """

    name: str
    place: str

    def as_json(self) -> dict[str, str]:
        """For Ansible."""
        return asdict(self)


def networkd(status: str) -> Manager | None:
    """From `networkctl status INTERFACE`: the file that networkd configured it with, which netplan may have written."""
    state = re.search(r"^\s*State: \S+ \((\w+)\)", status, re.MULTILINE)
    file = re.search(r"^\s*Network File: (/\S+)", status, re.MULTILINE)
    if state is None or file is None or state[1] in ("unmanaged", "pending", "initialized"):
        return None
    netplan = _NETPLAN_FOR_NETWORKD.search(file[1])
    return Manager("netplan", netplan[1]) if netplan else Manager("networkd", file[1])


def networkmanager(device: str, connections: str) -> Manager | None:
    """From `nmcli --terse --get-values GENERAL.STATE,GENERAL.CON-UUID device show INTERFACE` (two lines) and
    `nmcli --terse --fields UUID,FILENAME connection show`.
    """
    lines = device.splitlines()
    state = re.match(r"(\d+)", lines[0]) if lines else None
    uuid = lines[1].strip() if len(lines) > 1 else ""
    # Below 50 nothing is being configured; "externally" is what another program did, which NetworkManager only shows.
    if state is None or int(state[1]) < 50 or "externally" in lines[0] or not uuid:
        return None
    files = dict(line.replace("\\:", ":").split(":", 1) for line in connections.splitlines() if ":" in line)
    netplan = _NETPLAN_FOR_NETWORKMANAGER.search(files.get(uuid, ""))
    return Manager("netplan", netplan[1]) if netplan else Manager("networkmanager", uuid)


def ifupdown_files(text: str) -> list[str]:
    """What `source` and `source-directory` name, in order; patterns and directories as they are written."""
    return re.findall(r"^\s*source(?:-directory)?\s+(\S+)", text, re.MULTILINE)


def ifupdown(interface: str, files: dict[str, str], state: str) -> Manager | None:
    """From interfaces(5)'s files and /run/network/ifstate: an interface that ifupdown brought up."""
    if not re.search(rf"^{re.escape(interface)}=", state, re.MULTILINE):
        return None
    for path, text in files.items():
        if re.search(rf"^\s*iface\s+{re.escape(interface)}\s", text, re.MULTILINE):
            return Manager("ifupdown", path)
    return None


def mtu_file(manager: Manager, interface: str, kind: str, mtu: int) -> dict[str, str]:
    """A file of our own that makes the manager set the MTU at the next boot: `path`, `text`, `mode`.

    No manager is told to apply it: that would take the interface's addresses away for a moment. `kind` is the kernel's
    word (`bond`, `vlan`, `bridge`; anything else is an Ethernet card).
    """
    if manager.name == "netplan":
        section = {"bond": "bonds", "vlan": "vlans", "bridge": "bridges"}.get(kind, "ethernets")
        text = f"network:\n  version: 2\n  {section}:\n    {manager.place}:\n      mtu: {mtu}"
        # netplan warns of files that everybody can read.
        return _file(f"/etc/netplan/99-bimetal-{manager.place}.yaml", text, "0600")
    if manager.name == "networkd":
        directory = f"/etc/systemd/network/{manager.place.rpartition('/')[2]}.d"
        return _file(f"{directory}/50-bimetal-mtu.conf", f"[Link]\nMTUBytes={mtu}", "0644")
    if manager.name == "networkmanager":
        text = f"[connection-bimetal-{interface}]\nmatch-device=interface-name:={interface}\nethernet.mtu={mtu}"
        return _file(f"/etc/NetworkManager/conf.d/90-bimetal-{interface}.conf", text, "0644")
    # As a script after all of ifupdown's own: interfaces(5) has `mtu` for static addresses only.
    text = f'if [ "$IFACE" = {interface} ]; then\n    ip link set dev {interface} mtu {mtu}\nfi'
    # run-parts leaves out names with a dot.
    name = interface.replace(".", "-")
    return _file(f"/etc/network/if-up.d/bimetal-mtu-{name}", text, "0755", first="#!/bin/sh\n")


def _file(path: str, text: str, mode: str, first: str = "") -> dict[str, str]:
    return {"path": path, "text": f"{first}{MARKER}\n{text}\n", "mode": mode}
