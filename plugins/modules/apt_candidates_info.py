#!/usr/bin/python
"""Ansible module: which versions apt would install, and from where. Standard library only."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils import driver_packages

DOCUMENTATION = r"""
module: apt_candidates_info
short_description: Tell apt's candidates
description:
  - Asks apt which versions it would install, and from where.
options:
  names:
    description: Packages.
    type: list
    elements: str
    required: true
  uris:
    description: Archives that the candidates should come from.
    type: list
    elements: str
    default: []
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.apt_candidates_info:
    names: [rocminfo]
    uris: [https://repo.radeon.com/rocm/apt/7.1]
  register: candidates
"""

RETURN = r"""
versions:
  description: Version of each package that apt knows.
  type: dict
  returned: always
unknown:
  description: Packages that apt does not know.
  type: list
  elements: str
  returned: always
from_uris:
  description: Packages whose candidate comes from one of the archives.
  type: list
  elements: str
  returned: always
from_elsewhere:
  description: Known packages whose candidate comes from another archive, in words.
  type: list
  elements: str
  returned: always
"""


def main() -> None:
    """Module entry point."""
    names = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={"names": names | {"required": True}, "uris": names | {"default": []}}, supports_check_mode=True
    )
    wanted, uris = module.params["names"], module.params["uris"]
    command = ["apt-cache", "policy", *wanted]
    _, output, _ = module.run_command(command, check_rc=True, environ_update={"LC_ALL": "C"})
    known = {name: found for name, found in driver_packages.parse_policy(output).items() if found.version}
    module.exit_json(
        changed=False,
        versions={name: candidate.version for name, candidate in known.items()},
        unknown=sorted(set(wanted) - set(known)),
        from_uris=[name for name, found in known.items() if not driver_packages.from_elsewhere({name: found}, uris)],
        from_elsewhere=driver_packages.from_elsewhere(known, uris),
    )


if __name__ == "__main__":
    main()
