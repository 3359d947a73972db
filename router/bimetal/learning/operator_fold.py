"""From the measured times of models to cells of the operator matrix. Pure.

A time says how fast a model is, not an operator. So it counts for an operator only where that operator takes most of
the model's time, where several such models agree, and only against what else the pool does: a pool of slower devices
is slower at everything, which its bandwidth says already.

    ratio    = a model's time in the pool / its time in the fastest pool
    baseline = median ratio of the pool's models that the operator does not dominate
    slowness = ratio / baseline, of each model that it dominates

All of them at least 4: score 3. At least 2: score 4. At most 1.2 (with ratio, too): score 5. Else nothing is learned.
Only native operators have a speed to learn; what runs where, and what is dangerous, is never moved by times.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import NamedTuple

from bimetal.learning.documents import OperatorLesson, PoolTime
from bimetal.operators.matrix.matrix import Learned, Place
from bimetal.operators.matrix.targets import Target

LEAST_MODELS = 2
"""One model says as much about itself as about its operator."""
_VERY_SLOW, _SLOW, _SAME = 4.0, 2.0, 1.2


class Operator(NamedTuple):
    """An operator at one version."""

    domain: str
    name: str
    version: int


Dominants = Callable[[str, str], frozenset[Operator]]
"""(model, pool) -> the operators that take most of the model's time there; empty where no file tells."""


class _Measured(NamedTuple):
    model: str
    ratio: float
    fastest_pool: str
    dominants: frozenset[Operator]


def operator_lessons(
    times: Iterable[PoolTime], targets: Mapping[str, Target], dominants: Dominants, now: float
) -> tuple[OperatorLesson, ...]:
    """What the times teach about operators.

    Args:
        targets: the target of every pool that computes on its own devices; times of other pools (emulated on the CPU)
            teach nothing about a vendor.
        now: Unix time in seconds.
    """
    measured = _by_target(times, targets, dominants)
    found = []
    for target, models in measured.items():
        for operator in sorted({each for model in models for each in model.dominants}):
            lesson = _lesson(operator, target, models, now)
            if lesson is not None:
                found.append(lesson)
    return tuple(sorted(found, key=lambda lesson: lesson.place))


def _by_target(
    times: Iterable[PoolTime], targets: Mapping[str, Target], dominants: Dominants
) -> Mapping[Target, list[_Measured]]:
    """Every model that was measured in several pools, by the target of each of them."""
    alike: dict[tuple[str, str], list[PoolTime]] = {}
    for time in times:
        if time.pool in targets:
            alike.setdefault((time.model, time.size_class), []).append(time)
    measured: dict[Target, list[_Measured]] = {}
    for (model, _), pools in alike.items():
        if len(pools) < 2:
            continue
        fastest = min(pools, key=lambda time: time.seconds)
        for time in pools:
            each = _Measured(model, time.seconds / fastest.seconds, fastest.pool, dominants(model, time.pool))
            measured.setdefault(targets[time.pool], []).append(each)
    return measured


def _lesson(operator: Operator, target: Target, models: Sequence[_Measured], now: float) -> OperatorLesson | None:
    ours = [each for each in models if operator in each.dominants]
    others = [each.ratio for each in models if operator not in each.dominants]
    names = tuple(sorted({each.model for each in ours}))
    if len(names) < LEAST_MODELS or not others:
        return None
    baseline = median(others)
    slowness = [each.ratio / baseline for each in ours]
    score = _score(slowness, [each.ratio for each in ours])
    if score is None:
        return None
    reason = (
        f"models that it dominates ({', '.join(names)}) took {_span([each.ratio for each in ours])} times the time of "
        f"the fastest pool ({', '.join(sorted({each.fastest_pool for each in ours}))}), "
        f"other models {baseline:.2g} times"
    )
    return OperatorLesson(
        domain=operator.domain,
        operator=operator.name,
        version=operator.version,
        target=target,
        score=score,
        reason=reason,
        models=names,
        at=now,
    )


def _score(slowness: Sequence[float], ratios: Sequence[float]) -> int | None:
    if min(slowness) >= _SLOW:
        return 3 if min(slowness) >= _VERY_SLOW else 4
    return 5 if max(slowness) <= _SAME and max(ratios) <= _SAME else None


def _span(ratios: Sequence[float]) -> str:
    low, high = f"{min(ratios):.2g}", f"{max(ratios):.2g}"
    return low if low == high else f"{low} to {high}"


def learned_cells(lessons: Iterable[OperatorLesson], version: int) -> dict[Place, Learned]:
    """The lessons as the operator matrix takes them, with their provenance in words."""
    return {
        lesson.place: Learned(
            lesson.score,
            f"measured on this cluster at {datetime.fromtimestamp(lesson.at, UTC):%Y-%m-%d} (lessons {version}): "
            f"{lesson.reason}",
        )
        for lesson in lessons
    }
