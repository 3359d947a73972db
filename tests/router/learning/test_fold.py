"""The fold: a week of times becomes lessons per pool."""

from collections.abc import Callable
from typing import Any

import pytest

from bimetal.fleet.schema import Fleet
from bimetal.learning.documents import ArmRecord, Lessons, PoolTime, Statistics
from bimetal.learning.fold import LEAST_REQUESTS, compare, fold
from bimetal.learning.sketch import Sketch


def week(backend: str, seconds: float, requests: int = 100, **fields: Any) -> ArmRecord:
    sketch = Sketch()
    sketch.add([seconds] * requests)
    values = {"model": "m", "size_class": "small", "at": 0.0, "recent": {}, **fields}
    return ArmRecord(backend=backend, week=sketch.buckets, **values)


def lesson(pool: str, seconds: float) -> PoolTime:
    return PoolTime(model="m", pool=pool, size_class="small", seconds=seconds, requests=99, computed_on="gpu")


@pytest.fixture
def fleet(fleet_of: Callable[..., Fleet]) -> Fleet:
    return fleet_of("cuda-0", "cuda-1", "rocm-0", extras={"rocm-0": {"compute": "cpu"}})


def found_ms(lessons: Lessons) -> dict[str, int]:
    return {time.pool: round(time.seconds * 1000) for time in lessons.times}


def test_a_pools_time_is_that_of_all_its_backends(fleet: Fleet) -> None:
    statistics = Statistics(arms=(week("cuda-0", 0.004), week("cuda-1", 0.004, 200), week("rocm-0", 0.02)))
    lessons = fold(statistics, fleet, Lessons())
    assert found_ms(lessons) == {"cuda": 4, "rocm": 20}
    assert [time.requests for time in lessons.times] == [300, 100]


def test_a_lesson_says_where_it_was_computed(fleet: Fleet) -> None:
    """A pool that is emulated on CPUs teaches about this cluster, not about its vendor's devices."""
    lessons = fold(Statistics(arms=(week("cuda-0", 0.004), week("rocm-0", 0.02))), fleet, Lessons())
    assert {time.pool: time.computed_on for time in lessons.times} == {"cuda": "gpu", "rocm": "cpu"}


def test_too_few_requests_teach_nothing_and_keep_what_was_learned(fleet: Fleet) -> None:
    before = Lessons(times=(lesson("cuda", 0.008),))
    few = Statistics(arms=(week("cuda-0", 0.004, LEAST_REQUESTS - 1), week("rocm-0", 0.02, LEAST_REQUESTS)))
    assert found_ms(fold(few, fleet, before)) == {"cuda": 8, "rocm": 20}


def test_a_time_that_hardly_moved_keeps_its_lesson(fleet: Fleet) -> None:
    before = Lessons(times=(lesson("cuda", 0.0041),))
    assert fold(Statistics(arms=(week("cuda-0", 0.004),)), fleet, before) == before


def test_backends_that_left_the_fleet_teach_nothing(fleet: Fleet) -> None:
    assert fold(Statistics(arms=(week("gone-0", 0.004),)), fleet, Lessons()) == Lessons()


def test_changes_have_before_after_and_reason() -> None:
    before = Lessons(times=(lesson("cuda", 0.008), lesson("old", 0.1)))
    after = Lessons(times=(lesson("cuda", 0.004), lesson("rocm", 0.02)))
    changes = compare(before, after)
    assert [(c.pool, c.before, c.after) for c in changes] == [
        ("cuda", 0.008, 0.004),
        ("old", 0.1, None),
        ("rocm", None, 0.02),
    ]
    assert changes[0].reason == "lower quartile of 99 requests, computed on the gpu"
    assert compare(after, after) == []
