"""Measuring in turn: A B C, A B C, …, so that a machine whose speed drifts is unfair to nobody."""

import statistics
from collections.abc import Callable, Mapping


def in_turn(measures: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of `rounds` measurements of each, taken in turn."""
    taken: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            taken[name].append(measure())
    return {name: statistics.median(values) for name, values in taken.items()}
