"""Ports in each firewall: what is ours, what is not, and what a start of the host makes of it."""

from typing import Any

import pytest
from ansible_collections.bimetal.cluster.plugins.module_utils import firewalls

Json = dict[str, Any]
PORTS = [{"port": "8000-8002", "protocol": "tcp"}]


def ruleset(*entries: Json) -> Json:
    return {"nftables": [{"metainfo": {}}, *entries]}


def chain(name: str, policy: str = "accept", hook: str = "input", family: str = "inet") -> Json:
    return {
        "chain": {
            "family": family,
            "table": "filter",
            "name": name,
            "type": "filter",
            "hook": hook,
            "policy": policy,
        }
    }


def rule(chain_name: str, *expressions: Json, comment: str = "", handle: int = 7) -> Json:
    words = {"family": "inet", "table": "filter", "chain": chain_name, "handle": handle, "expr": list(expressions)}
    return {"rule": words | ({"comment": comment} if comment else {})}


@pytest.mark.parametrize(
    ("entries", "stopping"),
    [
        ([chain("input", "drop")], ["inet filter input"]),
        ([chain("input"), rule("input", {"reject": {}})], ["inet filter input"]),
        (
            [chain("input"), rule("input", {"jump": {"target": "rest"}}), rule("rest", {"drop": None})],
            ["inet filter input"],
        ),
        ([chain("input"), rule("input", {"accept": None})], []),
        ([chain("forward", "drop", hook="forward")], []),
        ([], []),
    ],
)
def test_only_chains_that_stop_incoming_packets_get_rules(entries: list[Json], stopping: list[str]) -> None:
    assert [str(found) for found in firewalls.input_chains(ruleset(*entries))] == stopping


def test_a_chain_of_one_family_gets_only_that_familys_sources() -> None:
    wanted = firewalls.openings(PORTS, ["192.0.2.0/24", "198.51.100.1", "2001:db8::/64"])
    four = firewalls.nft_rules(firewalls.Chain("ip", "filter", "input"), wanted)
    assert list(four.values()) == ["ip saddr { 192.0.2.0/24, 198.51.100.1/32 } tcp dport { 8000-8002 } accept"]
    both = firewalls.nft_rules(firewalls.Chain("inet", "filter", "input"), wanted)
    assert len(both) == 2
    assert all(comment.startswith("bimetal ") for comment in both)
    assert len(firewalls.nft_rules(firewalls.Chain("inet", "filter", "input"), wanted[:1])) == 1


def test_a_rule_without_our_mark_is_never_ours() -> None:
    place = firewalls.Chain("inet", "filter", "input")
    present = ruleset(
        chain("input", "drop"),
        rule("input", {"accept": None}, comment="bimetal 0123456789ab", handle=9),
        rule("input", {"accept": None}, comment="bimetallic", handle=10),
        rule("input", {"accept": None}, handle=11),
        rule("output", {"accept": None}, comment="bimetal 0123456789ab", handle=12),
    )
    assert firewalls.nft_own(present, place) == {"bimetal 0123456789ab": 9}


def test_the_file_of_our_rules_flushes_nothing() -> None:
    place = firewalls.Chain("inet", "filter", "input")
    text = firewalls.nft_script({place: firewalls.nft_rules(place, firewalls.openings(PORTS, ["192.0.2.0/24"]))})
    lines = text.splitlines()
    assert lines[1].startswith("insert rule inet filter input ip saddr { 192.0.2.0/24 } tcp dport { 8000-8002 } accept")
    assert "flush" not in text


@pytest.mark.parametrize(
    ("text", "anew"),
    [
        ("#!/usr/sbin/nft -f\n\nflush ruleset\n\ntable inet filter {\n}\n", True),
        ("# flush ruleset\ntable inet filter {\n}\n", False),
        ("", False),
    ],
)
def test_a_file_that_does_not_begin_anew_proves_nothing_about_a_start(text: str, anew: bool) -> None:
    assert firewalls.flushes(text) is anew


def test_ufws_own_list_shows_which_rules_are_ours() -> None:
    added = (
        "Added user rules (see 'ufw status' for running firewall):\n"
        "ufw allow 22/tcp\n"
        "ufw allow from 192.0.2.0/24 to any port 8000:8002 proto tcp comment 'bimetal'\n"
        "ufw allow from 192.0.2.0/24 to any port 9100 proto tcp comment 'node exporter'\n"
    )
    assert firewalls.ufw_own(added) == firewalls.openings(PORTS, ["192.0.2.0/24"])


@pytest.mark.parametrize(("status", "active"), [("Status: active\n", True), ("Status: inactive\n", False), ("", False)])
def test_an_ufw_that_is_only_installed_is_none(status: str, active: bool) -> None:
    assert firewalls.ufw_active(status) is active


def test_firewallds_and_ufws_words_say_the_same() -> None:
    (opening,) = firewalls.openings(PORTS, ["2001:db8::/64"])
    assert firewalls.rich_rule(opening) == (
        'rule family="ipv6" source address="2001:db8::/64" port port="8000-8002" protocol="tcp" accept'
    )
    assert firewalls.ufw_words(opening) == [
        *("from", "2001:db8::/64", "to", "any", "port", "8000:8002", "proto", "tcp")
    ]
