"""Weights: what share of a model's traffic each able backend should get. Pure.

    weight = operators x bandwidth x temperature x load x breaker x measured            each factor in 0..1

- operators: what its operator score is worth, and 0 beside a better class of scores (`bimetal.operators.preference`).
- bandwidth: memory bandwidth relative to the fastest candidate; inference at small batches is bound by it.
- temperature: 1 while the hottest device is `cool_margin_c` or more below the temperature at which it slows down, then
  less, down to 0.5 where it does: NVML documents that a hardware slowdown cuts the clocks by a factor of 2 or more
  (nvmlClocksThrottleReasonHwSlowdown). In steps of 0.1.
- load: 1 / (1 + waiting requests / pending_half), in steps of 0.1 so that noise does not republish the table.
- breaker: `degraded_weight` while Degraded, else 1.
- measured: how long requests really take there, against the fastest (`bimetal.learning.bandit`). What is measured takes
  the place of what was believed: the more requests were measured, the nearer operators and bandwidth come to those of
  the best candidate. The classes stay: nothing that is measured brings traffic to a backend of a worse class.

What is unknown never counts as 0 and never as the best: a score takes the middle (3), a bandwidth the smallest
known one. An unknown temperature or load changes nothing.
"""

from collections.abc import Mapping
from typing import NamedTuple

from bimetal.fleet.settings import LearningSettings
from bimetal.learning.bandit import Lesson, learn
from bimetal.learning.evidence import Evidence
from bimetal.operators.preference import operator_factors

UNKNOWN_SCORE = 3


class Standing(NamedTuple):
    """What one backend brings to every model.

    Attributes:
        bandwidth_gbs: memory bandwidth of its devices in GB/s; None if unknown.
        load: load factor.
        breaker: breaker factor.
        temperature: temperature factor.
        evidence: how long it takes, as measured; None if unknown.
        size: the fleet file's factor for the size class; a part of the operators factor.
    """

    bandwidth_gbs: float | None
    load: float
    breaker: float
    temperature: float = 1.0
    evidence: Evidence | None = None
    size: float = 1.0


class Factors(NamedTuple):
    """The factors of one weight, each 0..1."""

    operators: float
    bandwidth: float
    temperature: float
    load: float
    breaker: float
    measured: float

    @property
    def product(self) -> float:
        """The weight, 0..1: any factor of 0 takes all traffic away."""
        return self.operators * self.bandwidth * self.temperature * self.load * self.breaker * self.measured


def load_factor(pending: float | None, half: float) -> float:
    """The load factor of a backend with `pending` requests waiting (None: unknown); `half` halves it."""
    if pending is None:
        return 1.0
    return max(0.1, round(1 / (1 + pending / half), 1))


def temperature_factor(margin_c: float | None, cool_margin_c: float) -> float:
    """The temperature factor of a backend whose hottest device is `margin_c` °C (None: unknown) from slowing down."""
    if margin_c is None:
        return 1.0
    return round(0.5 + 0.5 * min(1.0, max(0.0, margin_c / cool_margin_c)), 1)


def weigh(
    candidates: Mapping[str, tuple[int | None, Standing]], learning: LearningSettings | None = None
) -> dict[str, Factors]:
    """The factors of every able backend of one model.

    Args:
        candidates: backend → (operator score 0..5 or None, standing).
        learning: how evidence counts; None takes the defaults.
    """
    scores = {n: UNKNOWN_SCORE if score is None else score for n, (score, _) in candidates.items()}
    operators = operator_factors(scores)
    known = [s.bandwidth_gbs for _, s in candidates.values() if s.bandwidth_gbs is not None]
    slowest, fastest = (min(known), max(known)) if known else (1.0, 1.0)
    believed = {
        name: Factors(
            operators[name] * standing.size,
            (slowest if standing.bandwidth_gbs is None else standing.bandwidth_gbs) / fastest,
            standing.temperature,
            standing.load,
            standing.breaker,
            1.0,
        )
        for name, (_, standing) in candidates.items()
    }
    evidence = {name: s.evidence for name, (_, s) in candidates.items() if s.evidence is not None}
    if not evidence:
        return believed
    highest = max((f.operators for f in believed.values()), default=1.0)
    priors = {n: f.operators / highest * f.bandwidth for n, f in believed.items() if f.operators > 0}
    lessons = learn(priors, evidence, learning or LearningSettings())
    return believed | {name: _taught(believed[name], lesson, highest) for name, lesson in lessons.items()}


def _taught(believed: Factors, lesson: Lesson, highest: float) -> Factors:
    return believed._replace(
        operators=highest * (believed.operators / highest) ** lesson.fade,
        bandwidth=believed.bandwidth**lesson.fade,
        measured=lesson.measured,
    )
