"""A quantile sketch with forgetting: how long requests took, in logarithmic buckets.

The buckets are those of DDSketch (Masson, Rim, Lee: "DDSketch", VLDB 2019): a quantile has a bounded relative error,
and two sketches merge by adding their buckets. Weights instead of counts make it forget (Cormode et al.: "Forward
decay", ICDE 2009): a faded sketch is the sketch of a faded stream.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

_GAMMA = 1.05
"""Bounds of bucket i: gamma**(i-1) < seconds <= gamma**i. Relative error of a quantile: (g-1)/(g+1) = 2.4 %."""
_LOG_GAMMA = math.log(_GAMMA)
_LEAST_S = 1e-6
_LEAST_WEIGHT = 1e-3


class Sketch:
    """Weight by bucket. Mutable: one per arm, written at each batch of the access log."""

    def __init__(self, buckets: Mapping[int, float] | None = None) -> None:
        self._buckets = dict(buckets or {})

    @property
    def buckets(self) -> dict[int, float]:
        """A copy, to be saved."""
        return dict(self._buckets)

    @property
    def total(self) -> float:
        """The weight of all: how many requests it counts as."""
        return sum(self._buckets.values())

    def fade(self, keep: float) -> None:
        """Multiply every weight by `keep`; what is next to nothing is dropped, so that memory stays bounded."""
        self._buckets = {i: w * keep for i, w in self._buckets.items() if w * keep > _LEAST_WEIGHT}

    def add(self, times_s: Sequence[float], keep: float = 1.0) -> None:
        """Add times in seconds, the oldest first; each one fades what was there before it by `keep`."""
        self.fade(keep ** len(times_s))
        weight = 1.0
        for time_s in reversed(times_s):
            bucket = math.ceil(math.log(max(time_s, _LEAST_S)) / _LOG_GAMMA)
            self._buckets[bucket] = self._buckets.get(bucket, 0.0) + weight
            weight *= keep

    def quantile(self, part: float) -> float:
        """The time in seconds that `part` (0..1) of the weight does not exceed. Raises ValueError if empty."""
        if not self._buckets:
            raise ValueError("an empty sketch has no quantile: add a time first")
        left = part * self.total
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                break
        return 2 * _GAMMA**bucket / (1 + _GAMMA)


def merged(sketches: Iterable[Sketch]) -> Sketch:
    """The sketch of all their times."""
    buckets: dict[int, float] = {}
    for sketch in sketches:
        for bucket, weight in sketch.buckets.items():
            buckets[bucket] = buckets.get(bucket, 0.0) + weight
    return Sketch(buckets)
