"""Ansible filters: command lines of what is given by name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# $0 is the container's name, $1 the seconds that it has to end, $2 the engine, the rest its arguments. Whatever killed
# an earlier client left its container running, with the ports.
_START = '"$2" stop -t "$1" "$0" >/dev/null 2>&1; "$2" rm --force "$0" >/dev/null 2>&1; shift; exec "$@"'


def command_options(options: Mapping[str, Any]) -> list[str]:
    """`--name=value` for each, in their order; True is the bare `--name`, False and None leave it out."""
    return [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in options.items()
        if value is not None and value is not False
    ]


def container_command(
    program: Mapping[str, Any], *, engine: str, name: str, label: str, log_max_size: str, log_files: int
) -> list[str]:
    """The engine's client that runs a program of role supervisor in a container, in place of any of that name.

    Rights are the narrowest that the images work with (docs/images.md); the host's network, because a Triton's ports
    are in the fleet file and a bridge would cost a copy.
    """
    container, stop_wait_seconds = program["container"], str(program.get("stop_wait_seconds", 15))
    return [
        *("/bin/sh", "-c", _START, name, stop_wait_seconds, engine, "run"),
        *("--rm", "--pull=never", "--name", name, "--label", label, "--network=host", "--read-only", "--tmpfs=/tmp"),
        *("--cap-drop=ALL", "--security-opt=no-new-privileges", "--stop-timeout", stop_wait_seconds),
        *("--log-driver=local", f"--log-opt=max-size={log_max_size}", f"--log-opt=max-file={log_files}"),
        *(f"--env={variable}={value}" for variable, value in sorted(program.get("environment", {}).items())),
        *container.get("options", []),
        container["image"],
        *container.get("arguments", []),
    ]


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., list[str]]]:
        """Each by its own name."""
        return {"command_options": command_options, "container_command": container_command}
