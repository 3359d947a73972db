"""Shared libraries: every one resolves, and the vendor's own come first."""

import os
import subprocess
from pathlib import Path

from checks.outcome import Failed, Skipped

# ldd runs the loader once per file; the driver's own library comes from the host's container toolkit.
FROM_THE_HOST = {"libcuda.so.1", "libnvidia-ml.so.1"}


def every_library_resolves(facts):
    """ldd of every program and library of the image's own folders finds all that it needs."""
    files = [path for folder in facts["code_dirs"] for path in _elf_files(Path(folder))]
    missing = {}
    for path in files:
        for name in _not_found(path) - FROM_THE_HOST:
            missing.setdefault(name, path)
    if missing:
        listed = "; ".join(f"{name} (needed by {path})" for name, path in sorted(missing.items()))
        raise Failed(f"not found: {listed}")
    return f"{len(files)} files, nothing missing"


def vendor_libraries_come_first(facts):
    """For each soname of the vendor the loader takes the one of the vendor's folder."""
    if not facts["libraries"]:
        raise Skipped("this image has no vendor's libraries")
    cache = first_of_each_soname(subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, check=True).stdout)
    wrong = []
    for soname in facts["libraries"]:
        path = cache.get(soname, "nowhere")
        if os.path.dirname(path) not in facts["library_dirs"]:
            wrong.append(f"{soname} is {path}, expected in {' or '.join(facts['library_dirs'])}")
    if wrong:
        raise Failed("; ".join(wrong))
    return f"{len(facts['libraries'])} of the vendor's come from {', '.join(facts['library_dirs'])}"


def _elf_files(folder):
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and (".so" in path.name or os.access(path, os.X_OK)):
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def _not_found(path):
    environment = dict(os.environ)
    if path.parent.name.endswith(".libs"):
        # A wheel's own copies find each other by the rpath of the module that loads them, which ldd does not see.
        environment["LD_LIBRARY_PATH"] = str(path.parent)
    asked = subprocess.run(
        ["ldd", str(path)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    lines = asked.stdout.decode(errors="replace").splitlines()
    return {line.split("=>")[0].strip() for line in lines if line.rstrip().endswith("not found")}


def first_of_each_soname(cache):
    """Paths by soname in what ldconfig prints: the loader takes the first entry."""
    first = {}
    for line in cache.decode().splitlines():
        name, arrow, path = line.strip().partition(" => ")
        if arrow:
            first.setdefault(name.split(" ")[0], os.path.realpath(os.path.dirname(path)) + "/" + os.path.basename(path))
    return first
