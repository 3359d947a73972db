#!/usr/bin/python
"""Ansible module: the cluster's ports in the firewall that a host has. Standard library only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]  # ships no types
from ansible_collections.bimetal.cluster.plugins.module_utils import firewalls
from ansible_collections.bimetal.cluster.plugins.module_utils.firewalls import Chain, Opening

if TYPE_CHECKING:
    from typing import Any as Module

DOCUMENTATION = r"""
module: cluster_ports
short_description: Open ports for some networks in ufw, firewalld or nftables
description:
  - Adds rules of its own, which carry a mark, and removes those of them that are not wanted any more. It flushes
    nothing, changes no policy and no rule of somebody else, and starts no firewall.
options:
  ports:
    description: Ports, each a dictionary of port (8000 or 8000-8002) and protocol.
    type: list
    elements: dict
    required: true
  sources:
    description: Networks that may reach them.
    type: list
    elements: str
    required: true
  nftables_file:
    description: The file that nftables reads at its start.
    type: path
    default: /etc/nftables.conf
  own_file:
    description: Our file, which it includes.
    type: path
    default: /etc/nftables.d/bimetal.nft
author: bimetal
"""

EXAMPLES = r"""
- bimetal.cluster.cluster_ports:
    ports: [{port: 8000-8002, protocol: tcp}]
    sources: [192.0.2.0/24]
"""

RETURN = r"""
firewall:
  description: ufw, firewalld, nftables, or none where nothing stops incoming packets.
  type: str
  returned: always
added:
  description: What was opened.
  type: list
  elements: str
  returned: always
removed:
  description: What of ours was closed.
  type: list
  elements: str
  returned: always
"""


class Firewall:
    """Runs the firewalls' commands, and ends the module with their words when one fails."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def ask(self, *command: str) -> tuple[int, str]:
        """Exit status and output in the C locale; 127 for a command that is not there."""
        if self.module.get_bin_path(command[0]) is None:
            return 127, ""
        status, output, _ = self.module.run_command(list(command), environ_update={"LC_ALL": "C"})
        return status, str(output)

    def do(self, *command: str, data: str | None = None) -> None:
        """Run a command that changes something; nothing in check mode."""
        if self.module.check_mode:
            return
        status, output, errors = self.module.run_command(list(command), environ_update={"LC_ALL": "C"}, data=data)
        if status != 0:
            self.module.fail_json(
                msg=f"`{' '.join(command)}` ended with {status}: {' '.join(f'{errors} {output}'.split())}. The host's"
                " other rules are as they were. Try the command by hand."
            )


def ufw(firewall: Firewall, wanted: list[Opening]) -> tuple[list[str], list[str]]:
    """Open and close in ufw, which keeps its rules itself."""
    present = firewalls.ufw_own(firewall.ask("ufw", "show", "added")[1])
    added = [opening for opening in wanted if opening not in present]
    removed = [opening for opening in present if opening not in wanted]
    for opening in added:
        firewall.do("ufw", "allow", *firewalls.ufw_words(opening), "comment", firewalls.MARKER)
    for opening in removed:
        firewall.do("ufw", "--force", "delete", "allow", *firewalls.ufw_words(opening))
    return [str(opening) for opening in added], [str(opening) for opening in removed]


def firewalld(firewall: Firewall, wanted: list[Opening]) -> tuple[list[str], list[str]]:
    """Open in firewalld, now and for every start. Its rules carry no mark, so none is closed."""
    added = []
    for opening in wanted:
        rule = firewalls.rich_rule(opening)
        for scope in ([], ["--permanent"]):
            if firewall.ask("firewall-cmd", *scope, f"--query-rich-rule={rule}")[0] != 0:
                firewall.do("firewall-cmd", *scope, f"--add-rich-rule={rule}")
                added.append(" ".join([*scope, rule]))
    return added, []


def nftables(firewall: Firewall, wanted: list[Opening], ruleset: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Open and close in every chain that stops incoming packets, now and for every start."""
    chains = {chain: firewalls.nft_rules(chain, wanted) for chain in firewalls.input_chains(ruleset)}
    added, removed = [], []
    for chain, rules in chains.items():
        present = firewalls.nft_own(ruleset, chain)
        for comment, match in rules.items():
            if comment not in present:
                added.append(f"{chain}: {match}")
                firewall.do("nft", "--file", "-", data=f'insert rule {chain} {match} comment "{comment}"\n')
        for comment, handle in present.items():
            if comment not in rules:
                removed.append(f"{chain}: {comment}")
                firewall.do("nft", "delete", "rule", *str(chain).split(), "handle", str(handle))
    return added + keep_nftables(firewall, chains), removed


def keep_nftables(firewall: Firewall, chains: dict[Chain, dict[str, str]]) -> list[str]:
    """Have the rules at every start, and nothing of it where the whole would not be read without an error."""
    module = firewall.module
    main_file, own = Path(module.params["nftables_file"]), Path(module.params["own_file"])
    main = main_file.read_text() if main_file.exists() else ""
    include = f'include "{own}"'
    if not any(chains.values()) and not own.exists():
        return []
    text = firewalls.nft_script(chains)
    complete = (
        main if include in main.splitlines() else f"{main.rstrip()}\n\n# bimetal: the cluster's ports\n{include}\n"
    )
    before = own.read_text() if own.exists() else ""
    if (text, complete) == (before, main):
        return []
    if not firewalls.flushes(main):
        module.fail_json(
            msg=f"{main_file} has no `flush ruleset`, so nobody can tell what a start makes of it. The ports are open"
            f" until the next start. Write the chains and `flush ruleset` there, or open the ports yourself:"
            f" {' '.join(text.splitlines()[1:])}"
        )
    if not module.check_mode:
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(text)
        status, output, errors = module.run_command(["nft", "--check", "--file", "-"], data=complete)
        if status != 0:
            own.write_text(before) if before else own.unlink()
            module.fail_json(
                msg=f"nftables would not read {main_file} with our rules: {' '.join(f'{errors} {output}'.split())}."
                " The file is as it was; the ports are open until the next start. Do the running chains come from"
                f" another file than {main_file}?"
            )
        if complete != main:
            module.backup_local(str(main_file))
            main_file.write_text(complete)
    return [str(own)]


def main() -> None:
    """Module entry point."""
    names = {"type": "list", "required": True}
    module = AnsibleModule(
        argument_spec={
            "ports": names | {"elements": "dict"},
            "sources": names | {"elements": "str"},
            "nftables_file": {"type": "path", "default": "/etc/nftables.conf"},
            "own_file": {"type": "path", "default": "/etc/nftables.d/bimetal.nft"},
        },
        supports_check_mode=True,
    )
    firewall = Firewall(module)
    wanted = firewalls.openings(module.params["ports"], module.params["sources"])
    ruleset: dict[str, Any] = {}
    added: list[str] = []
    removed: list[str] = []
    if firewall.ask("firewall-cmd", "--state")[0] == 0:
        name = "firewalld"
        added, removed = firewalld(firewall, wanted)
    elif firewalls.ufw_active(firewall.ask("ufw", "status")[1]):
        name = "ufw"
        added, removed = ufw(firewall, wanted)
    else:
        ruleset = json.loads(firewall.ask("nft", "--json", "list", "ruleset")[1] or "{}")
        name = "nftables" if firewalls.input_chains(ruleset) else "none"
        if name == "nftables":
            added, removed = nftables(firewall, wanted, ruleset)
    module.exit_json(changed=bool(added or removed), firewall=name, added=added, removed=removed)


if __name__ == "__main__":
    main()
