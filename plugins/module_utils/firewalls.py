"""What the firewalls of Linux say of themselves, and the words that open ports in each: only ours, and nothing else.

Pure and standard library only.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Every rule of ours carries it: whatever does not is somebody else's.
MARKER = "bimetal"


@dataclass(frozen=True, order=True)
class Opening:
    """Ports (`8000` or `8000-8002`) of a protocol that a network may reach."""

    source: str
    port: str
    protocol: str

    @property
    def family(self) -> int:
        """4 or 6."""
        return ipaddress.ip_network(self.source).version


def openings(ports: Iterable[Mapping[str, Any]], sources: Iterable[str]) -> list[Opening]:
    """Each port for each network; networks are written as firewalls show them."""
    networks = [str(ipaddress.ip_network(source, strict=False)) for source in sources]
    return sorted(Opening(source, str(port["port"]), str(port["protocol"])) for source in networks for port in ports)


# ufw -----------------------------------------------------------------------------------------------------------------


def ufw_active(status: str) -> bool:
    """From `ufw status`."""
    return re.search(r"^Status: active$", status, re.MULTILINE) is not None


def ufw_own(added: str) -> list[Opening]:
    """Our rules in `ufw show added`."""
    pattern = rf"^ufw allow from (\S+) to any port (\S+) proto (\S+) comment '{MARKER}'$"
    return sorted(
        Opening(source, port.replace(":", "-"), protocol) for source, port, protocol in re.findall(pattern, added, re.M)
    )


def ufw_words(opening: Opening) -> list[str]:
    """Arguments of `ufw`, after `allow` or `delete allow`."""
    port = opening.port.replace("-", ":")
    return ["from", opening.source, "to", "any", "port", port, "proto", opening.protocol]


# firewalld -----------------------------------------------------------------------------------------------------------


def rich_rule(opening: Opening) -> str:
    """firewalld's own language, as `--list-rich-rules` shows it."""
    return (
        f'rule family="ipv{opening.family}" source address="{opening.source}"'
        f' port port="{opening.port}" protocol="{opening.protocol}" accept'
    )


# nftables ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Chain:
    """A chain through which all incoming packets go."""

    family: str
    table: str
    name: str

    def __str__(self) -> str:
        return f"{self.family} {self.table} {self.name}"


def input_chains(ruleset: Mapping[str, Any]) -> list[Chain]:
    """Base chains at the hook `input` that stop anything, of `nft --json list ruleset`.

    A chain stops something when its policy is drop, or a rule of its own (or one that it jumps to) drops or rejects.
    """
    entries = ruleset.get("nftables", [])
    chains = [entry["chain"] for entry in entries if "chain" in entry]
    rules = [entry["rule"] for entry in entries if "rule" in entry]
    found = []
    for chain in chains:
        if chain.get("hook") == "input" and chain.get("type") == "filter":
            own = [rule for rule in rules if (rule["family"], rule["table"]) == (chain["family"], chain["table"])]
            if chain.get("policy") == "drop" or _stops(own, chain["name"], set()):
                found.append(Chain(chain["family"], chain["table"], chain["name"]))
    return sorted(found)


def _stops(rules: Sequence[Mapping[str, Any]], name: str, seen: set[str]) -> bool:
    if name in seen:
        return False
    seen.add(name)
    for rule in rules:
        if rule["chain"] == name:
            for statement in rule["expr"]:
                if "drop" in statement or "reject" in statement:
                    return True
                target = statement.get("jump") or statement.get("goto")
                if target and _stops(rules, target["target"], seen):
                    return True
    return False


def nft_rules(chain: Chain, wanted: Sequence[Opening]) -> dict[str, str]:
    """Our rules of a chain by their comments, which hold a hash of what they say."""
    found = {}
    for family in (4, 6):
        if chain.family in ("inet", {4: "ip", 6: "ip6"}[family]):
            for protocol in sorted({opening.protocol for opening in wanted if opening.family == family}):
                chosen = [one for one in wanted if (one.family, one.protocol) == (family, protocol)]
                sources = ", ".join(sorted({one.source for one in chosen}))
                ports = ", ".join(sorted({one.port for one in chosen}))
                word = {4: "ip", 6: "ip6"}[family]
                match = f"{word} saddr {{ {sources} }} {protocol} dport {{ {ports} }} accept"
                digest = hashlib.sha256(match.encode()).hexdigest()[:12]
                found[f"{MARKER} {digest}"] = match
    return found


def nft_own(ruleset: Mapping[str, Any], chain: Chain) -> dict[str, int]:
    """Comments and handles of our rules that a chain has."""
    rules = [entry["rule"] for entry in ruleset.get("nftables", []) if "rule" in entry]
    return {
        rule["comment"]: rule["handle"]
        for rule in rules
        if Chain(rule["family"], rule["table"], rule["chain"]) == chain
        and str(rule.get("comment", "")).startswith(f"{MARKER} ")
    }


def nft_script(chains: Mapping[Chain, Mapping[str, str]]) -> str:
    """The file that opens the ports at every start, after the user's own rules have been read."""
    lines = [
        f'insert rule {chain} {match} comment "{comment}"'
        for chain, rules in chains.items()
        for comment, match in rules.items()
    ]
    return "\n".join(["# Managed by Ansible (bimetal): change the inventory, not this file.", *lines]) + "\n"


def flushes(configuration: str) -> bool:
    """Whether nftables' own file begins anew, so that a check of it is what a boot will do."""
    return re.search(r"^\s*flush ruleset\b", configuration, re.MULTILINE) is not None
