"""What is known of an arm: plain values that the learner makes and the policy reads."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bimetal.fleet.size_class import SizeClass


class Key(NamedTuple):
    """An arm of the bandit in its context: one model on one backend (or pool) for one size class of requests."""

    model: str
    backend: str
    size_class: str = SizeClass.SMALL


@dataclass(frozen=True, slots=True)
class Evidence:
    """How long an arm takes.

    Attributes:
        seconds: service time without waiting.
        requests: how many requests that time counts as, against the prior's `prior_requests`.
        remembered: how many of them are not the backend's own but its pool's learned time.
        version: of the lessons that the learned time is from; 0 without one.
        learned_at: when that time was learned, in Unix seconds; 0 without one.
    """

    seconds: float
    requests: float
    remembered: float = 0.0
    version: int = 0
    learned_at: float = 0.0


Beliefs = Mapping[Key, Evidence]


def combine(own: Evidence | None, learned: Evidence) -> Evidence:
    """A backend's own measurements and its pool's learned time: their geometric mean, by what they count as."""
    if own is None:
        return learned
    requests = own.requests + learned.requests
    log_s = (own.requests * math.log(own.seconds) + learned.requests * math.log(learned.seconds)) / requests
    return Evidence(math.exp(log_s), requests, learned.remembered, learned.version, learned.learned_at)
