"""Who configures an interface, from the words of each program; and the file that keeps an MTU for it."""

from typing import Any

import pytest
import yaml
from ansible_collections.bimetal.cluster.plugins.module_utils import network_managers as managers

NETWORKD = """● 3: ens1f0
                   Link File: /usr/lib/systemd/network/99-default.link
                Network File: {file}
                       State: {state}
                Online state: online
                         MTU: 1500 (min: 68, max: 9978)
"""


def as_text(manager: Any) -> str:
    return f"{manager.name} {manager.place}" if manager else "nobody"


@pytest.mark.parametrize(
    ("file", "state", "manager"),
    [
        (
            "/etc/systemd/network/10-gpu.network",
            "routable (configured)",
            "networkd /etc/systemd/network/10-gpu.network",
        ),
        (
            "/etc/systemd/network/10-gpu.network",
            "routable (configuring)",
            "networkd /etc/systemd/network/10-gpu.network",
        ),
        ("/run/systemd/network/10-netplan-gpu-rail.network", "routable (configured)", "netplan gpu-rail"),
        ("n/a", "routable (unmanaged)", "nobody"),
        # A file that says Unmanaged=yes.
        ("/etc/systemd/network/10-gpu.network", "routable (unmanaged)", "nobody"),
        ("/etc/systemd/network/10-gpu.network", "off (pending)", "nobody"),
    ],
)
def test_networkd_tells_its_file_and_netplan_is_seen_behind_it(file: str, state: str, manager: str) -> None:
    assert as_text(managers.networkd(NETWORKD.format(file=file, state=state))) == manager


@pytest.mark.parametrize(
    ("device", "manager"),
    [
        ("100 (connected)\n11-22\n", "networkmanager 11-22"),
        ("100 (connected)\n33-44\n", "netplan gpu-rail"),
        ("10 (unmanaged)\n\n", "nobody"),
        # As Docker's own interface in a container with NetworkManager.
        ("100 (connected (externally))\n55-66\n", "nobody"),
        ("30 (disconnected)\n\n", "nobody"),
        ("", "nobody"),
    ],
)
def test_networkmanager_tells_its_connection_and_netplan_is_seen_behind_it(device: str, manager: str) -> None:
    connections = (
        "11-22:/etc/NetworkManager/system-connections/gpu.nmconnection\n"
        "33-44:/run/NetworkManager/system-connections/netplan-gpu-rail.nmconnection\n"
    )
    assert as_text(managers.networkmanager(device, connections)) == manager


def test_ifupdown_has_what_it_brought_up_itself() -> None:
    files = {
        "/etc/network/interfaces": "auto lo\niface lo inet loopback\nsource interfaces.d/*\n",
        "/etc/network/interfaces.d/gpu": "auto ens1\niface ens1 inet static\n  address 10.0.0.1/24\n",
    }
    assert as_text(managers.ifupdown("ens1", files, "lo=lo\nens1=ens1\n")) == "ifupdown /etc/network/interfaces.d/gpu"
    # A stanza that somebody left behind when another program took over.
    assert managers.ifupdown("ens1", files, "lo=lo\n") is None
    assert managers.ifupdown("ens10", files, "ens10=ens10\n") is None
    assert managers.ifupdown("ens1", files, "ens10=ens10\n") is None


def test_the_files_that_ifupdown_reads_are_followed() -> None:
    text = "source /etc/network/interfaces.d/*\nsource-directory more\n# source none\n"
    assert managers.ifupdown_files(text) == ["/etc/network/interfaces.d/*", "more"]


def file_for(name: str, place: str, kind: str = "") -> dict[str, str]:
    found: dict[str, str] = managers.mtu_file(managers.Manager(name, place), "ens1.7", kind, 9000)
    assert managers.MARKER in found["text"].splitlines()[:2]
    return found


def test_networkds_file_is_a_drop_in_beside_the_users_own() -> None:
    file = file_for("networkd", "/run/systemd/network/10-gpu.network")
    assert file["path"] == "/etc/systemd/network/10-gpu.network.d/50-bimetal-mtu.conf"
    assert "[Link]\nMTUBytes=9000\n" in file["text"]


@pytest.mark.parametrize(("kind", "section"), [("", "ethernets"), ("bond", "bonds"), ("vlan", "vlans")])
def test_netplans_file_is_merged_with_the_users_definition(kind: str, section: str) -> None:
    file = file_for("netplan", "rail", kind)
    assert yaml.safe_load(file["text"]) == {"network": {"version": 2, section: {"rail": {"mtu": 9000}}}}
    assert (file["path"], file["mode"]) == ("/etc/netplan/99-bimetal-rail.yaml", "0600")


def test_networkmanagers_file_is_a_default_for_one_interface() -> None:
    file = file_for("networkmanager", "11-22")
    assert "match-device=interface-name:=ens1.7\nethernet.mtu=9000\n" in file["text"]


def test_ifupdowns_file_is_a_script_that_run_parts_takes() -> None:
    file = file_for("ifupdown", "/etc/network/interfaces")
    assert (file["path"], file["mode"]) == ("/etc/network/if-up.d/bimetal-mtu-ens1-7", "0755")
    assert file["text"].startswith("#!/bin/sh\n")
    assert "ip link set dev ens1.7 mtu 9000" in file["text"]
