"""A learner with hands to feed it."""

from collections.abc import Callable
from typing import Any

import pytest

from bimetal.breaker.outcome import Try
from bimetal.fleet.settings import LearningSettings
from bimetal.learning.learner import Learner
from bimetal.state.event import Event

POOL_OF = {"cuda-0": "cuda", "cuda-1": "cuda", "rocm-0": "rocm"}


class Feeder:
    """A learner, a clock, and tries of model m."""

    def __init__(self, **settings: Any) -> None:
        self.learner = Learner(LearningSettings(**settings), POOL_OF)
        self.now = 1000.0

    def feed(self, backend: str, seconds: float, times: int = 1, *, waiting: float | None = 0.0, **fields: Any) -> None:
        """Let it hear of `times` answers."""
        attempt = Try(backend, "m", **{"grpc_status": 0, "seconds": seconds, **fields})
        self.learner.hear([attempt] * times, lambda _: waiting, self.now)

    def review(self, after: float = 2.0) -> list[Event]:
        """What it changes its mind about, `after` seconds later."""
        self.now += after
        return self.learner.review(self.now)

    def believed_ms(self) -> dict[str, int]:
        """Milliseconds by backend, rounded."""
        return {key.backend: round(e.seconds * 1000) for key, e in self.learner.beliefs.items()}


@pytest.fixture
def feeder() -> Callable[..., Feeder]:
    """Makes a feeder; settings on request."""
    return Feeder
