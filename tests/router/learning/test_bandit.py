"""The bandit: priors and evidence become lessons, weights become shares with a floor."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bimetal.fleet.settings import LearningSettings
from bimetal.learning.bandit import learn, with_floor
from bimetal.learning.evidence import Evidence

SETTINGS = LearningSettings()
ARMS = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.tuples(st.floats(0.01, 1), st.none() | st.tuples(st.floats(1e-4, 10), st.floats(0.5, 200))),
    min_size=1,
)
WEIGHTS = st.dictionaries(st.sampled_from("abcdefghijklmnop"), st.just(0.0) | st.floats(1e-6, 1))

Arms = dict[str, tuple[float, tuple[float, float] | None]]


def weights(arms: Arms, settings: LearningSettings = SETTINGS) -> dict[str, float]:
    priors = {name: prior for name, (prior, _) in arms.items()}
    evidence = {name: Evidence(*measured) for name, (_, measured) in arms.items() if measured}
    lessons = learn(priors, evidence, settings)
    return {name: priors[name] ** lesson.fade * lesson.measured for name, lesson in lessons.items()}


def test_without_evidence_the_priors_stand() -> None:
    assert weights({"a": (1.0, None), "b": (0.2, None)}) == {"a": 1.0, "b": 0.2}


def test_much_evidence_overrules_a_wrong_prior() -> None:
    found = weights({"believed": (1.0, (0.016, 92)), "doubted": (0.05, (0.004, 92))})
    assert found["doubted"] > 10 * found["believed"]


def test_as_many_requests_as_the_prior_counts_weigh_half() -> None:
    lessons = learn({"a": 1.0, "b": 0.5}, {"a": Evidence(0.01, SETTINGS.prior_requests)}, SETTINGS)
    assert (lessons["a"].fade, lessons["b"].fade) == (0.5, 1.0)


def test_measuring_one_arm_alone_does_not_change_what_is_believed_of_both() -> None:
    settings = LearningSettings(indifference=0)
    found = weights({"a": (1.0, (0.01, 500)), "b": (0.2, None)}, settings)
    assert found["b"] / found["a"] == pytest.approx(0.2)


def test_arms_that_are_about_equally_fast_get_the_same() -> None:
    lessons = learn({"a": 1.0, "b": 1.0}, {"a": Evidence(0.010, 1e6), "b": Evidence(0.0119, 1e6)}, SETTINGS)
    assert lessons["a"].measured == lessons["b"].measured == 1.0


def test_twice_as_slow_gets_two_to_the_sharpness_less() -> None:
    settings = LearningSettings(sharpness=2, indifference=0)
    found = weights({"a": (1.0, (0.01, 1e9)), "b": (1.0, (0.02, 1e9))}, settings)
    assert found["a"] / found["b"] == pytest.approx(4)


@given(ARMS)
def test_lessons_are_fractions_and_the_same_every_time(arms: Arms) -> None:
    found = weights(arms)
    assert all(0 <= weight <= 1 and math.isfinite(weight) for weight in found.values())
    assert found == weights(dict(arms))


@given(ARMS)
def test_the_unit_of_time_does_not_matter(arms: Arms) -> None:
    in_ms = {name: (prior, (m[0] * 1000, m[1]) if m else None) for name, (prior, m) in arms.items()}
    assert weights(in_ms) == pytest.approx(weights(arms))


@given(ARMS, st.sampled_from("abcdefgh"), st.floats(1.5, 10))
def test_an_arm_that_gets_slower_never_gets_more(arms: Arms, name: str, factor: float) -> None:
    """Within the zone of indifference it may, by parts of a percent: it counts as fast there, and the scale moves."""
    exact = LearningSettings(indifference=0)
    prior, measured = arms.get(name, (1.0, None))
    if measured is None:
        return
    slower = {**arms, name: (prior, (measured[0] * factor, measured[1]))}
    before, after = (with_floor(weights(each, exact), 0.0)[name] for each in (arms, slower))
    assert after <= before + 1e-9


@given(WEIGHTS, st.floats(0, 0.2))
def test_shares_sum_to_one_and_keep_the_floor(given_weights: dict[str, float], floor: float) -> None:
    shares = with_floor(given_weights, floor)
    able = [name for name, weight in given_weights.items() if weight > 0]
    assert sum(shares.values()) == pytest.approx(1 if able else 0)
    assert all(shares[name] >= min(floor, 0.5 / len(able)) - 1e-12 for name in able)
    assert all(shares[name] == 0 for name in given_weights if name not in able)


@given(WEIGHTS, st.floats(0, 0.2))
def test_the_floor_keeps_the_order(given_weights: dict[str, float], floor: float) -> None:
    shares = with_floor(given_weights, floor)
    ordered = sorted(given_weights, key=lambda n: given_weights[n])
    assert all(shares[low] <= shares[high] + 1e-12 for low, high in pairwise(ordered))


def test_shares_above_the_floor_stay_where_nobody_is_below_it() -> None:
    assert with_floor({"a": 3.0, "b": 1.0}, 0.03) == {"a": 0.75, "b": 0.25}
