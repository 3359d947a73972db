#!/usr/bin/python
"""Ansible module: choose a driver's set of packages, and pin the whole of it. Standard library only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils import driver_packages

if TYPE_CHECKING:
    from typing import Any as Module

DOCUMENTATION = r"""
module: driver_package_set
short_description: Choose and pin a set of packages of one version
description:
  - Chooses a driver's set of packages, and pins the whole of it.
  - Pinning only the top package leaves apt free to take its libraries from a newer set. The kernel's module and the
    libraries then refuse each other.
options:
  patterns:
    description: Regular expressions of the names that can belong to the set.
    type: list
    elements: str
    default: []
  required:
    description: Packages that must have the version.
    type: list
    elements: str
    default: []
  lagging:
    description: Packages that need only be of the same branch.
    type: list
    elements: str
    default: []
  wanted:
    description: Branch, upstream version or whole version.
    type: str
  packages:
    description: The set itself, in place of a search; it is pinned even where no archive has it any more.
    type: dict
  pin_file:
    description: File of apt_preferences(5) to write.
    type: path
    required: true
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.driver_package_set:
    patterns: ["(lib)?nvidia-.*", libcuda1]
    required: [nvidia-smi]
    wanted: "535"
    pin_file: /etc/apt/preferences.d/own
"""

RETURN = r"""
version:
  description: Upstream version of the set; empty when apt does not know the packages yet, in check mode only.
  type: str
  returned: always
packages:
  description: Name and version of every package of the set.
  type: dict
  returned: always
"""


def run(module: Module, *command: str) -> str:
    """The command's output; it must succeed."""
    _, output, _ = module.run_command(list(command), check_rc=True, environ_update={"LC_ALL": "C"})
    return str(output)


def available(module: Module, patterns: list[str]) -> dict[str, list[str]]:
    """Versions that apt knows of all packages that can belong to the set."""
    names = driver_packages.selected(run(module, "apt-cache", "pkgnames").split(), patterns)
    return driver_packages.parse_madison(run(module, "apt-cache", "madison", *names)) if names else {}


def pin(module: Module, path: Path, text: str) -> dict[str, str] | None:
    """Write the pins; what changed, or None."""
    before = path.read_text() if path.exists() else ""
    if before and not before.startswith(driver_packages.MARKER):
        module.fail_json(
            msg=f"{path} was not written by this role: its first line should be '{driver_packages.MARKER}'."
            " Move the file away, or set the role's pin file to another name."
        )
    if before == text:
        return None
    if not module.check_mode:
        path.write_text(text)
        path.chmod(0o644)
    return {"before_header": str(path), "after_header": str(path), "before": before, "after": text}


def search(module: Module) -> driver_packages.PackageSet | None:
    """The set that apt can give; None when it does not know the packages yet, in check mode only."""
    options = module.params
    known = available(module, options["patterns"])
    if module.check_mode and not any(name in known for name in options["required"]):
        return None
    try:
        return driver_packages.choose(known, options["required"], options["lagging"], options["wanted"])
    except driver_packages.PackageSetError as error:
        module.fail_json(msg=f"{error} Enable the archive that has it, or ask for a version that apt knows.")
        raise  # fail_json has ended the process


def verify(module: Module, packages: dict[str, str]) -> None:
    """apt must now want the set: another file's pin of a higher priority would go unnoticed."""
    policy = driver_packages.parse_policy(run(module, "apt-cache", "policy", *packages))
    if wrong := driver_packages.outranked(policy, packages):
        module.fail_json(
            msg=f"Another pin outranks {module.params['pin_file']}: apt would install {wrong}, expected {packages}."
            f" Look at `apt-cache policy {next(iter(wrong))}` and /etc/apt/preferences.d."
        )


def main() -> None:
    """Module entry point."""
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "patterns": names,
            "required": names,
            "lagging": names,
            "wanted": {"type": "str"},
            "packages": {"type": "dict"},
            "pin_file": {"type": "path", "required": True},
        },
        mutually_exclusive=[["wanted", "packages"]],
        required_one_of=[["wanted", "packages"]],
        supports_check_mode=True,
    )
    given = module.params["packages"]
    chosen = driver_packages.PackageSet("", given) if given else search(module)
    if chosen is None:
        module.exit_json(changed=True, version="", packages={})
        return
    text = driver_packages.preferences(chosen.packages, f"one set of version {chosen.version or 'as recorded'}")
    diff = pin(module, Path(module.params["pin_file"]), text)
    if not module.check_mode and not given:
        verify(module, chosen.packages)
    module.exit_json(
        changed=diff is not None, version=chosen.version, packages=chosen.packages, diff=[diff] if diff else []
    )


if __name__ == "__main__":
    main()
