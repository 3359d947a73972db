"""The running kernel: release, command line, build configuration, modules, DKMS."""

from __future__ import annotations

import gzip
import re
import zlib

from .host import Host
from .reading import Json


def release(host: Host) -> str | None:
    """`uname -r`."""
    return host.read("/proc/sys/kernel/osrelease")


def command_line(host: Host) -> list[str]:
    """The parameters that this kernel was booted with."""
    return (host.read("/proc/cmdline") or "").split()


def parameter(host: Host, name: str) -> str | None:
    """The last value of a parameter (the kernel's own rule); "" for one without a value, None when absent."""
    values = [word.partition("=")[2] for word in command_line(host) if word.partition("=")[0] == name]
    return values[-1] if values else None


def built_with(host: Host, option: str) -> bool | None:
    """Whether CONFIG_option is y or m; None where the kernel's configuration is not to be had."""
    text = host.read(f"/boot/config-{release(host)}") or _running_config(host)
    return None if text is None else re.search(rf"^CONFIG_{option}=[ym]$", text, re.MULTILINE) is not None


def _running_config(host: Host) -> str | None:
    content = host.read_bytes("/proc/config.gz")
    if content is None:
        return None
    try:
        return gzip.decompress(content).decode(errors="replace")
    except (OSError, EOFError, zlib.error):
        return None


def module_loaded(host: Host, name: str) -> bool:
    """Loaded, or built in and with parameters."""
    return host.exists(f"/sys/module/{name}")


def module_file(host: Host, *names: str) -> str | None:
    """The first of these modules that the running kernel has, as modules.dep or modules.builtin lists it.

    Debian's NVIDIA module is nvidia-current.ko, and the files may be compressed.
    """
    for index in ("modules.dep", "modules.builtin"):
        listed = host.read(f"/lib/modules/{release(host)}/{index}") or ""
        for name in names:
            match = re.search(rf"^(\S*/{re.escape(name)}\.ko(?:\.\w+)?)(?::|$)", listed, re.MULTILINE)
            if match:
                return match.group(1)
    return None


def headers_installed(host: Host) -> bool:
    """What DKMS needs to build a module for the running kernel."""
    return host.exists(f"/lib/modules/{release(host)}/build")


_DKMS = re.compile(
    r"^(?P<module>[^/,]+)[/,] ?(?P<version>[^,:]+)(?:, (?P<kernel>[^,]+), [^:]+)?: (?P<state>\w+)", re.MULTILINE
)


def dkms(host: Host) -> list[Json]:
    """`dkms status`, in the spelling of 2.x (`nvidia, 470.57, 5.4.0, x86_64: installed`) and 3.x (`nvidia/470.57, …`).

    `kernel` is None for a source that is added and built for no kernel.
    """
    run = host.run("dkms", "status")
    return [match.groupdict() for match in _DKMS.finditer(run.stdout)]
