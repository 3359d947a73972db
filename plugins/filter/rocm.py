"""Ansible filters: what AMD's matrix says of a ROCm release, a driver and a kernel, and what the loader finds first.

Pure. Releases and kernels are compared by their parts: 6.4 and 6.4.0 are one release, 6.10 is a newer kernel than 6.8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", str(version))
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _release(version: str) -> tuple[int, ...]:
    """Without trailing zeros: 7.0 and 7.0.0 are the same, and 7 is too."""
    parts = list(_numbers(version))
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def row(rocm: str, matrix: Sequence[Row]) -> Row:
    """The matrix's row of a release, however its zeros are written.

    Raises ValueError for a release that the matrix does not have.
    """
    for entry in matrix:
        if _release(entry["rocm"]) == _release(rocm):
            return entry
    known = ", ".join(entry["rocm"] for entry in matrix)
    raise ValueError(f"ROCm {rocm} is not in the matrix: expected one of {known}.")


def distribution_key(distribution: str, version: str, family: str) -> str:
    """The matrix's name of a distribution: `Ubuntu 24.04`, `Debian 12`, `RHEL 9` also for RHEL's clones."""
    if distribution == "Ubuntu":
        return f"Ubuntu {version}"
    return f"{'RHEL' if family == 'RedHat' else distribution} {_numbers(version)[0]}"


def kernel_fits(kernel: str, wanted: str) -> bool:
    """Whether a running kernel (`6.8.0-45-generic`) is of a supported one (`6.8`, `5.14.0-570`)."""
    base, _, build = wanted.partition("-")
    own_base, _, own_build = kernel.partition("-")
    parts = _numbers(base)
    same = _numbers(own_base)[: len(parts)] == parts
    return same and (not build or _numbers(own_build)[:1] == _numbers(build)[:1])


def kernel_problem(kernel: str, distribution: str, entry: Row) -> str:
    """Why a release's driver is not for a kernel; empty when it is."""
    supported = entry["kernels"].get(distribution)
    if supported is None:
        return f"ROCm {entry['rocm']} is not for {distribution}: expected one of {', '.join(entry['kernels'])}."
    if any(kernel_fits(kernel, wanted) for wanted in supported):
        return ""
    return (
        f"Kernel {kernel} is none that amdgpu {entry['amdgpu']} of ROCm {entry['rocm']} builds for on {distribution}:"
        f" expected {' or '.join(supported)}."
    )


def driver_problem(amdgpu: str, rocm: str, matrix: Sequence[Row]) -> str:
    """Why a driver that is not the release's own does not go with it; empty when it does or nobody says."""
    for entry in matrix:
        if _numbers(entry["amdgpu"])[:2] == _numbers(amdgpu)[:2]:
            if any(_numbers(known)[:2] == (*_numbers(rocm), 0)[:2] for known in entry["rocm"]):
                return ""
            return f"amdgpu {amdgpu} goes with ROCm {', '.join(entry['rocm'])}, and this is {rocm}."
    return f"amdgpu {amdgpu} is in no row of the driver matrix."


def loader_order(text: str) -> dict[str, list[str]]:
    """Libraries that `ldconfig -p` has more than once for this architecture, with their paths: the first wins."""
    paths: dict[str, list[str]] = {}
    for line in text.splitlines():
        match = re.match(r"\s*(\S+) \((?!.*(?:x32|i386)).*\) => (\S+)", line)
        if match and match[2] not in paths.setdefault(match[1], []):
            paths[match[1]].append(match[2])
    return {name: found for name, found in paths.items() if len({path.rpartition("/")[0] for path in found}) > 1}


def shadowing(order: Mapping[str, Sequence[str]], prefix: str) -> list[str]:
    """Libraries of which the copy below `prefix` hides one of elsewhere, as `NAME: first before second`."""
    return [
        f"{name}: {paths[0]} before {', '.join(paths[1:])}"
        for name, paths in sorted(order.items())
        if paths[0].startswith(prefix) and not all(path.startswith(prefix) for path in paths)
    ]


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Each is the function of its name with the prefix `rocm_`."""
        functions = (row, distribution_key, kernel_problem, driver_problem, loader_order, shadowing)
        return {f"rocm_{function.__name__}": function for function in functions}
