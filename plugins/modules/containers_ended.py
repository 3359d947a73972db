#!/usr/bin/python
"""Ansible module: wait until no container of a cluster is left, ending those that nobody told to end.

Standard library only.
"""

from __future__ import annotations

import contextlib
import subprocess

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types

DOCUMENTATION = r"""
module: containers_ended
short_description: Stop and remove every container with a label
description:
  - Waits until no container of a cluster is left, and ends those that nobody told to end.
  - Through the engine's command line, because its Python library is not everywhere.
options:
  engine: {type: str, default: docker, description: The engine's command line.}
  label: {type: str, required: true, description: NAME=VALUE that all of them have.}
  required: {type: bool, default: false, description: Whether an engine that does not answer is an error.}
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.containers_ended: {label: org.bimetal.cluster=/var/lib/bimetal}
"""

RETURN = r"""
removed: {description: Names of the containers that were still there., type: list, elements: str, returned: always}
"""


class EngineError(Exception):
    """The engine did not do what it was asked; its own words."""


def ask(*words: str) -> list[str]:
    """The lines that a command of the engine prints. Raises EngineError."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EngineError(str(error)) from error
    if done.returncode != 0:
        raise EngineError(done.stderr.strip() or f"{words[0]} ended with {done.returncode}")
    return done.stdout.split()


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={
            "engine": {"type": "str", "default": "docker"},
            "label": {"type": "str", "required": True},
            "required": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    engine, label = module.params["engine"], module.params["label"]
    listing = (engine, "ps", "--all", "--filter", f"label={label}", "--format", "{{.Names}}")
    try:
        found = ask(*listing)
    except EngineError as error:
        if module.params["required"]:
            module.fail_json(
                msg=f"Whether containers are left is not known: {error}. Expected {engine} to answer, because this "
                "cluster has run containers. Start the engine (systemctl start docker), then try again."
            )
        module.exit_json(changed=False, removed=[])
    if found and not module.check_mode:
        # Each in the time that it was started with (--stop-timeout). One that is on its way already is no error.
        with contextlib.suppress(EngineError):
            ask(engine, "stop", *found)
        try:
            left = ask(*listing)
            if left:
                ask(engine, "rm", "--force", *left)
            left = ask(*listing)
        except EngineError as error:
            module.fail_json(msg=f"The containers {', '.join(found)} were not removed: {error}.")
        if left:
            module.fail_json(msg=f"These containers cannot be removed: {', '.join(left)}. See `{engine} ps --all`.")
    module.exit_json(changed=bool(found), removed=found)


if __name__ == "__main__":
    main()
