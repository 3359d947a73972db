#!/usr/bin/python
"""Ansible module: a vendor's archive as the only apt source of its kind. Standard library only."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils import apt_sources
from ansible_collections.bimetal.cluster.plugins.module_utils.driver_packages import MARKER

DOCUMENTATION = r"""
module: vendor_apt_source
short_description: Configure a vendor's archive for apt
description:
  - Reads every .list and .sources file first. Our own duplicates are removed; a file of somebody else that names
    another key for the archive is an error, because apt would then read no archive at all.
options:
  uri:
    description: Address of the archive.
    type: str
    required: true
  suite:
    description: The suite; a directory ends with a slash.
    type: str
    required: true
  components:
    description: Components, separated by spaces.
    type: str
    default: ""
  architectures:
    description: Architectures, separated by spaces; empty for apt's own.
    type: str
    default: ""
  signed_by:
    description: Path of the key; empty for an archive without one.
    type: str
    required: true
  file:
    description: Our file.
    type: path
    required: true
  directory:
    description: apt's configuration.
    type: path
    default: /etc/apt
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.vendor_apt_source:
    uri: https://archive.example/debian12
    suite: /
    signed_by: /etc/apt/keyrings/own.asc
    file: /etc/apt/sources.list.d/own.sources
"""

RETURN = r"""
removed:
  description: Our duplicates that were removed.
  type: list
  elements: str
  returned: always
"""


def conflict_message(conflicts: list[apt_sources.Entry], uri: str, signed_by: str) -> str:
    """What a person must change, and where."""
    places = ", ".join(f"{entry.place} ({entry.signed_by or 'no key'})" for entry in conflicts)
    return (
        f"apt has {uri} with another key already: {places}. Expected Signed-By {signed_by}; with two values apt reads"
        " no archive at all. Remove that entry (and the package that brings it, if one does), or set the role's"
        " keyring to the same path."
    )


def main() -> None:
    """Module entry point."""
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "uri": text,
            "suite": text,
            "components": {"type": "str", "default": ""},
            "architectures": {"type": "str", "default": ""},
            "signed_by": text,
            "file": {"type": "path", "required": True},
            "directory": {"type": "path", "default": "/etc/apt"},
        },
        supports_check_mode=True,
    )
    options = module.params
    own = Path(options["file"])
    before = own.read_text() if own.exists() else ""
    if before and not before.startswith(MARKER):
        module.fail_json(msg=f"{own} was not written by this role: its first line should be '{MARKER}'. Move it away.")
    entries = apt_sources.read_entries(Path(options["directory"]))
    if found := apt_sources.conflicts(entries, options["uri"], options["suite"], options["signed_by"]):
        module.fail_json(msg=conflict_message(found, options["uri"], options["signed_by"]))
    removed = apt_sources.duplicates(entries, options["uri"], own)
    after = apt_sources.stanza(
        options["uri"], options["suite"], options["components"], options["signed_by"], options["architectures"]
    )
    if not module.check_mode:
        for path in removed:
            path.unlink()
        if after != before:
            own.write_text(after)
            own.chmod(0o644)
    diff = {"before_header": str(own), "after_header": str(own), "before": before, "after": after}
    module.exit_json(
        changed=bool(removed) or after != before,
        removed=[str(path) for path in removed],
        diff=[diff] if after != before else [],
    )


if __name__ == "__main__":
    main()
