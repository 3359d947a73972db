"""The package set that ran before the present one: what is remembered of it, and the way back to it.

Pure and standard library only; shared with the role rocm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Restoration:
    """What apt-get install is given to restore a set, and what it cannot find any more."""

    arguments: list[str]
    missing: list[str]


def must_record(installed: Mapping[str, str], target: Mapping[str, str]) -> bool:
    """Whether a run will replace something: a first installation has nothing to go back to."""
    return any(target[name] != version for name, version in installed.items() if name in target)


def archive_name(name: str, version: str, architecture: str) -> str:
    """The file name that apt-get download gives a package: an epoch's colon is escaped."""
    return f"{name}_{version.replace(':', '%3a')}_{architecture}.deb"


def find_kept(files: Iterable[str], name: str, version: str) -> str | None:
    """The kept file of a package's version, whatever its architecture."""
    prefix = archive_name(name, version, "")[: -len(".deb")]
    return next((file for file in sorted(files) if file.startswith(prefix)), None)


def restoration(
    previous: Mapping[str, str],
    installed: Mapping[str, str],
    kept: Sequence[str],
    available: Mapping[str, Sequence[str]],
    directory: str,
) -> Restoration:
    """Kept files first, because archives drop versions; a package that the previous set did not have is removed."""
    arguments, missing = [], []
    for name, version in sorted(previous.items()):
        if file := find_kept(kept, name, version):
            arguments.append(f"{directory}/{file}")
        elif version in available.get(name, ()):
            arguments.append(f"{name}={version}")
        elif installed.get(name) != version:
            missing.append(f"{name}={version}")
    arguments += [f"{name}-" for name in sorted(installed) if name not in previous]
    return Restoration(arguments, missing)


def stale(files: Iterable[str], *sets: Mapping[str, str]) -> list[str]:
    """Kept files of no set that is still of use."""
    useful = {find_kept(files, name, version) for packages in sets for name, version in packages.items()}
    return sorted(set(files) - useful)
