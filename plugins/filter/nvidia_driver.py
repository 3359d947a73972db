"""Ansible filters: which kernel module, packages and driver a host's GPUs and its CUDA need. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def _numbers(version: str) -> tuple[int, ...]:
    """Leading dotted number: compared by its parts, because "9" is no newer than "11"."""
    match = re.match(r"\d+(?:\.\d+)*", str(version))
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def generations(pci_ids: Sequence[str], table: Sequence[Row]) -> list[str]:
    """Names of the generations of GPUs given by PCI id (`10de:20b0`); an id of no range is newer than the table.

    The newest generation's rules are what fits a newer one best.
    """
    found = []
    for pci_id in pci_ids:
        device = int(pci_id.partition(":")[2] or pci_id, 16)
        rows = [row for row in table for low, high in row["devices"] if int(low, 16) <= device <= int(high, 16)]
        found.append(str((rows or [table[-1]])[0]["name"]))
    return sorted(set(found))


def kernel_module(wanted: str, names: Sequence[str], branch: str, table: Sequence[Row], open_since: str) -> str:
    """`open` or `proprietary` for GPUs of these generations; `wanted` is one of them, or auto.

    auto takes the open one where a GPU knows no other, or where the branch's own default (`open_since`) is open and
    every GPU can have it. Raises ValueError where no module of the branch drives all GPUs.
    """
    rows = [row for row in table if row["name"] in names]
    for row in rows:
        _check_branch(row, branch)
    possible = [kind for kind in ("open", "proprietary") if all(kind in row["modules"] for row in rows)]
    what = ", ".join(f"{row['name']} ({' or '.join(row['modules'])})" for row in rows)
    if not possible:
        raise ValueError(f"No kernel module drives all GPUs of this host: {what}. Move cards between hosts.")
    if wanted == "auto":
        prefers_open = _numbers(branch) >= _numbers(open_since) or any(row["modules"] == ["open"] for row in rows)
        return "open" if prefers_open and "open" in possible else possible[-1]
    if wanted not in possible:
        raise ValueError(
            f"The {wanted} kernel module does not drive this host's GPUs: {what}."
            f" Set nvidia_driver_kernel_module to {possible[0]} or auto."
        )
    return wanted


def _check_branch(row: Row, branch: str) -> None:
    first, last = row.get("first_branch"), row.get("last_branch")
    too_old = first is not None and _numbers(branch) < _numbers(first)
    too_new = last is not None and _numbers(branch)[:1] > _numbers(last)
    if too_old or too_new:
        expected = f"{first} or newer" if too_old else f"{last} or older"
        raise ValueError(f"Branch {branch} does not drive {row['name']} GPUs: expected branch {expected}.")


def cuda_row(cuda: str, table: Sequence[Row]) -> Row:
    """The matrix's row of a CUDA release (`11.8`, `12.2.2`).

    Raises ValueError for one that the matrix does not have.
    """
    for row in table:
        if _numbers(row["cuda"]) == _numbers(cuda):
            return row
    raise ValueError(f"CUDA {cuda} is not in the matrix: expected one of {', '.join(row['cuda'] for row in table)}.")


def cuda_problem(driver: str, cuda: str, table: Sequence[Row]) -> str:
    """Why a driver (version or branch) cannot run what a CUDA toolkit builds; empty when it can.

    A branch alone is enough when its number is; of a floor within the branch the exact version decides later.
    """
    floor = cuda_row(cuda, table)["driver"]
    parts = len(_numbers(driver))
    if _numbers(driver) >= _numbers(floor)[:parts]:
        return ""
    return f"CUDA {cuda} needs driver {floor} or newer, and this would be {driver}."


def packages(spec: Row, branch: str, module: str) -> list[str]:
    """The packages of one installation source, with the branch where their names have it."""
    names = [*spec["modules"][module], *spec["userland"]]
    return [str(name).format(branch=_numbers(branch)[0]) for name in names]


def fabric_manager(available: Sequence[str], branch: str) -> str:
    """The fabric manager's package among those of the driver's exact version: with the branch in its name, or not."""
    for name in (f"nvidia-fabricmanager-{_numbers(branch)[0]}", "nvidia-fabricmanager"):
        if name in available:
            return name
    return ""


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Each is the function of its name with the prefix `nvidia_driver_`."""
        functions = (generations, kernel_module, cuda_row, cuda_problem, packages, fabric_manager)
        return {f"nvidia_driver_{function.__name__}": function for function in functions}
