"""Regret: what the week's requests took against the best fixed policy, which sends all of them to the fastest backend.

Service times only (the lower quartile of each arm), as everywhere here: a backend that is fastest alone need not be so
with all the traffic, so this is an upper bound. The replay, which has queues, searches the best fixed split instead.
"""

from collections.abc import Iterable
from typing import NamedTuple

from bimetal.learning.documents import ArmRecord, Statistics
from bimetal.learning.fold import LEAST_REQUESTS
from bimetal.learning.learner import QUANTILE
from bimetal.learning.sketch import Sketch, merged


class Regret(NamedTuple):
    """Of one model and size class, over the week; seconds a request.

    `part` is how much longer than with the best fixed policy a request took: 0.24 is 24 %.
    """

    model: str
    size_class: str
    requests: int
    seconds: float
    best_seconds: float
    best_backend: str
    part: float


def regrets(statistics: Statistics) -> list[Regret]:
    """In the order of model and size class; only where several backends were measured enough."""
    groups: dict[tuple[str, str], list[ArmRecord]] = {}
    for arm in statistics.arms:
        groups.setdefault((arm.model, arm.size_class), []).append(arm)
    found = (_regret(model, size, arms) for (model, size), arms in sorted(groups.items()))
    return [each for each in found if each is not None]


def _regret(model: str, size_class: str, arms: Iterable[ArmRecord]) -> Regret | None:
    weeks: dict[str, list[Sketch]] = {}
    for arm in arms:  # several gateways may have measured one backend
        weeks.setdefault(arm.backend, []).append(Sketch(arm.week))
    times = {backend: week for backend, sketches in weeks.items() if (week := merged(sketches)).total >= 1}
    requests = sum(sketch.total for sketch in times.values())
    if len(times) < 2 or requests < LEAST_REQUESTS:
        return None
    seconds = {backend: sketch.quantile(QUANTILE) for backend, sketch in times.items()}
    mean = sum(seconds[backend] * sketch.total for backend, sketch in times.items()) / requests
    best = min(seconds, key=lambda backend: seconds[backend])
    return Regret(model, size_class, round(requests), mean, seconds[best], best, mean / seconds[best] - 1)
