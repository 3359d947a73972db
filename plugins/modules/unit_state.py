#!/usr/bin/python
"""Ansible module: whether a systemd service runs, and whether it was started as it is defined now.

Standard library only.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types

DOCUMENTATION = r"""
module: unit_state
short_description: Whether a service runs, and as it is defined now
description:
  - Tells whether a systemd service runs, and whether it was started as it is defined now.
  - Defined now is a digest that the unit hands to its main process as BIMETAL_DEFINITION, because systemd itself
    compares files and its own memory, not what runs.
options:
  unit: {type: str, required: true, description: Name of the service.}
  digest: {type: str, required: true, description: What BIMETAL_DEFINITION of its main process is compared with.}
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.unit_state: {unit: bimetal-router.service, digest: 9f86d081884c7d65}
"""

RETURN = r"""
active: {description: Whether it runs or is about to be started again., type: bool, returned: always}
current: {description: Whether its main process was started with this digest., type: bool, returned: always}
"""

_VARIABLE = b"BIMETAL_DEFINITION="


def started_with(environ: bytes) -> str | None:
    """The digest in a process's environment, as /proc/PID/environ has it; None without one."""
    entries = (entry for entry in environ.split(b"\0") if entry.startswith(_VARIABLE))
    return next((entry.removeprefix(_VARIABLE).decode() for entry in entries), None)


def parse(shown: str) -> dict[str, str]:
    """`systemctl show` as a dictionary."""
    return dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={"unit": {"type": "str", "required": True}, "digest": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    command = ["systemctl", "show", "--property=ActiveState,MainPID", module.params["unit"]]
    shown = parse(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    try:
        running = started_with(Path(f"/proc/{shown.get('MainPID', 0)}/environ").read_bytes())
    except OSError:  # no main process, or it has just ended
        running = None
    active = shown.get("ActiveState") in {"active", "activating", "reloading"}
    module.exit_json(changed=False, active=active, current=running == module.params["digest"])


if __name__ == "__main__":
    main()
