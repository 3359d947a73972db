#!/usr/bin/python
"""Ansible module: the container engine of this host, as it is installed and as it runs. Standard library only."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils import daemon_config

if TYPE_CHECKING:
    from typing import Any as Module

DOCUMENTATION = r"""
module: docker_engine_info
short_description: Tell which container engine a host has
description:
  - Tells of the container engine as it is installed and as it runs.
options:
  packages:
    description: Packages that are looked for.
    type: list
    elements: str
    default: []
  root:
    description: Root of the host's file system.
    type: path
    default: /
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.docker_engine_info:
    packages: [docker.io, docker-ce]
  register: engine
"""

RETURN = r"""
version:
  description: Version of dockerd; empty without one.
  type: str
  returned: always
snap:
  description: Whether Docker is installed as a snap.
  type: bool
  returned: always
podman:
  description: Whether the command docker is Podman's.
  type: bool
  returned: always
packages:
  description: Those of the packages that are installed, with their versions.
  type: dict
  returned: always
argv:
  description: Command line of the running engine, or of its unit.
  type: list
  elements: str
  returned: always
config_file:
  description: The file that the command line names; empty for dockerd's own.
  type: str
  returned: always
answers:
  description: Whether the engine answers; what it said otherwise is in C(problem).
  type: bool
  returned: always
containers:
  description: Names of running containers.
  type: list
  elements: str
  returned: always
runtimes:
  description: Runtimes of the engine as it runs, with their programs.
  type: dict
  returned: always
cdi_directories:
  description: Directories that the engine reads CDI files from; empty where CDI is off.
  type: list
  elements: str
  returned: always
live_restore:
  description: Whether containers outlive a restart of the engine.
  type: bool
  returned: always
"""

# Where snapd keeps the snap, and where it is mounted.
_SNAPS = ("snap/docker/current", "var/lib/snapd/snaps/docker_*.snap")


def run(module: Module, *command: str) -> tuple[int, str, str]:
    """Exit status and outputs in the C locale; 127 for a command that is not there."""
    if module.get_bin_path(command[0]) is None:
        return 127, "", f"{command[0]} is not installed"
    status, output, errors = module.run_command(list(command), environ_update={"LC_ALL": "C"})
    return status, str(output), str(errors)


def is_snap(root: Path) -> bool:
    """Whether Docker is a snap, whatever else is installed beside it."""
    return any(True for pattern in _SNAPS for _ in root.glob(pattern))


def version_of(text: str) -> str:
    """`Docker version 26.1.5+dfsg1, build a72d7cd` → 26.1.5."""
    match = re.search(r"Docker version (\d+(?:\.\d+)+)", text)
    return match[1] if match else ""


def installed(module: Module, names: list[str]) -> dict[str, str]:
    """Versions of those packages that are installed, as dpkg or rpm says."""
    found = {}
    for name in names:
        status, output, _ = run(module, "dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Version}", name)
        if status == 127:
            status, output, _ = run(module, "rpm", "--query", "--queryformat", "installed %{VERSION}-%{RELEASE}", name)
        state, _, version = output.partition(" ")
        if status == 0 and state == "installed":
            found[name] = version
    return found


def command_line(module: Module, root: Path) -> list[str]:
    """What the engine runs with: the process's own words, or the unit's where none runs."""
    _, output, _ = run(module, "systemctl", "show", "--property=MainPID,ExecStart", "docker.service")
    pid = re.search(r"^MainPID=([1-9]\d*)$", output, re.MULTILINE)
    if pid:
        words = (root / f"proc/{pid[1]}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return [word for word in words if word]
    unit = re.search(r"argv\[\]=(.*?) ;", output)
    return [word for word in unit[1].split() if not word.startswith("$")] if unit else []


def running_engine(module: Module) -> dict[str, Any]:
    """What the engine says of itself."""
    silent = {"answers": False, "containers": [], "runtimes": {}, "cdi_directories": [], "live_restore": False}
    status, output, errors = run(module, "docker", "info", "--format", "{{json .}}")
    try:
        info = json.loads(output)
    except ValueError:
        return silent | {"problem": " ".join(errors.split()) or f"docker info ended with {status}"}
    if info.get("ServerErrors"):
        return silent | {"problem": " ".join(info["ServerErrors"])}
    _, names, _ = run(module, "docker", "ps", "--format", "{{.Names}}")
    return {
        "answers": True,
        "problem": "",
        "containers": names.split(),
        "runtimes": {name: entry.get("path", "") for name, entry in (info.get("Runtimes") or {}).items()},
        "cdi_directories": info.get("CDISpecDirs") or [],
        "live_restore": bool(info.get("LiveRestoreEnabled")),
    }


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "list", "elements": "str", "default": []},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    root = Path(module.params["root"])
    argv = command_line(module, root)
    module.exit_json(
        changed=False,
        version=version_of(run(module, "dockerd", "--version")[1]),
        snap=is_snap(root),
        podman=run(module, "docker", "--version")[1].startswith("podman"),
        packages=installed(module, module.params["packages"]),
        argv=argv,
        config_file=daemon_config.config_file(argv) or "",
        **running_engine(module),
    )


if __name__ == "__main__":
    main()
