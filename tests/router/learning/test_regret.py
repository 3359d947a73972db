"""The week against the best fixed policy."""

import pytest

from bimetal.learning.documents import ArmRecord, Statistics
from bimetal.learning.regret import regrets
from bimetal.learning.sketch import Sketch


def arm(backend: str, seconds: float, requests: int, model: str = "m") -> ArmRecord:
    sketch = Sketch()
    sketch.add([seconds] * requests)
    return ArmRecord(model=model, backend=backend, size_class="small", at=0.0, recent={}, week=sketch.buckets)


def test_a_tenth_of_the_requests_on_a_server_of_twice_the_time_costs_a_tenth() -> None:
    (found,) = regrets(Statistics(arms=(arm("fast", 0.004, 900), arm("slow", 0.008, 100))))
    assert (found.requests, found.best_backend) == (1000, "fast")
    assert found.best_seconds == pytest.approx(0.004, rel=0.03)
    assert found.part == pytest.approx(0.1, abs=0.01)


def test_all_requests_on_the_fastest_are_no_regret() -> None:
    (found,) = regrets(Statistics(arms=(arm("fast", 0.004, 900), arm("slow", 0.008, 1))))
    assert found.part == pytest.approx(0, abs=0.002)


def test_one_backend_or_few_requests_have_no_regret_to_speak_of() -> None:
    assert regrets(Statistics(arms=(arm("fast", 0.004, 900),))) == []
    assert regrets(Statistics(arms=(arm("fast", 0.004, 9), arm("slow", 0.008, 9)))) == []
    assert regrets(Statistics()) == []


def test_what_several_gateways_measured_of_one_backend_counts_together() -> None:
    (found,) = regrets(Statistics(arms=(arm("fast", 0.004, 100), arm("fast", 0.004, 800), arm("slow", 0.008, 100))))
    assert (found.requests, found.best_backend) == (1000, "fast")
