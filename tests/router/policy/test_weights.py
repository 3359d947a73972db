"""What a weight is made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bimetal.policy.weights import Standing, load_factor, temperature_factor, weigh

IDLE = Standing(bandwidth_gbs=None, load=1.0, breaker=1.0)


def shares(**candidates: tuple[int | None, Standing]) -> dict[str, float]:
    factors = weigh(candidates)
    total = sum(f.product for f in factors.values())
    return {name: round(f.product / total, 3) for name, f in factors.items()}


def test_equal_backends_get_equal_shares() -> None:
    assert shares(a=(4, IDLE), b=(4, IDLE)) == {"a": 0.5, "b": 0.5}


def test_a_better_operator_score_gets_more() -> None:
    assert shares(a=(5, IDLE), b=(3, IDLE)) == {"a": 0.667, "b": 0.333}


@pytest.mark.parametrize(("poor", "better"), [(0, 2), (1, 2), (0, 3), (1, 3), (2, 3), (2, 5)])
def test_a_backend_that_is_bad_at_a_model_gets_nothing_beside_a_better_one(poor: int, better: int) -> None:
    """The incident: RoPE models went to nodes that were bad at it, and P99 tripled."""
    assert shares(good=(better, IDLE), poor=(poor, IDLE)) == {"good": 1.0, "poor": 0.0}


@pytest.mark.parametrize("poor", [0, 1, 2])
def test_a_poor_backend_serves_what_nobody_serves_better(poor: int) -> None:
    assert shares(poor=(poor, IDLE)) == {"poor": 1.0}


def test_an_unknown_score_is_neither_the_worst_nor_the_best() -> None:
    weights = {n: f.product for n, f in weigh({"u": (None, IDLE), "w": (1, IDLE), "b": (4, IDLE)}).items()}
    assert weights["w"] < weights["u"] < weights["b"]


def test_bandwidth_shares_in_proportion() -> None:
    fast, slow = (Standing(gbs, 1.0, 1.0) for gbs in (3000.0, 1000.0))
    assert shares(fast=(4, fast), slow=(4, slow)) == {"fast": 0.75, "slow": 0.25}


def test_an_unknown_bandwidth_counts_as_the_slowest_known() -> None:
    fast, slow = (Standing(gbs, 1.0, 1.0) for gbs in (3000.0, 1000.0))
    factors = weigh({"fast": (4, fast), "slow": (4, slow), "unknown": (4, IDLE)})
    assert factors["unknown"].bandwidth == factors["slow"].bandwidth


def test_load_halves_at_the_configured_queue_and_never_reaches_zero() -> None:
    assert [load_factor(p, 32) for p in (0, 32, 10**6)] == [1.0, 0.5, 0.1]


def test_an_unknown_load_is_not_a_busy_one() -> None:
    assert load_factor(None, 32) == 1.0


@given(st.dictionaries(st.text(min_size=1), st.tuples(st.none() | st.integers(0, 5), st.none() | st.floats(1, 1e5))))
def test_some_able_backend_always_gets_traffic(candidates: dict[str, tuple[int | None, float | None]]) -> None:
    factors = weigh({n: (score, Standing(gbs, 1.0, 1.0)) for n, (score, gbs) in candidates.items()})
    assert bool(candidates) == any(f.product > 0 for f in factors.values())
    assert all(0 <= part <= 1 for f in factors.values() for part in f)


def test_heat_counts_from_the_cool_margin_on_and_never_more_than_a_half() -> None:
    margins = (None, 40.0, 10.0, 5.0, 0.0, -7.0)
    assert [temperature_factor(margin, 10.0) for margin in margins] == [1.0, 1.0, 1.0, 0.8, 0.5, 0.5]


def test_a_backend_that_slows_down_from_heat_gets_half_as_much() -> None:
    hot = IDLE._replace(temperature=temperature_factor(0.0, 10.0))
    assert shares(cool=(4, IDLE), hot=(4, hot)) == {"cool": 0.667, "hot": 0.333}
