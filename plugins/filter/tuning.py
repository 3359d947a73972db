"""Ansible filters: the environment that the table, the host's facts and the inventory make. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What systemd and Docker read alike: systemd takes quotes, backslashes and the ends' blanks away, Docker does not.
_SAME_FOR_BOTH = re.compile(r"[A-Za-z0-9_./:,=+%@^-]*")


def environment(
    table: Sequence[Row], vendor: str, facts: Mapping[str, Any], values: Mapping[str, Any], extra: Mapping[str, Any]
) -> dict[str, str]:
    """Name and value of every variable that is set, by name.

    A value of the table that names a fact becomes the fact; a fact that nobody could tell (0) sets nothing.
    """
    chosen: dict[str, Any] = {}
    for row in table:
        if vendor in row["vendors"]:
            value = row["value"]
            chosen[row["name"]] = (facts[value] or None) if value in facts else value
    chosen |= {**values, **extra}
    return {name: str(value) for name, value in sorted(chosen.items()) if value is not None}


def problems(table: Sequence[Row], vendor: str, values: Mapping[str, Any], extra: Mapping[str, Any]) -> list[str]:
    """What is wrong with the inventory's values, a sentence each; empty when nothing is."""
    rows = {row["name"]: row for row in table}
    found = [_problem(name, value, rows.get(name), vendor) for name, value in values.items()]
    for name, value in extra.items():
        if name in rows:
            found.append(f"{name} is in the table: set it in tuning_overrides, where its value is checked.")
        elif not _NAME.fullmatch(str(name)):
            found.append(f"'{name}' is no name of a variable.")
        else:
            found.append(_unlike(name, value))
    kept = {name for name, value in values.items() if value is not None}
    found += [
        f"{row['name']} and {row['excludes']} are both set: expected only one of them. {row['why']}"
        for row in table
        if row.get("excludes", "") > row["name"] and {row["name"], row["excludes"]} <= kept
    ]
    return [problem for problem in found if problem]


def _problem(name: str, value: Any, row: Row | None, vendor: str) -> str:
    if row is None:
        return f"{name} is not in the table: set it in tuning_extra if it is no slip of the pen."
    if vendor not in row["vendors"]:
        return f"{name} is for {' and '.join(row['vendors'])}, and this host's vendor is {vendor}."
    if value is None:
        return ""
    parts = str(value).split(",") if "list_of" in row else [str(value)]
    pattern = row.get("list_of") or row["pattern"]
    if not all(re.fullmatch(pattern, part) for part in parts):
        separated = ", separated by commas" if "list_of" in row else ""
        return f"{name} is '{value}': expected {pattern}{separated} ({row['source']})."
    return _unlike(name, value)


def _unlike(name: str, value: Any) -> str:
    """Of a value that systemd and Docker would read in two ways."""
    if value is None or _SAME_FOR_BOTH.fullmatch(str(value)):
        return ""
    return f"{name} is '{value}': expected no blanks, quotes or backslashes, which systemd and Docker read differently."


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Both, with the prefix `tuning_`."""
        return {"tuning_environment": environment, "tuning_problems": problems}
