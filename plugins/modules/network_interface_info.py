#!/usr/bin/python
"""Ansible module: an interface's MTU, its limits, and the program that configures it. Standard library only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils import network_managers

if TYPE_CHECKING:
    from typing import Any as Module

DOCUMENTATION = r"""
module: network_interface_info
short_description: Tell an interface's MTU and who configures it
description:
  - Tells an interface's MTU, its limits, and the program that configures it.
options:
  name:
    description: Name of the interface.
    type: str
    required: true
  mtu:
    description: The MTU that it is to have.
    type: int
    required: true
  root:
    description: Root of the host's file system.
    type: path
    default: /
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.network_interface_info:
    name: ens1f0
    mtu: 9000
  register: interface
"""

RETURN = r"""
exists:
  description: Whether there is such an interface.
  type: bool
  returned: always
mtu:
  description: The MTU in force; 0 without the interface.
  type: int
  returned: always
max_mtu:
  description: The largest MTU of the driver; 0 where it tells none.
  type: int
  returned: always
kind:
  description: The kernel's word (bond, vlan, bridge, …); empty for a card.
  type: str
  returned: always
lower_mtus:
  description: MTUs of the interfaces that it lies on.
  type: dict
  returned: always
managers:
  description: Programs that configure it, with the place that their setting hangs on.
  type: list
  elements: dict
  returned: always
file:
  description: A file that makes the first of the managers set the MTU at every boot (path, text, mode).
  type: dict
  returned: when somebody configures it
own_mtu:
  description: An MTU that NetworkManager's connection itself has; empty for none.
  type: str
  returned: always
"""


def run(module: Module, *command: str) -> str:
    """Output in the C locale; empty for a command that failed or is not there."""
    if module.get_bin_path(command[0]) is None:
        return ""
    status, output, _ = module.run_command(list(command), environ_update={"LC_ALL": "C"})
    return str(output) if status == 0 else ""


def read(path: Path) -> str:
    """A file's text; empty without it."""
    try:
        return path.read_text()
    except OSError:
        return ""


def interfaces_files(root: Path) -> dict[str, str]:
    """Text of /etc/network/interfaces and of all that it names, by path."""
    found: dict[str, str] = {}
    waiting = ["/etc/network/interfaces"]
    while waiting:
        pattern = waiting.pop(0)
        absolute = pattern if pattern.startswith("/") else f"/etc/network/{pattern}"
        for path in sorted(root.glob(absolute.lstrip("/"))):
            files = sorted(path.iterdir()) if path.is_dir() else [path]
            for file in files:
                name = f"/{file.relative_to(root)}"
                if name not in found and file.is_file():
                    found[name] = read(file)
                    waiting += network_managers.ifupdown_files(found[name])
    return found


def managers(module: Module, root: Path, name: str) -> list[network_managers.Manager]:
    """Every program that configures the interface; one is as it should be."""
    connections = run(module, "nmcli", "--terse", "--fields", "UUID,FILENAME", "connection", "show")
    device = run(module, "nmcli", "--terse", "--get-values", "GENERAL.STATE,GENERAL.CON-UUID", "device", "show", name)
    found = [
        network_managers.networkd(run(module, "networkctl", "--no-pager", "status", name)),
        network_managers.networkmanager(device, connections),
        network_managers.ifupdown(name, interfaces_files(root), read(root / "run/network/ifstate")),
    ]
    return [manager for manager in found if manager is not None]


def link(module: Module, name: str) -> dict[str, Any]:
    """The interface as `ip` shows it; empty without it."""
    try:
        found = json.loads(run(module, "ip", "-details", "-json", "link", "show", "dev", name))
    except ValueError:
        return {}
    return found[0] if found else {}


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "mtu": {"type": "int", "required": True},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    root, name = Path(module.params["root"]), module.params["name"]
    shown = link(module, name)
    found = managers(module, root, name) if shown else []
    own = next((manager.place for manager in found if manager.name == "networkmanager"), "")
    own_mtu = run(module, "nmcli", "--get-values", "802-3-ethernet.mtu", "connection", "show", own) if own else ""
    lower = [path.name.removeprefix("lower_") for path in (root / "sys/class/net" / name).glob("lower_*")]
    kind = shown.get("linkinfo", {}).get("info_kind", "")
    file = network_managers.mtu_file(found[0], name, kind, module.params["mtu"]) if found else {}
    module.exit_json(
        changed=False,
        exists=bool(shown),
        mtu=shown.get("mtu", 0),
        max_mtu=shown.get("max_mtu", 0),
        kind=kind,
        lower_mtus={lower_name: link(module, lower_name).get("mtu", 0) for lower_name in sorted(lower)},
        managers=[manager.as_json() for manager in found],
        file=file,
        own_mtu=own_mtu.strip() if own_mtu.strip() not in ("auto", "0") else "",
    )


if __name__ == "__main__":
    main()
