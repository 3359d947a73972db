"""Versions of packages, drivers and kernels, compared by their parts and never as strings.

Pure and standard library only; shared with the role rocm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cmp_to_key
from itertools import zip_longest


def numbers(version: str) -> tuple[int, ...]:
    """The leading dotted number without an epoch: `1:535.261.03-1~deb12u1` → (535, 261, 3); () without one."""
    match = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def significant(version: str) -> tuple[int, ...]:
    """The same without trailing zeros: 6.4 and 6.4.0 are one release."""
    parts = list(numbers(version))
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def at_least(version: str, floor: str) -> bool:
    """Whether `version` is `floor` or newer."""
    return significant(version) >= significant(floor)


def matches(version: str, wanted: str) -> bool:
    """Whether a package's version is the wanted one.

    `wanted` is a branch (`535`), an upstream version (`535.261.03`) or, with a revision, the package's whole version.
    """
    if re.search(r"[-:~+]", wanted):
        return version == wanted
    parts = numbers(wanted)
    return numbers(version)[: len(parts)] == parts


def compare(one: str, other: str) -> int:
    """Debian's order of versions, as deb-version(7) has it: negative when `one` is older, 0 when they are equal."""
    for mine, theirs in zip(_fields(one), _fields(other), strict=True):
        order = _compare_field(mine, theirs)
        if order:
            return order
    return 0


def newest(versions: Iterable[str]) -> str | None:
    """The newest by Debian's order; None of none."""
    return max(versions, key=cmp_to_key(compare), default=None)


def _fields(version: str) -> tuple[str, str, str]:
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return epoch, upstream, revision


def _compare_field(one: str, other: str) -> int:
    """Alternating runs of text and digits; text by `_weight`, digits by their value."""
    runs = zip_longest(re.findall(r"(\D*)(\d*)", one), re.findall(r"(\D*)(\d*)", other), fillvalue=("", ""))
    for (text, digits), (other_text, other_digits) in runs:
        for mine, theirs in zip_longest(text, other_text, fillvalue=""):
            if mine != theirs:
                return _weight(mine) - _weight(theirs)
        difference = int(digits or 0) - int(other_digits or 0)
        if difference:
            return difference
    return 0


def _weight(character: str) -> int:
    """A tilde sorts before the end of the text, letters before everything else."""
    if character == "~":
        return -1
    if not character:
        return 0
    return ord(character) if character.isalpha() else ord(character) + 256
