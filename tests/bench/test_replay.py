"""The replay: seeded worlds, and what learning costs and saves in them."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from bench.replay import WORLDS, Finding, replay, report
from bench.world import World


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    return {name: replay(world) for name, world in WORLDS.items()}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_priors_that_are_upside_down_are_corrected_within_500_requests(seed: int) -> None:
    found = replay(replace(WORLDS["priors are upside down"], seed=seed, requests=2000))
    assert found.corrected_after is not None
    assert found.corrected_after <= 500
    assert found.run.shares[-1]["fast"] > 0.7


def test_the_regret_of_wrong_priors_is_bounded(findings: dict[str, Finding]) -> None:
    found = findings["priors are upside down"]
    assert found.best_shares == {"fast": 1.0, "middle": 0.0, "slow": 0.0}
    assert found.regret < 0.5
    assert found.regret < found.regret_of_priors / 4


def test_learning_does_not_spoil_priors_that_are_right(findings: dict[str, Finding]) -> None:
    found = findings["priors are right"]
    assert found.corrected_after == 0
    assert found.regret < found.regret_of_priors / 2


def test_a_server_that_becomes_three_times_slower_loses_its_traffic(findings: dict[str, Finding]) -> None:
    found = findings["the fastest becomes 3x slower"]
    before, after = found.run.shares[1999]["fast"], found.run.shares[3000]["fast"]
    assert before > 0.7
    assert after < before / 2
    assert found.run.shares[-1]["middle"] > 0.5
    assert found.regret < 0.1


def test_queues_do_not_turn_the_fast_server_into_a_slow_one(findings: dict[str, Finding]) -> None:
    found = findings["queues, fastest alone 80 % busy"]
    assert found.regret < 0.15
    assert min(shares["fast"] for shares in found.run.shares[1000:]) > 0.5


def test_an_overload_by_a_wrong_prior_is_dissolved(findings: dict[str, Finding]) -> None:
    found = findings["queues, fastest alone overloaded"]
    assert found.learned < found.priors_only / 100
    assert found.changes < 50


def test_beliefs_change_seldom(findings: dict[str, Finding]) -> None:
    assert all(found.changes <= 20 for found in findings.values()), {n: f.changes for n, f in findings.items()}


def test_a_replay_is_the_same_every_time() -> None:
    world: World = replace(WORLDS["priors are upside down"], requests=300)
    assert replay(world).run.shares == replay(world).run.shares


def test_the_report_has_a_row_for_every_world(findings: dict[str, Finding]) -> None:
    text = io.StringIO()
    Console(file=text, width=130).print(report(findings))
    printed = text.getvalue()
    assert all(name in printed for name in WORLDS)
    assert f"{findings['priors are upside down'].corrected_after} requests" in printed
