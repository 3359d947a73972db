"""What an operator score is worth: the factor of a pool's weight. Pure; router and `bimetal model analyze` share it.

Scores fall into four classes: native (3 to 5), through a conversion (2), on the CPU (1), not at all (0). Only the best
class that is able gets traffic: RoPE models that went to nodes which were bad at it are the incident behind this
project, and even a tenth of the traffic there ruins a P99.
"""

from collections.abc import Mapping

# 0 keeps a trace, and a class of its own: a backend that says READY for a model that the matrix rules out is believed
# when nobody else is able.
OPERATOR_FACTOR = {5: 1.0, 4: 0.8, 3: 0.5, 2: 0.2, 1: 0.05, 0: 0.01}
_CLASS = {5: 3, 4: 3, 3: 3, 2: 2, 1: 1, 0: 0}


def operator_factors(scores: Mapping[str, int]) -> dict[str, float]:
    """The factor (0..1) of each candidate's score; 0 beside one in a better class."""
    best = max((_CLASS[score] for score in scores.values()), default=0)
    return {name: OPERATOR_FACTOR[score] if _CLASS[score] == best else 0.0 for name, score in scores.items()}


def preference(scores: Mapping[str, int]) -> dict[str, float]:
    """The shares (summing to 1) that operators alone would give; all zero when nobody can run the model."""
    factors = operator_factors({name: score for name, score in scores.items() if score > 0})
    total = sum(factors.values())
    return {name: factors.get(name, 0.0) / total if total else 0.0 for name in scores}
