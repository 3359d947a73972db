"""A driver is a set of packages that fit each other: which versions make up a set, and what keeps apt to it.

Pure and standard library only; shared with the role rocm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.bimetal.cluster.plugins.module_utils.driver_versions import matches, newest, numbers

MARKER = "# Managed by Ansible (bimetal): change the inventory, not this file."


class PackageSetError(Exception):
    """apt cannot give a set of one version; the message says which package lacks it and what to do."""


@dataclass(frozen=True)
class PackageSet:
    """One upstream version and the whole version of every package that has it."""

    version: str
    packages: dict[str, str]


@dataclass(frozen=True)
class Candidate:
    """What apt would install of one package: its version and the archives that have that version."""

    version: str | None
    archives: tuple[str, ...]


@dataclass
class _Policy:
    candidate: str | None = None
    archives: dict[str, list[str]] = field(default_factory=dict)


def selected(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Names that one of the regular expressions matches as a whole."""
    expressions = [re.compile(pattern) for pattern in patterns]
    return sorted({name for name in names if any(expression.fullmatch(name) for expression in expressions)})


def parse_madison(text: str) -> dict[str, list[str]]:
    """`apt-cache madison`: package → its versions of all archives, sources left out."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        columns = [column.strip() for column in line.split("|")]
        if len(columns) == 3 and not columns[2].endswith(" Sources"):
            versions = found.setdefault(columns[0], [])
            if columns[1] not in versions:
                versions.append(columns[1])
    return found


def parse_installed(text: str) -> dict[str, str]:
    """`dpkg-query --show --showformat '${binary:Package} ${Version} ${db:Status-Status}\\n'`: what is installed."""
    rows = (line.split() for line in text.splitlines())
    return {row[0].partition(":")[0]: row[1] for row in rows if len(row) == 3 and row[2] == "installed"}


def parse_policy(text: str) -> dict[str, Candidate]:
    """`LC_ALL=C apt-cache policy NAME…`: package → its candidate."""
    policies: dict[str, _Policy] = {}
    policy, version = _Policy(), ""
    for line in text.splitlines():
        if not line.startswith(" ") and line.endswith(":"):
            policy = policies.setdefault(line[:-1], _Policy())
        elif line.startswith("  Candidate: "):
            policy.candidate = line.partition(": ")[2].replace("(none)", "") or None
        elif match := re.match(r" (?:\*\*\*|   ) (\S+) -?\d+$", line):
            version = match[1]
        elif match := re.match(r"\s+-?\d+ (\S.*)$", line):
            policy.archives.setdefault(version, []).append(match[1])
    return {
        name: Candidate(policy.candidate, tuple(policy.archives.get(policy.candidate or "", ())))
        for name, policy in policies.items()
    }


def choose(
    available: Mapping[str, Sequence[str]], required: Sequence[str], lagging: Sequence[str], wanted: str
) -> PackageSet:
    """The newest version that every required package has, with every other package of that version.

    `lagging` names packages that the distribution updates less often than the driver: they get the newest version
    of the same branch that is not newer than the driver, where there is one. Raises PackageSetError when the required
    packages have no wanted version in common.
    """
    lockstep = [name for name in required if name not in lagging]
    offers = {name: [v for v in available.get(name, ()) if matches(v, wanted)] for name in lockstep}
    common = set.intersection(*({numbers(version) for version in versions} for versions in offers.values()))
    if not common:
        raise PackageSetError(_nothing_in_common(available, lockstep, wanted))
    upstream = max(common)
    packages = {}
    for name, versions in available.items():
        fitting = [version for version in versions if numbers(version) == upstream]
        if matching := [version for version in fitting if matches(version, wanted)]:
            fitting = matching
        if not fitting and name in lagging:
            of_branch = [version for version in versions if numbers(version)[:1] == upstream[:1]]
            fitting = [version for version in of_branch if numbers(version) <= upstream] or of_branch
        best = newest(fitting)
        if best:
            packages[name] = best
    if unfit := [name for name in required if name not in packages]:
        raise PackageSetError(_nothing_in_common(available, unfit, str(upstream[0])))
    # The version as packages spell it: 535.261.03, not 535.261.3.
    spelled = re.match(r"(?:\d+:)?([\d.]+)", packages[lockstep[0]])
    return PackageSet(spelled[1] if spelled else "", packages)


def _nothing_in_common(available: Mapping[str, Sequence[str]], names: Sequence[str], wanted: str) -> str:
    known = "; ".join(f"{name}: {', '.join(available.get(name, ())) or 'unknown to apt'}" for name in names)
    return f"No version {wanted} that all of {', '.join(names)} have. apt knows {known}."


def preferences(packages: Mapping[str, str], explanation: str) -> str:
    """apt_preferences(5) that hold every package of a set to its version.

    Priority 1001, because a set that is older than what is installed must be had too.
    """
    by_version: dict[str, list[str]] = {}
    for name, version in sorted(packages.items()):
        by_version.setdefault(version, []).append(name)
    stanzas = [
        f"Explanation: {explanation}\nPackage: {' '.join(names)}\nPin: version {version}\nPin-Priority: 1001\n"
        for version, names in sorted(by_version.items())
    ]
    return f"{MARKER}\n\n" + "\n".join(stanzas)


def outranked(candidates: Mapping[str, Candidate], packages: Mapping[str, str]) -> dict[str, str]:
    """Packages of a set of which apt would install something else, with what that is."""
    return {
        name: (candidates[name].version if name in candidates else None) or "nothing"
        for name, version in sorted(packages.items())
        if name not in candidates or candidates[name].version != version
    }


def from_elsewhere(candidates: Mapping[str, Candidate], uris: Sequence[str]) -> list[str]:
    """Packages whose candidate comes from none of the archives, as `NAME VERSION of ARCHIVE`."""
    wanted = {uri.rstrip("/") for uri in uris}
    return [
        f"{name} {candidate.version or '(none)'} of {', '.join(candidate.archives) or 'no archive'}"
        for name, candidate in sorted(candidates.items())
        if not any(archive.split()[0].rstrip("/") in wanted for archive in candidate.archives)
    ]
