"""What apt's sources of both forms say about an archive, and where two of them contradict each other.

Pure and standard library only; shared with the role rocm. apt reads no archive at all when two sources of one archive
name different keys ("Conflicting values set for option Signed-By"), so every file is read before one is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.bimetal.cluster.plugins.module_utils.driver_packages import MARKER

_ONE_LINE = re.compile(r"deb(?:-src)?\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)")
_SIGNED_BY = re.compile(r"(?:^|\s)signed-by=(\S+)", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """One archive in one file: where it stands, and the key that it names ("" for none, whole text if embedded)."""

    path: Path
    line: int
    uri: str
    suite: str
    signed_by: str
    ours: bool = False

    @property
    def place(self) -> str:
        """Where a person finds it."""
        return f"{self.path}:{self.line}"


def same_archive(uri: str, other: str) -> bool:
    """Whether apt takes two URIs for one: a slash at the end makes no difference."""
    return uri.rstrip("/") == other.rstrip("/")


def one_line_entries(path: Path, text: str) -> Iterator[Entry]:
    """The enabled lines of a .list file."""
    for number, line in enumerate(text.splitlines(), 1):
        match = _ONE_LINE.match(line.strip())
        if match:
            key = _SIGNED_BY.search(match["options"] or "")
            yield Entry(path, number, match["uri"], match["suite"], key[1] if key else "", text.startswith(MARKER))


def deb822_entries(path: Path, text: str) -> Iterator[Entry]:
    """The enabled stanzas of a .sources file, one entry for each of their URIs and suites."""
    for start, stanza in _stanzas(text):
        fields = _fields(stanza)
        if fields.get("enabled", "yes").lower() in {"no", "false", "off", "0"}:
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield Entry(path, start, uri, suite, fields.get("signed-by", ""), text.startswith(MARKER))


def _stanzas(text: str) -> Iterator[tuple[int, list[str]]]:
    """Each stanza with the number of its first line."""
    lines: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip():
            lines.append(line)
        elif lines:
            yield number - len(lines), lines
            lines = []


def _fields(stanza: Iterable[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza:
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            fields[name] = f"{fields.get(name, '')}\n{line.strip()}".strip()
        else:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def read_entries(directory: Path) -> list[Entry]:
    """All enabled archives of an apt configuration directory."""
    found: list[Entry] = []
    for path in [directory / "sources.list", *sorted((directory / "sources.list.d").glob("*"))]:
        if path.is_file() and path.suffix == ".list":
            found += one_line_entries(path, path.read_text())
        elif path.is_file() and path.suffix == ".sources":
            found += deb822_entries(path, path.read_text())
    return found


def duplicates(entries: Iterable[Entry], uri: str, own_file: Path) -> list[Path]:
    """Files with our marker and another name that have the archive: left by an earlier version or another role."""
    return sorted(
        {entry.path for entry in entries if entry.ours and entry.path != own_file and same_archive(entry.uri, uri)}
    )


def conflicts(entries: Iterable[Entry], uri: str, suite: str, signed_by: str) -> list[Entry]:
    """Entries that are not ours and name another key for the archive."""
    return [
        entry
        for entry in entries
        if not entry.ours
        and same_archive(entry.uri, uri)
        and entry.suite.rstrip("/") == suite.rstrip("/")
        and entry.signed_by != signed_by
    ]


def stanza(uri: str, suite: str, components: str, signed_by: str, architectures: str) -> str:
    """Our file: a deb822 stanza with our marker. A suite that ends with a slash is a directory without components."""
    fields = {
        "Types": "deb",
        "URIs": uri,
        "Suites": suite,
        "Components": "" if suite.endswith("/") else components,
        "Architectures": architectures,
        "Signed-By": signed_by,
    }
    return f"{MARKER}\n" + "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
