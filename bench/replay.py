"""`python -m bench.replay`: how fast a wrong prior is corrected, and what learning costs and saves.

Regret is a policy's mean time per request over that of the best fixed policy, which is found by trying them all on the
same traffic: every single server and, where there are queues, every split of two servers in steps of 10 %.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from rich.console import Console
from rich.table import Table

from bench.world import Policy, Run, Server, Shares, World, run
from bimetal.breaker.outcome import Try
from bimetal.fleet.settings import LearningSettings
from bimetal.learning.bandit import learn, with_floor
from bimetal.learning.learner import Learner
from bimetal.policy.weights import load_factor

_PENDING_HALF = 32.0

WORLDS: Mapping[str, World] = {
    "priors are right": World(
        {"fast": Server(0.004, 1.0), "middle": Server(0.008, 0.5), "slow": Server(0.016, 0.25)}, 5000, rate=50
    ),
    "priors are upside down": World(
        {"fast": Server(0.004, 0.05), "middle": Server(0.008, 0.2), "slow": Server(0.016, 1.0)}, 5000, rate=50
    ),
    "the fastest becomes 3x slower": World(
        {"fast": Server(0.004, 1.0, 3, 2000), "middle": Server(0.008, 0.5), "slow": Server(0.016, 0.25)}, 5000, rate=50
    ),
    "queues, fastest alone 80 % busy": World(
        {"fast": Server(0.004, 0.2), "slow": Server(0.010, 1.0)}, 8000, rate=200, queues=True
    ),
    "queues, fastest alone overloaded": World(
        {"fast": Server(0.004, 0.2), "slow": Server(0.010, 1.0)}, 8000, rate=300, queues=True
    ),
}


class Learning(Policy):
    """The product's learner and bandit, without the rest of the router."""

    def __init__(self, world: World, settings: LearningSettings | None = None) -> None:
        self._settings = settings or LearningSettings()
        self._priors = {name: server.prior for name, server in world.servers.items()}
        self._learner = Learner(self._settings, dict.fromkeys(world.servers, "pool"))
        self.changes = 0
        super().__init__(with_floor(self._priors, self._settings.floor))

    def hear(self, tries: list[Try], waiting: Callable[[str], float], now: float) -> None:
        """Learn from the times of requests that have ended."""
        self._learner.hear(tries, waiting, now)

    def tick(self, waiting: Callable[[str], float], now: float) -> None:
        """Review, and weigh as `bimetal.policy.weights` does."""
        self.changes += bool(self._learner.review(now))
        evidence = {key.backend: e for key, e in self._learner.beliefs.items()}
        lessons = learn(self._priors, evidence, self._settings)
        weights = {
            name: prior ** lessons[name].fade * lessons[name].measured * load_factor(waiting(name), _PENDING_HALF)
            for name, prior in self._priors.items()
        }
        self.shares = with_floor(weights, self._settings.floor)


@dataclass(frozen=True)
class Finding:
    """What one world taught; times in seconds per request.

    Attributes:
        best: mean time of the best fixed policy, which is `best_shares`.
        priors_only: mean time without learning.
        corrected_after: requests until the fastest server had the largest share for good; None if never.
        changes: how often what is believed was changed.
    """

    learned: float
    priors_only: float
    best: float
    best_shares: Shares
    corrected_after: int | None
    changes: int
    run: Run

    @property
    def regret(self) -> float:
        """Mean time over the best fixed policy's, as a part of it."""
        return self.learned / self.best - 1

    @property
    def regret_of_priors(self) -> float:
        """`regret` of the priors alone, without learning."""
        return self.priors_only / self.best - 1


def replay(world: World, settings: LearningSettings | None = None) -> Finding:
    """Run the learning policy and its rivals through one world."""
    policy = Learning(world, settings)
    learned = run(world, policy)
    total = sum(s.prior for s in world.servers.values())
    priors = run(world, Policy({n: s.prior / total for n, s in world.servers.items()}))
    fixed = [(float(run(world, Policy(shares)).costs.mean()), shares) for shares in _fixed_policies(world)]
    best, best_shares = min(fixed, key=lambda pair: pair[0])
    return Finding(
        float(learned.costs.mean()),
        float(priors.costs.mean()),
        best,
        best_shares,
        _corrected_after(world, learned),
        policy.changes,
        learned,
    )


def _fixed_policies(world: World) -> Iterator[Shares]:
    names = list(world.servers)
    for name in names:
        yield {n: float(n == name) for n in names}
    if world.queues:
        for first, second in pairwise(names):
            yield from ({first: part / 10, second: 1 - part / 10} for part in range(1, 10))


def _corrected_after(world: World, learned: Run) -> int | None:
    """The request from which on the server that is fastest at the end always has the largest share."""
    fastest = min(world.servers, key=lambda n: world.servers[n].mean_at(world.requests))
    wrong = [i for i, shares in enumerate(learned.shares) if max(shares, key=lambda n: shares[n]) != fastest]
    after = wrong[-1] + 1 if wrong else 0
    return after if after < world.requests else None


def report(findings: Mapping[str, Finding]) -> Table:
    """One row per world: mean ms per request of each policy, and how many times the best fixed one that is."""
    table = Table(title="Learning, replayed: mean time per request", title_justify="left")
    for column in ("world", "corrected after", "best fixed", "learned", "of best", "priors only", "of best", "changes"):
        table.add_column(column, justify="left" if column == "world" else "right")
    for name, found in findings.items():
        table.add_row(
            name,
            "never" if found.corrected_after is None else f"{found.corrected_after} requests",
            f"{found.best * 1000:.2f} ms",
            f"{found.learned * 1000:.2f} ms",
            f"x {1 + found.regret:.2f}",
            f"{found.priors_only * 1000:.2f} ms",
            f"x {1 + found.regret_of_priors:.2f}",
            str(found.changes),
        )
    return table


if __name__ == "__main__":
    Console(width=130).print(report({name: replay(world) for name, world in WORLDS.items()}))
