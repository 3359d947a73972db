"""What a person must know of the host to read its results."""

import os
import platform
from pathlib import Path

from bimetal.verify.results import Host


def this_host(threads: int) -> Host:
    """The facts of this machine; `threads` is what a session may use."""
    return Host(
        name=platform.node() or "localhost",
        system=platform.platform(),
        machine=platform.machine(),
        cpu=_cpu_model(),
        cpus=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        cpu_threads=threads,
    )


def _cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """x86 names the model in /proc; elsewhere the architecture has to do."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
