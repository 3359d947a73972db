#!/usr/bin/python
"""Ansible module: is a component of Debian's archive enabled, and what would enable it? Standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types

DOCUMENTATION = r"""
module: apt_component_info
short_description: Tell whether a component of Debian's archive is enabled
description:
  - Reads apt's sources and proposes stanzas that enable the component.
  - The stanzas repeat the options of the sources they extend. Apt refuses two sources of one archive with different
    Signed-By values, and then no package can be installed at all.
options:
  component:
    description: The component, for example C(non-free-firmware).
    type: str
    required: true
  codename:
    description: The release's codename, for example C(bookworm).
    type: str
    required: true
  uri_pattern:
    description: Regular expression that the URIs of Debian's archive and its mirrors match.
    type: str
    required: true
  own_file:
    description: The file with the proposed stanzas; it does not count.
    type: path
    required: true
  directory:
    description: apt's configuration.
    type: path
    default: /etc/apt
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.apt_component_info:
    component: non-free-firmware
    codename: bookworm
    uri_pattern: /debian/?$
    own_file: /etc/apt/sources.list.d/own.sources
"""

RETURN = r"""
archives:
  description: Every archive and suite that was recognised as Debian's.
  type: list
  elements: str
  returned: always
stanzas:
  description: What enables the component where it is missing; empty when nothing is missing.
  type: str
  returned: always
"""

# One-line options whose deb822 fields are not just their capitalised names (sources.list(5)).
_FIELDS = {"arch": "Architectures", "lang": "Languages", "target": "Targets", "pdiffs": "PDiffs"}
_ONE_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>[^#]+)")


@dataclass(frozen=True)
class Source:
    """One source of binary packages."""

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    # deb822 field → value, lines of a multi-line value included.
    options: dict[str, str] = field(default_factory=dict)


def one_line_sources(text: str) -> Iterator[Source]:
    """The `deb` lines of a .list file."""
    for line in text.splitlines():
        match = _ONE_LINE.match(line.strip())
        if match:
            words = (word.partition("=") for word in (match["options"] or "").split())
            options = {_FIELDS.get(name.lower(), name.title()): value.replace(",", " ") for name, _, value in words}
            yield Source((match["uri"],), (match["suite"],), tuple(match["components"].split()), options)


def deb822_sources(text: str) -> Iterator[Source]:
    """The enabled stanzas of a .sources file."""
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace():
                fields[name] = f"{fields.get(name, '')}\n{line}"
            else:
                name, _, value = line.partition(":")
                name = name.strip().title().replace("Uris", "URIs")
                fields[name] = value.strip()
        lists = {name: tuple(fields.pop(name, "").split()) for name in ("Types", "URIs", "Suites", "Components")}
        if "deb" in lists["Types"] and fields.pop("Enabled", "yes").lower() not in {"no", "false", "off", "0"}:
            yield Source(lists["URIs"], lists["Suites"], lists["Components"], fields)


def read_sources(directory: Path, own_file: Path) -> list[Source]:
    """All sources that apt reads, except those of our own file."""
    paths = [directory / "sources.list", *sorted((directory / "sources.list.d").glob("*"))]
    found: list[Source] = []
    for path in paths:
        if path == own_file or not path.is_file():
            continue
        if path.suffix == ".list":
            found += one_line_sources(path.read_text())
        elif path.suffix == ".sources":
            found += deb822_sources(path.read_text())
    return found


def archives(sources: Iterable[Source], codename: str, uri_pattern: str) -> list[tuple[str, str, Source]]:
    """(URI, suite, source) of all that is Debian's archive: its URI, a suite of the release, and main."""
    suites = {codename, f"{codename}-updates", f"{codename}-security"}
    return [
        (uri, suite, source)
        for source in sources
        if "main" in source.components
        for uri in source.uris
        if re.search(uri_pattern, uri)
        for suite in source.suites
        if suite in suites
    ]


def stanzas(sources: Iterable[Source], codename: str, uri_pattern: str, component: str) -> str:
    """deb822 text that adds the component wherever an archive's suite has main and lacks it."""
    known = list(sources)
    having = {
        (uri.rstrip("/"), suite)
        for source in known
        if component in source.components
        for uri in source.uris
        for suite in source.suites
    }
    texts = []
    for uri, suite, source in archives(known, codename, uri_pattern):
        if (uri.rstrip("/"), suite) not in having:
            having.add((uri.rstrip("/"), suite))
            fields = {"Types": "deb", "URIs": uri, "Suites": suite, "Components": component, **source.options}
            texts.append("".join(f"{name}: {value}\n" for name, value in fields.items()))
    return "\n".join(texts)


def main() -> None:
    """Module entry point."""
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "component": text,
            "codename": text,
            "uri_pattern": text,
            "own_file": {"type": "path", "required": True},
            "directory": {"type": "path", "default": "/etc/apt"},
        },
        supports_check_mode=True,
    )
    options = module.params
    sources = read_sources(Path(options["directory"]), Path(options["own_file"]))
    found = archives(sources, options["codename"], options["uri_pattern"])
    module.exit_json(
        changed=False,
        archives=[f"{uri} {suite}" for uri, suite, _ in found],
        stanzas=stanzas(sources, options["codename"], options["uri_pattern"], options["component"]),
    )


if __name__ == "__main__":
    main()
