#!/usr/bin/python
"""Ansible module: whether packets of a size reach a peer whole. Standard library only."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types

if TYPE_CHECKING:
    from typing import Any as Module

DOCUMENTATION = r"""
module: path_mtu_info
short_description: Tell whether the way to a peer carries packets of a size
description:
  - A small packet is sent as well, so that a peer that answers nothing is told apart from a way that is too narrow.
options:
  interface:
    description: Interface that the packets leave by.
    type: str
    required: true
  peers:
    description: Addresses of the peers.
    type: list
    elements: str
    required: true
  mtu:
    description: Size of the packets in bytes, with their headers.
    type: int
    required: true
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.path_mtu_info:
    interface: ens1f0
    peers: [192.0.2.11]
    mtu: 9000
"""

RETURN = r"""
unreachable:
  description: Peers that answer not even a small packet.
  type: list
  elements: str
  returned: always
too_narrow:
  description: Peers that small packets reach and those of the size do not.
  type: list
  elements: str
  returned: always
"""

# Of IP and ICMP.
_HEADER_BYTES = {4: 20 + 8, 6: 40 + 8}
_SMALL = 56


def version_of(peer: str) -> int:
    """4 or 6: by the address, or by what the name stands for."""
    try:
        return ipaddress.ip_address(peer).version
    except ValueError:
        family = socket.getaddrinfo(peer, None)[0][0]
        return 6 if family == socket.AF_INET6 else 4


def command(interface: str, peer: str, payload: int) -> list[str]:
    """Three packets that must not be divided; one answer is enough."""
    return ["ping", "-M", "do", "-c", "3", "-i", "0.2", "-W", "2", "-s", str(payload), "-I", interface, peer]


def answers(module: Module, interface: str, peer: str, payload: int) -> bool:
    """Whether a packet came back."""
    status, _, _ = module.run_command(command(interface, peer, payload), environ_update={"LC_ALL": "C"})
    return bool(status == 0)


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={
            "interface": {"type": "str", "required": True},
            "peers": {"type": "list", "elements": "str", "required": True},
            "mtu": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    interface, mtu = module.params["interface"], module.params["mtu"]
    unreachable: list[str] = []
    too_narrow: list[str] = []
    for peer in module.params["peers"]:
        try:
            payload = mtu - _HEADER_BYTES[version_of(peer)]
        except OSError:
            unreachable.append(peer)
            continue
        if answers(module, interface, peer, payload):
            continue
        (too_narrow if answers(module, interface, peer, _SMALL) else unreachable).append(peer)
    module.exit_json(changed=False, unreachable=unreachable, too_narrow=too_narrow)


if __name__ == "__main__":
    main()
