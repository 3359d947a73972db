"""The fold: what a week of measured times teaches about each pool, and about operators.

Pure but for the model files of the pools' repositories, which tell what operators a model is made of.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from bimetal.fleet.schema import Fleet
from bimetal.learning.documents import ArmRecord, Lessons, OperatorLesson, PoolTime, Statistics
from bimetal.learning.dominants import dominants_of, own_targets
from bimetal.learning.evidence import Key
from bimetal.learning.learner import QUANTILE
from bimetal.learning.operator_fold import operator_lessons
from bimetal.learning.sketch import Sketch, merged
from bimetal.operators.verdict import operator_label

LEAST_REQUESTS = 50
"""Fewer measured requests change no lesson."""
_CHANGED = 0.1
"""A time that moved by less than this part keeps the lesson as it was."""


class Change(NamedTuple):
    """What one version of the lessons changes for one (model, pool, size class).

    `before` and `after` are seconds; None where there is no lesson.
    """

    model: str
    pool: str
    size_class: str
    before: float | None
    after: float | None
    reason: str


def fold(statistics: Statistics, fleet: Fleet, before: Lessons, now: float = 0.0) -> Lessons:
    """The next lessons: pools that were measured enough get a new time, the others keep theirs.

    What the times teach about operators follows from all of them, and only what it says of others is new.
    """
    pools = {backend.name: backend.pool for backend in fleet.backends}
    computes = {backend.name: backend.compute for backend in fleet.backends}
    arms: dict[Key, list[ArmRecord]] = {}
    for arm in statistics.arms:
        if arm.backend in pools:
            arms.setdefault(Key(arm.model, pools[arm.backend], arm.size_class), []).append(arm)
    times = {time.arm: time for time in before.times}
    for key, records in arms.items():
        new = _pool_time(key, records, computes, now)
        if new is not None and _differs(times.get(key), new):
            times[key] = new
    found = tuple(times[key] for key in sorted(times))
    operators = operator_lessons(found, own_targets(fleet), partial(dominants_of, fleet), now)
    return Lessons(times=found, operators=_kept(before.operators, operators))


def _kept(before: Iterable[OperatorLesson], found: Iterable[OperatorLesson]) -> tuple[OperatorLesson, ...]:
    """The newly found, but the old one where it says the same: its date is when it was first seen."""
    old = {lesson.place: lesson for lesson in before}
    return tuple(old[new.place] if new.place in old and old[new.place].score == new.score else new for new in found)


def _pool_time(key: Key, records: list[ArmRecord], computes: Mapping[str, str], now: float) -> PoolTime | None:
    week = merged(Sketch(record.week) for record in records)
    if week.total < LEAST_REQUESTS:
        return None
    on_cpu = any(computes[record.backend] == "cpu" for record in records)
    return PoolTime(
        model=key.model,
        pool=key.backend,
        size_class=key.size_class,
        seconds=week.quantile(QUANTILE),
        requests=round(week.total),
        computed_on="cpu" if on_cpu else "gpu",
        at=now,
    )


def _differs(old: PoolTime | None, new: PoolTime) -> bool:
    if old is None or old.computed_on != new.computed_on:
        return True
    return abs(new.seconds / old.seconds - 1) >= _CHANGED


def compare(before: Lessons, after: Lessons) -> list[Change]:
    """What differs from one version of the lessons to another, in the order of model, pool and size class."""
    old, new = _by_arm(before.times), _by_arm(after.times)
    return [_change(key, old.get(key), new.get(key)) for key in sorted({*old, *new}) if old.get(key) != new.get(key)]


class OperatorChange(NamedTuple):
    """What one version of the lessons changes for a cell of the operator matrix; scores, None where it has none."""

    operator: str
    target: str
    before: int | None
    after: int | None
    reason: str


def compare_operators(before: Lessons, after: Lessons) -> list[OperatorChange]:
    """What differs from one version to another, in the order of domain, operator, version and target."""
    old = {lesson.place: lesson for lesson in before.operators}
    new = {lesson.place: lesson for lesson in after.operators}
    changes = []
    for place in sorted({*old, *new}):
        was, is_ = old.get(place), new.get(place)
        if was != is_:
            domain, operator, version, target = place
            changes.append(
                OperatorChange(
                    operator_label(domain, operator, version),
                    target,
                    was.score if was else None,
                    is_.score if is_ else None,
                    is_.reason if is_ else "no lesson any more",
                )
            )
    return changes


def _by_arm(times: Iterable[PoolTime]) -> dict[Key, PoolTime]:
    return {time.arm: time for time in times}


def _change(key: Key, old: PoolTime | None, new: PoolTime | None) -> Change:
    reason = "no lesson any more"
    if new is not None:
        reason = f"lower quartile of {new.requests:.0f} requests, computed on the {new.computed_on}"
    return Change(*key, old.seconds if old else None, new.seconds if new else None, reason)
