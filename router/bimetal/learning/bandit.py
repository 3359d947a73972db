"""The bandit: from priors and measured times to shares. Pure, deterministic.

A Boltzmann policy over the logarithm of the cost, with discounted statistics and a forced share for every arm:

- log cost of an arm = (N x prior + n x measured) / (N + n): the prior counts as N pseudo-observations (the posterior
  mean of a normal log time with a conjugate prior). The prior is only a relation between arms (operators x bandwidth),
  so its scale in seconds is fitted to the arms that were measured (empirical Bayes).
- weight = exp(-sharpness x log cost) = (1 / time) ** sharpness. A softmax of the logarithm does not depend on the unit
  or the model, and, unlike Thompson sampling or a UCB, keeps arms that are equally fast equally loaded: an arm here is
  a server with a capacity, and the answer is a split, not a pick.
- floor: every able arm keeps a least share, as gamma does in Exp3 (Auer et al. 2002, SIAM J. Comput. 32(1)). In a world
  that changes, regret without steady exploration is unbounded.
- discounting (`sketch`): Garivier & Moulines, "On upper-confidence bound policies for switching bandits", ALT 2011.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from bimetal.fleet.settings import LearningSettings
from bimetal.learning.evidence import Evidence

_MOST_FLOORED = 0.5
"""All floors together take at most this part of the traffic, however many arms there are."""


class Lesson(NamedTuple):
    """What the measurements make of one arm: its weight is `prior ** fade * measured`.

    Attributes:
        fade: N / (N + n), what is left of the prior, 0..1; 1 for an arm that was never measured.
        measured: 0..1, 1 for the fastest.
    """

    fade: float
    measured: float


def learn(
    priors: Mapping[str, float], evidence: Mapping[str, Evidence], settings: LearningSettings
) -> dict[str, Lesson]:
    """The lesson of every arm of one model.

    Args:
        priors: believed relative speed by arm, above 0.
        evidence: of the arms that were measured.
    """
    seen = {name: evidence[name] for name in priors if name in evidence}
    if not seen:
        return dict.fromkeys(priors, Lesson(1.0, 1.0))
    cost = {name: settings.sharpness * math.log(e.seconds) for name, e in seen.items()}
    # The cost that an arm of prior 1 would have if the prior were right about all that was measured.
    scale = sum(e.requests * (math.log(priors[n]) + cost[n]) for n, e in seen.items()) / sum(
        e.requests for e in seen.values()
    )
    fade = {n: prior_part(e, settings) for n, e in seen.items()}
    speed = {n: -(fade[n] * scale + (1 - fade[n]) * cost[n]) if n in seen else -scale for n in priors}
    enough = max(speed.values()) - settings.sharpness * math.log(1 + settings.indifference)
    return {n: Lesson(fade.get(n, 1.0), math.exp(min(0.0, speed[n] - enough))) for n in priors}


def prior_part(evidence: Evidence | None, settings: LearningSettings) -> float:
    """What is left of the prior beside the evidence, above 0 to 1."""
    return settings.prior_requests / (settings.prior_requests + (evidence.requests if evidence else 0.0))


def with_floor(weights: Mapping[str, float], floor: float) -> dict[str, float]:
    """Shares in proportion to the weights, none of a positive weight below `floor`; they sum to 1, or to 0.

    A share above the floor gives up only what those below it lack.
    """
    able = {name: weight for name, weight in weights.items() if weight > 0}
    least = min(floor, _MOST_FLOORED / len(able)) if able else 0.0
    raised: set[str] = set()
    while True:
        left = 1 - least * len(raised)
        total = sum(weight for name, weight in able.items() if name not in raised)
        shares = {name: least if name in raised else left * weight / total for name, weight in able.items()}
        low = {name for name, share in shares.items() if share < least}
        if not low:
            return {name: shares.get(name, 0.0) for name in weights}
        raised |= low
