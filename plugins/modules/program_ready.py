#!/usr/bin/python
"""Ansible module: wait until a program of supervisord or systemd answers 200, or say why it does not.

Standard library only.
"""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types

DOCUMENTATION = r"""
module: program_ready
short_description: Wait until the URL of a supervised program answers 200
description:
  - Waits until a program of supervisord or systemd answers, or says why it does not.
  - M(ansible.builtin.uri) with C(until) would print one red line per second, and would wait out its time for a
    program that crashes at every start. This one shows the end of the program's log as soon as it knows.
options:
  name: {type: str, required: true, description: The program's name in supervisord.}
  url: {type: str, required: true, description: What must answer 200.}
  timeout_seconds: {type: int, default: 60, description: How long it may take.}
  supervisorctl: {type: list, elements: str, required: true, description: Command that asks its supervisord.}
  log: {type: path, required: true, description: The program's log.}
  systemd_unit: {type: str, description: The program's unit; with it systemd and its journal are asked instead.}
  log_tail_lines: {type: int, default: 25, description: Lines of the log that an error shows.}
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.program_ready:
    name: triton-cuda-0
    url: http://127.0.0.1:18000/v2/health/ready
    supervisorctl: [supervisorctl, -c, /var/lib/bimetal/supervisor/supervisord.conf]
    log: /var/lib/bimetal/log/triton-cuda-0.log
"""

RETURN = r"""
changed:
  description: Never true; the module only waits, and fails for a program that does not get ready.
  returned: always
  type: bool
"""

_POLL_SECONDS = 0.25
_REQUEST_SECONDS = 2.0
_STARTS_OF_A_CRASH_LOOP = 3
# Readiness is asked of this machine: a proxy from the environment would answer for itself.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Program(NamedTuple):
    """What supervisord says: a state such as RUNNING or BACKOFF, and the pid where there is one."""

    state: str
    pid: int | None


def parse_status(line: str) -> Program:
    """Read `supervisorctl status NAME`: "NAME   RUNNING   pid 12, uptime 0:00:05"."""
    words = line.split()
    if len(words) < 2:
        return Program("UNKNOWN", None)
    pid = int(words[3].rstrip(",")) if words[2:3] == ["pid"] else None
    return Program(words[1], pid)


# What systemd's states mean in supervisord's words.
_STATES = {"active": "RUNNING", "activating": "BACKOFF", "failed": "FATAL", "inactive": "STOPPED"}


def parse_unit(shown: str) -> Program:
    """Read `systemctl show --property=ActiveState,MainPID`; a pid of 0 is none."""
    values = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    state = values.get("ActiveState", "")
    return Program(_STATES.get(state, state.upper() or "UNKNOWN"), int(values.get("MainPID", "0")) or None)


def hopeless(seen: list[Program]) -> str | None:
    """Why more waiting is in vain, judged by the program's states so far; None while there is hope."""
    if seen and seen[-1].state == "FATAL":
        return "supervisord gave up starting it"
    pids = {program.pid for program in seen if program.pid}
    backoffs = sum(1 for program in seen if program.state == "BACKOFF")
    if max(len(pids), backoffs) > _STARTS_OF_A_CRASH_LOOP:
        return "it ends soon after each start"
    return None


def ask(url: str) -> str | None:
    """None for 200, otherwise what came instead."""
    try:
        with _OPENER.open(url, timeout=_REQUEST_SECONDS) as answer:
            return None if answer.status == 200 else f"status {answer.status}"
    except urllib.error.HTTPError as error:
        return f"status {error.code}"
    except OSError as error:
        return str(getattr(error, "reason", error))


def wait(url: str, timeout_seconds: float, status: Callable[[], Program]) -> str | None:
    """Poll until `url` answers 200 (returns None) or there is no hope (returns why)."""
    deadline = time.monotonic() + timeout_seconds
    seen: list[Program] = []
    while (instead := ask(url)) is not None:
        seen.append(status())
        if reason := hopeless(seen):
            return f"{reason} (last answer: {instead})"
        if time.monotonic() >= deadline:
            return f"no 200 within {timeout_seconds:g} s (last answer: {instead}; program {seen[-1].state})"
        time.sleep(_POLL_SECONDS)
    return None


def output(*words: str) -> str:
    """What a command prints, whatever its status."""
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def tail(path: Path, lines: int) -> str:
    """The last lines of a log, indented; says so when there is none."""
    try:
        return indented(path.read_text(errors="replace"), lines)
    except OSError as error:
        return f"  (no log: {error})"


def indented(text: str, lines: int) -> str:
    """The last lines of a text."""
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:]) or "  (empty)"


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "url": {"type": "str", "required": True},
            "timeout_seconds": {"type": "int", "default": 60},
            "supervisorctl": {"type": "list", "elements": "str", "required": True},
            "log": {"type": "path", "required": True},
            "log_tail_lines": {"type": "int", "default": 25},
            "systemd_unit": {"type": "str"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    if module.check_mode:
        module.exit_json(changed=False)

    unit, lines = wanted["systemd_unit"], wanted["log_tail_lines"]

    def status() -> Program:
        if unit:
            return parse_unit(output("systemctl", "show", "--property=ActiveState,MainPID", unit))
        return parse_status(output(*wanted["supervisorctl"], "status", wanted["name"]))

    problem = wait(wanted["url"], wanted["timeout_seconds"], status)
    if problem:
        if unit:
            log = f"`journalctl -u {unit}`"
            end = indented(
                output("journalctl", "--unit", unit, f"--lines={lines}", "--output=cat", "--no-pager"), lines
            )
        else:
            log, end = wanted["log"], tail(Path(wanted["log"]), lines)
        module.fail_json(
            msg=f"{wanted['name']} is not ready: expected 200 from {wanted['url']}, but {problem}.\n"
            f"The end of its log, {log}:\n{end}\n"
            "Next: correct what the log names, then run the playbook (`make up`) again."
        )
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
