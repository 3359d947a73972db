#!/usr/bin/python
"""Ansible module: remember a driver's package set before it is replaced, and keep its files. Standard library only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils import driver_packages, driver_record

if TYPE_CHECKING:
    from typing import Any as Module

DOCUMENTATION = r"""
module: driver_package_record
short_description: Remember and keep package sets
description:
  - Remembers a driver's package set before it is replaced, and keeps its files.
options:
  state:
    description:
      - C(recorded) writes what is installed as the previous set if I(target) replaces any of it.
      - C(kept) downloads the files of what is installed and removes those of no use.
      - C(read) tells the previous set and how to restore it.
      - C(swapped) makes what I(target) replaced the previous set.
    type: str
    choices: [recorded, kept, read, swapped]
    required: true
  directory:
    description: Where the record and the files are.
    type: path
    required: true
  patterns:
    description: Regular expressions of the names that belong to a set.
    type: list
    elements: str
    required: true
  keep:
    description: Regular expressions of the names whose files are kept.
    type: list
    elements: str
    default: [".*"]
  target:
    description: The set to come, or for C(swapped) the one that was replaced.
    type: dict
    default: {}
  files:
    description: Files of apt's configuration that belong to a set and are remembered with it.
    type: list
    elements: path
    default: []
  texts:
    description: Their texts as they were before the change; without it they are read now.
    type: dict
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.driver_package_record:
    state: recorded
    directory: /var/lib/own
    patterns: [nvidia-.*]
    target: {nvidia-smi: 535.261.03-1}
"""

RETURN = r"""
previous:
  description: The set before the present one; empty when there is none.
  type: dict
  returned: always
installed:
  description: What is installed of the patterns' packages.
  type: dict
  returned: always
files:
  description: Remembered files and their text; null for one that was not there.
  type: dict
  returned: always
texts:
  description: The files as they are now.
  type: dict
  returned: always
arguments:
  description: For C(read), what apt-get install is given.
  type: list
  elements: str
  returned: always
missing:
  description: For C(read) what cannot be restored; for C(kept) what no archive has any more.
  type: list
  elements: str
  returned: always
"""

_FORMAT = "${binary:Package} ${Version} ${db:Status-Status}\\n"


def run(module: Module, *command: str, cwd: str | None = None) -> tuple[int, str]:
    """Exit status and output in the C locale."""
    status, output, _ = module.run_command(list(command), environ_update={"LC_ALL": "C"}, cwd=cwd)
    return status, str(output)


def installed_set(module: Module, patterns: list[str]) -> dict[str, str]:
    """Name and version of everything that is installed and belongs to a set."""
    _, output = run(module, "dpkg-query", "--show", "--showformat", _FORMAT)
    packages = driver_packages.parse_installed(output)
    return {name: packages[name] for name in driver_packages.selected(packages, patterns)}


def load(path: Path) -> dict[str, Any]:
    """The record; an empty one without a file."""
    if not path.exists():
        return {"packages": {}, "files": {}}
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def read_texts(files: list[str]) -> dict[str, str | None]:
    """The files' texts; None for one that is not there."""
    return {name: Path(name).read_text() if Path(name).exists() else None for name in files}


def record(module: Module, path: Path, packages: dict[str, str]) -> bool:
    """Write the record; whether it was changed."""
    texts = module.params["texts"] or read_texts(module.params["files"])
    text = json.dumps({"packages": packages, "files": texts}, indent=2, sort_keys=True) + "\n"
    if path.exists() and path.read_text() == text:
        return False
    if not module.check_mode:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(text)
        new.replace(path)
    return True


def keep(module: Module, directory: Path, current: dict[str, str], previous: dict[str, str]) -> tuple[bool, list[str]]:
    """Have the files of the current set; whether anything changed, and what no archive has."""
    kept = kept_files(directory)
    lacking = {name: version for name, version in current.items() if not driver_record.find_kept(kept, name, version)}
    missing = []
    if not module.check_mode:
        directory.mkdir(parents=True, exist_ok=True)
        for name, version in lacking.items():
            status, _ = run(module, "apt-get", "download", f"{name}={version}", cwd=str(directory))
            missing += [] if status == 0 else [f"{name}={version}"]
    before = set(kept)
    kept = kept_files(directory)
    unused = driver_record.stale(kept, current, previous)
    if not module.check_mode:
        for file in unused:
            (directory / file).unlink()
    return set(kept) - set(unused) != before, missing


def kept_files(directory: Path) -> list[str]:
    """Names of the kept files."""
    return sorted(path.name for path in directory.glob("*.deb"))


def restore(module: Module, directory: Path, previous: dict[str, str], current: dict[str, str]) -> dict[str, object]:
    """How apt-get restores the previous set."""
    if not previous:
        return {"arguments": [], "missing": []}
    _, output = run(module, "apt-cache", "madison", *previous)
    way = driver_record.restoration(
        previous, current, kept_files(directory), driver_packages.parse_madison(output), str(directory)
    )
    return {"arguments": way.arguments, "missing": way.missing}


def main() -> None:
    """Module entry point."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["recorded", "kept", "read", "swapped"], "required": True},
            "directory": {"type": "path", "required": True},
            "patterns": {"type": "list", "elements": "str", "required": True},
            "keep": {"type": "list", "elements": "str", "default": [".*"]},
            "target": {"type": "dict", "default": {}},
            "files": {"type": "list", "elements": "path", "default": []},
            "texts": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    options = module.params
    path, archives = Path(options["directory"]) / "previous.json", Path(options["directory"]) / "packages"
    current = installed_set(module, options["patterns"])
    state, changed = options["state"], False
    answer: dict[str, object] = {"arguments": [], "missing": []}
    if state == "recorded" and driver_record.must_record(current, options["target"]):
        changed = record(module, path, current)
    if state == "swapped":
        changed = record(module, path, options["target"])
    previous = load(path)
    if state == "kept":
        wanted = {name: current[name] for name in driver_packages.selected(current, options["keep"])}
        changed, answer["missing"] = keep(module, archives, wanted, previous["packages"])
    if state == "read":
        answer = restore(module, archives, previous["packages"], current)
    module.exit_json(
        changed=changed,
        previous=previous["packages"],
        files=previous["files"],
        texts=read_texts(options["files"]),
        installed=current,
        **answer,
    )


if __name__ == "__main__":
    main()
