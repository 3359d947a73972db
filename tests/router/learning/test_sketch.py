"""The sketch: quantiles with a bounded error, and forgetting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bimetal.learning.sketch import Sketch, merged

TIMES = st.lists(st.floats(1e-5, 1e3), min_size=1, max_size=50)


def sketch_of(times: list[float], keep: float = 1.0) -> Sketch:
    made = Sketch()
    made.add(times, keep)
    return made


@given(TIMES, st.floats(0.01, 1))
def test_a_quantile_is_within_three_percent_of_the_true_one(times: list[float], part: float) -> None:
    found = sketch_of(times).quantile(part)
    assert found == pytest.approx(np.quantile(times, part, method="inverted_cdf"), rel=0.03)


@given(TIMES, TIMES)
def test_merging_gives_the_sketch_of_all_times(first: list[float], second: list[float]) -> None:
    both = merged([sketch_of(first), sketch_of(second)])
    assert both.buckets == pytest.approx(sketch_of(first + second).buckets)


@given(TIMES, st.floats(0.5, 0.99))
def test_a_batch_forgets_as_if_its_times_had_come_one_by_one(times: list[float], keep: float) -> None:
    one_by_one = Sketch()
    for time in times:
        one_by_one.add([time], keep)
    assert sketch_of(times, keep).total == pytest.approx(one_by_one.total, abs=0.05)


def test_after_one_half_life_old_times_weigh_half() -> None:
    made = sketch_of([1.0] * 8)
    made.add([2.0] * 10, keep=0.5 ** (1 / 10))
    old = min(made.buckets)
    assert made.buckets[old] == pytest.approx(4.0)


def test_what_fades_away_takes_no_memory() -> None:
    made = sketch_of([0.1, 0.2, 0.3])
    made.fade(1e-6)
    assert made.buckets == {}


def test_an_empty_sketch_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="add a time first"):
        Sketch().quantile(0.5)
