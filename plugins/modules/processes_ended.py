#!/usr/bin/python
"""Ansible module: end every process with a given environment variable.

Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types

DOCUMENTATION = r"""
module: processes_ended
short_description: End marked processes
description:
  - Tells every process with a given environment variable to end, waits, and kills what remains.
  - The variable is inherited by everything that was started, also by a grandchild whose parent was killed and that no
    supervisor knows any more.
options:
  environment_name: {type: str, required: true, description: Variable that marks a process.}
  environment_value: {type: str, required: true, description: Its value.}
  timeout_seconds:
    description: Seconds they may take to end after SIGTERM; after that, SIGKILL.
    type: int
    default: 60
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.processes_ended:
    environment_name: BIMETAL_STATE_DIR
    environment_value: /var/lib/bimetal
"""

RETURN = r"""
killed:
  description: Processes that had to be killed, as "pid command".
  type: list
  returned: always
"""

_POLL_SECONDS = 0.1
_KILL_GRACE_SECONDS = 5.0


def marked(proc: Path, entry: bytes) -> dict[int, str]:
    """Living processes whose environment has `entry` (b"NAME=value"), with their commands."""
    found = {}
    for process in proc.glob("[0-9]*"):
        try:
            # A zombie has an empty environment: nothing is left of it but an exit status.
            if entry in (process / "environ").read_bytes().split(b"\0"):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(process.name)] = command.decode(errors="replace").strip()
        except OSError:  # ended meanwhile, or another user's
            continue
    return found


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Signal each process that still exists."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_until_gone(proc: Path, entry: bytes, seconds: float) -> dict[int, str]:
    """Poll until no marked process is left or the time is over; returns what is left."""
    deadline = time.monotonic() + seconds
    while (left := marked(proc, entry)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return left


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={
            "environment_name": {"type": "str", "required": True},
            "environment_value": {"type": "str", "required": True},
            "timeout_seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    entry = f"{module.params['environment_name']}={module.params['environment_value']}".encode()
    proc = Path("/proc")
    running = marked(proc, entry)
    if module.check_mode:
        module.exit_json(changed=bool(running), killed=[])
    send(running, signal.SIGTERM)
    left = wait_until_gone(proc, entry, module.params["timeout_seconds"])
    send(left, signal.SIGKILL)
    stubborn = wait_until_gone(proc, entry, _KILL_GRACE_SECONDS)
    if stubborn:
        names = ", ".join(f"{pid} ({command})" for pid, command in stubborn.items())
        module.fail_json(msg=f"These processes outlived SIGKILL: {names}. Expected none; see their state in `ps`.")
    module.exit_json(changed=bool(running), killed=[f"{pid} {command}" for pid, command in left.items()])


if __name__ == "__main__":
    main()
