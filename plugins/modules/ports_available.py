#!/usr/bin/python
"""Ansible module: fail when somebody else listens on a port that is about to be used. Standard library only."""

from __future__ import annotations

import ipaddress
import struct
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TypedDict

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types

DOCUMENTATION = r"""
module: ports_available
short_description: Fail when a needed TCP port is held by a process that is not of this cluster
description:
  - Reads /proc/net/tcp instead of binding the ports itself, because a port in TIME_WAIT is no obstacle to a server
    with SO_REUSEADDR, and only a listener has a name to show.
options:
  ports:
    description: Ports that will be used, and what for.
    type: list
    elements: dict
    required: true
    suboptions:
      port: {type: int, required: true, description: TCP port.}
      address: {type: str, required: true, description: Address that will be bound.}
      purpose: {type: str, required: true, description: What will listen there.}
  supervisor_pid_file:
    description: Listeners that descend from this process are our own and may stay.
    type: path
    required: true
  engine: {type: str, default: docker, description: Command line of the engine that is asked for our containers.}
  container_label: {type: str, required: true, description: NAME=VALUE that our containers have.}
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.ports_available:
    ports: [{address: 127.0.0.1, port: 8000, purpose: gateway HTTP}]
    supervisor_pid_file: /var/lib/bimetal/supervisor/supervisord.pid
    container_label: org.bimetal.cluster=/var/lib/bimetal
"""

RETURN = r"""
changed:
  description: Never true; the module only looks, and fails for a port that is taken.
  returned: always
  type: bool
"""

_TCP_LISTEN = "0A"  # include/net/tcp_states.h


class WantedPort(TypedDict):
    """A port that will be bound, and what for."""

    address: str
    port: int
    purpose: str


@dataclass(frozen=True)
class Listener:
    """A listening TCP socket: its address, its port, its user, and the inode that a process's descriptor shows."""

    address: str
    port: int
    uid: int
    inode: str


def parse_listeners(table: str) -> list[Listener]:
    """Read the text of /proc/net/tcp or /proc/net/tcp6 (proc(5)); addresses are hex words in host byte order."""
    listeners = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if fields[3] != _TCP_LISTEN:
            continue
        address_hex, port_hex = fields[1].split(":")
        words = struct.unpack(f">{len(address_hex) // 8}I", bytes.fromhex(address_hex))
        packed = struct.pack(f"={len(words)}I", *words)
        listeners.append(Listener(str(ipaddress.ip_address(packed)), int(port_hex, 16), int(fields[7]), fields[9]))
    return listeners


def conflicts(listener: Listener, address: str) -> bool:
    """Whether binding `address` fails while `listener` holds the same port."""
    held = ipaddress.ip_address(listener.address)
    if isinstance(held, ipaddress.IPv6Address) and held.ipv4_mapped:
        held = held.ipv4_mapped
    wanted = ipaddress.ip_address(address)
    return held == wanted or held.is_unspecified or wanted.is_unspecified


def holder(proc: Path, inode: str) -> int | None:
    """The pid that has the socket open; None when no process that we may look into has."""
    for process in proc.glob("[0-9]*"):
        try:
            if any(str(fd.readlink()) == f"socket:[{inode}]" for fd in (process / "fd").iterdir()):
                return int(process.name)
        except OSError:  # ended meanwhile, or another user's
            continue
    return None


def descends_from(proc: Path, pid: int, ancestor: int) -> bool:
    """Whether `ancestor` is `pid` itself or one of its parents."""
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            status = (proc / str(pid) / "status").read_text()
        except OSError:
            return False
        pid = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))
    return False


def describe(proc: Path, pid: int | None) -> str:
    """The holder in words, as far as it is visible."""
    if pid is None:
        return "a process of another user (`ss -ltnp` as root names it)"
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    command = " ".join(word.decode(errors="replace") for word in words).strip() or "command unknown"
    return f"pid {pid}: {command if len(command) <= 200 else command[:197] + '...'}"


def owned(proc: Path, listener: Listener, pid: int | None, owners: Iterable[int]) -> bool:
    """Whether the listener is one of the owners' or of their children.

    Who may not look into another user's process (a member of the group docker) goes by the user: a container's own.
    """
    if pid is not None:
        return any(descends_from(proc, pid, owner) for owner in owners)
    return any(user_of(proc, owner) == listener.uid for owner in owners)


def user_of(proc: Path, pid: int) -> int | None:
    """The user of a process; None when it has ended."""
    try:
        return (proc / str(pid)).stat().st_uid
    except OSError:
        return None


def problems(
    proc: Path, ports: list[WantedPort], supervisor_pid: int | None, others: Callable[[], list[int]] = list
) -> list[str]:
    """One sentence for each port that somebody else holds; `proc` is /proc or a folder of its shape.

    `others` tells our processes outside supervisord; it is asked only where there is a stranger.
    """
    tables = [path.read_text() for path in (proc / "net/tcp", proc / "net/tcp6") if path.exists()]
    listeners = [listener for table in tables for listener in parse_listeners(table)]
    owners = cache(others)
    found = []
    for wanted in ports:
        for listener in listeners:
            if listener.port != wanted["port"] or not conflicts(listener, wanted["address"]):
                continue
            pid = holder(proc, listener.inode)
            if pid and supervisor_pid and descends_from(proc, pid, supervisor_pid):
                continue
            if owned(proc, listener, pid, owners()):
                continue
            found.append(f"Port {wanted['port']} ({wanted['purpose']}) is held by {describe(proc, pid)}")
            break
    return found


def answer(*words: str) -> list[str]:
    """The words that a command prints; none when it cannot be run, or fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return []
    return done.stdout.split() if done.returncode == 0 else []


def service_pids(engine: str, label: str) -> list[int]:
    """Main processes of our containers and of our systemd units, as far as this host has such."""
    containers = answer(engine, "ps", "--quiet", "--filter", f"label={label}")
    pids = answer(engine, "inspect", "--format", "{{.State.Pid}}", *containers) if containers else []
    pids += answer("systemctl", "show", "--property=MainPID", "--value", "bimetal-*.service")
    return [int(pid) for pid in pids if int(pid) > 0]


def read_pid(path: Path) -> int | None:
    """The pid in a pid file; None without a file or a number in it."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def main() -> None:
    """Module entry point."""
    kinds = {"address": "str", "port": "int", "purpose": "str"}
    port_options = {name: {"type": kind, "required": True} for name, kind in kinds.items()}
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "dict", "required": True, "options": port_options},
            "supervisor_pid_file": {"type": "path", "required": True},
            "engine": {"type": "str", "default": "docker"},
            "container_label": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    supervisor_pid = read_pid(Path(wanted["supervisor_pid_file"]))
    others = partial(service_pids, wanted["engine"], wanted["container_label"])
    found = problems(Path("/proc"), wanted["ports"], supervisor_pid, others)
    if found:
        module.fail_json(
            msg="\n".join(
                [
                    *found,
                    "Expected: free, or held by this cluster's own services. Stop the holder (if it is a bimetal,"
                    " `make down` in its checkout), or move this cluster: `make up PORT_OFFSET=1000`.",
                ]
            )
        )
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
