"""A small world to replay the learning in: servers with a speed and a queue, and seeded traffic.

All policies of one world meet the same arrivals and the same luck (common random numbers), so that their costs differ
by their decisions alone.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bimetal.breaker.outcome import Try

MODEL = "m"
PROBE_S = 0.25
_PROBE_WEIGHT = 0.1
"""As the probes: a mean of the waiting requests over about 2.5 s."""

Shares = Mapping[str, float]


@dataclass(frozen=True)
class Server:
    """One backend.

    Attributes:
        mean_s: mean service time in seconds.
        prior: relative speed that the operator scores and the bandwidth promise, 0..1.
        slower: from request `slower_from` on, `mean_s` is multiplied by this.
    """

    mean_s: float
    prior: float
    slower: float = 1.0
    slower_from: int = 0

    def mean_at(self, request: int) -> float:
        """Mean service time of the request with that number."""
        return self.mean_s * (self.slower if request >= self.slower_from else 1.0)


@dataclass(frozen=True)
class World:
    """Servers and the traffic that they get.

    Attributes:
        rate: requests a second, Poisson.
        queues: whether a server takes one request at a time; else any number side by side.
        sigma: of the log-normal service times.
    """

    servers: Mapping[str, Server]
    requests: int
    rate: float
    queues: bool = False
    sigma: float = 0.3
    seed: int = 1


class Policy:
    """Fixed shares; the learning policy overrides all of it."""

    def __init__(self, shares: Shares) -> None:
        self.shares = shares

    def hear(self, tries: list[Try], waiting: Callable[[str], float], now: float) -> None:
        """Requests have ended; `waiting` gives the requests in a server's queue, `now` is in seconds."""

    def tick(self, waiting: Callable[[str], float], now: float) -> None:
        """A probe interval has passed."""


@dataclass
class Run:
    """What became of a policy: by request, its cost in seconds (waiting included) and the shares that it met."""

    costs: npt.NDArray[np.float64]
    sent_to: list[str] = field(default_factory=list)
    shares: list[dict[str, float]] = field(default_factory=list)


class _Yard:
    """The servers at work."""

    def __init__(self, world: World) -> None:
        self._queues = world.queues
        self._free_at = dict.fromkeys(world.servers, 0.0)
        self._starts: dict[str, list[float]] = {name: [] for name in world.servers}
        self._ends: list[tuple[float, int, Try]] = []
        self._waiting = dict.fromkeys(world.servers, 0.0)

    def waiting(self, name: str) -> float:
        return self._waiting[name]

    def probe(self, now: float) -> None:
        for name, starts in self._starts.items():
            self._starts[name] = [start for start in starts if start > now]
            self._waiting[name] += _PROBE_WEIGHT * (len(self._starts[name]) - self._waiting[name])

    def send(self, number: int, name: str, now: float, service_s: float) -> float:
        start = max(now, self._free_at[name]) if self._queues else now
        end = self._free_at[name] = start + service_s
        self._starts[name].append(start)
        heapq.heappush(self._ends, (end, number, Try(name, MODEL, grpc_status=0, seconds=end - now)))
        return end - now

    def ended(self, now: float) -> list[Try]:
        tries = []
        while self._ends and self._ends[0][0] <= now:
            tries.append(heapq.heappop(self._ends)[2])
        return tries


def run(world: World, policy: Policy) -> Run:
    """Send all requests of the world as the policy says."""
    luck = np.random.default_rng(world.seed)
    arrivals = np.cumsum(luck.exponential(1 / world.rate, world.requests))
    services = np.exp(world.sigma * luck.standard_normal(world.requests) - world.sigma**2 / 2)
    choices = luck.random(world.requests)
    yard, record, probe_at = _Yard(world), Run(np.empty(world.requests)), 0.0
    for number, now in enumerate(arrivals.tolist()):
        while probe_at <= now:
            yard.probe(probe_at)
            policy.hear(yard.ended(probe_at), yard.waiting, probe_at)
            policy.tick(yard.waiting, probe_at)
            probe_at += PROBE_S
        name = _pick(policy.shares, choices[number])
        service_s = world.servers[name].mean_at(number) * services[number]
        record.costs[number] = yard.send(number, name, now, service_s)
        record.sent_to.append(name)
        record.shares.append(dict(policy.shares))
    return record


def _pick(shares: Shares, choice: float) -> str:
    reached = 0.0
    for name, share in shares.items():
        reached += share
        if choice < reached:
            return name
    return max(shares, key=lambda n: shares[n])
