"""The learner: collects the times of requests per arm and decides when to believe something new. No I/O.

Two memories per arm: `recent` forgets within some hundred requests and moves the weights now; `week` forgets with the
week and is what `bimetal learn` folds into the lessons.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field

from bimetal.breaker.outcome import Try
from bimetal.fleet.settings import LearningSettings
from bimetal.learning.documents import ArmRecord, BeliefRecord, Lessons, PoolTime, Statistics
from bimetal.learning.evidence import Beliefs, Evidence, Key, combine
from bimetal.learning.sketch import Sketch
from bimetal.state.event import Event

QUANTILE = 0.25
"""A request's time is service and waiting. In an M/M/1 queue a request finds nobody before it with probability
1 - rho, and rho**2 / (1 - rho) wait in the mean. At `most_waiting` = 1 that is rho = 0.62: 38 % of the requests did not
wait, so the lower quartile is free of waiting with a margin for bursts."""
_WEEK_S = 7 * 86400.0
_LOOK_AGAIN_S = 60.0
"""How often a model without traffic is reviewed: its evidence only fades."""
_NOTHING = 0.05
"""An arm that counts as less is forgotten."""
_MOVED_TRUST = 0.1
_MOVED_TIME = math.log(1.1)
"""Less than this is noise: the standard error of a lower quartile of 90 log-normal times with sigma 0.5 is 7 %."""


@dataclass
class _Arm:
    at: float
    recent: Sketch = field(default_factory=Sketch)
    week: Sketch = field(default_factory=Sketch)

    def fade_to(self, now: float, settings: LearningSettings) -> None:
        passed = max(0.0, now - self.at)
        self.recent.fade(0.5 ** (passed / settings.half_life_s))
        self.week.fade(0.5 ** (passed / _WEEK_S))
        self.at = max(self.at, now)


@dataclass
class _Pace:
    """When a model's beliefs were last looked at and changed, and whether it was heard of since."""

    looked: float = -math.inf
    changed: float = -math.inf
    heard: bool = True


class Learner:
    """Holds the arms and what is believed of them.

    Args:
        pool_of: pool by backend, of every backend of the fleet.
    """

    def __init__(self, settings: LearningSettings, pool_of: Mapping[str, str]) -> None:
        self._settings = settings
        self._pool_of = pool_of
        self._arms: dict[Key, _Arm] = {}
        self._lessons: Mapping[Key, PoolTime] = {}
        self._version = 0
        self._beliefs: dict[Key, Evidence] = {}
        self._paces: dict[str, _Pace] = {}

    @property
    def beliefs(self) -> Beliefs:
        """The evidence as last applied; changes only in `review` and `recall`."""
        return self._beliefs

    def hear(self, tries: Iterable[Try], waiting: Callable[[str], float | None], now: float) -> None:
        """Take in the times of tries.

        Args:
            waiting: requests in the queues of a backend; None if unknown.
        """
        times: dict[Key, list[float]] = {}
        for attempt in tries:
            if attempt.seconds is not None and _answered(attempt):
                times.setdefault(Key(attempt.model, attempt.backend, attempt.size_class), []).append(attempt.seconds)
        for key, seconds in times.items():
            crowded = (waiting(key.backend) or 0.0) >= self._settings.most_waiting
            self._add(key, seconds, now, crowded)

    def _add(self, key: Key, seconds: list[float], now: float, crowded: bool) -> None:
        arm = self._arms.setdefault(key, _Arm(now))
        arm.fade_to(now, self._settings)
        if crowded:
            # A wrong prior may crowd a slow backend for good, so such times count where nothing better is known, at
            # most as much as the prior. That takes traffic away, the queue drains, and clean times replace them.
            unknown = self._settings.prior_requests - arm.recent.total
            seconds = seconds[: max(0, math.ceil(unknown))]
        else:
            arm.week.add(seconds)
        arm.recent.add(seconds, keep=0.5 ** (1 / self._settings.half_life_requests))
        self._paces.setdefault(key.model, _Pace()).heard = True

    def teach(self, lessons: Lessons, version: int) -> None:
        """Take over the lessons of a `bimetal learn`; they move shares at the next review."""
        if version == self._version:
            return
        taught = {time.arm for time in lessons.times}
        for model in {key.model for key in taught | set(self._lessons)}:
            self._paces.setdefault(model, _Pace()).heard = True
        self._lessons, self._version = {time.arm: time for time in lessons.times}, version

    def review(self, now: float) -> list[Event]:
        """Believe what has moved enough, of every model whose time it is; an event for each change."""
        due = [model for model, pace in self._paces.items() if self._is_due(pace, now)]
        return [event for model in due for event in self._review(model, now)]

    def _is_due(self, pace: _Pace, now: float) -> bool:
        rested = now - pace.changed >= self._settings.interval_s and now - pace.looked >= self._settings.interval_s
        return rested and (pace.heard or now - pace.looked >= _LOOK_AGAIN_S)

    def _review(self, model: str, now: float) -> list[Event]:
        pace = self._paces[model]
        pace.looked, pace.heard = now, False
        found = self._found(model, now)
        events = []
        for key in sorted({*found, *(key for key in self._beliefs if key.model == model)}):
            old, new = self._beliefs.get(key), found.get(key)
            if self._moved(old, new):
                self._believe(key, new)
                text = f"{model}, {key.size_class} requests: {_words(old)} → {_words(new)}"
                events.append(Event(now, key.backend, "learning", text))
        if events:
            pace.changed = now
        return events

    def _found(self, model: str, now: float) -> dict[Key, Evidence]:
        """What is known of every arm of a model: measured there, learned of its pool, or both."""
        found = {}
        for key in [key for key in self._arms if key.model == model]:
            arm = self._arms[key]
            arm.fade_to(now, self._settings)
            if arm.recent.total + arm.week.total < _NOTHING:
                del self._arms[key]
            elif arm.recent.buckets:
                found[key] = Evidence(arm.recent.quantile(QUANTILE), arm.recent.total)
        for time in self._lessons.values():
            for backend in (b for b, pool in self._pool_of.items() if (time.model, time.pool) == (model, pool)):
                key = Key(model, backend, time.size_class)
                weight = min(time.requests, self._settings.lesson_requests)
                if weight:
                    found[key] = combine(found.get(key), Evidence(time.seconds, weight, weight, self._version, time.at))
        return found

    def _believe(self, key: Key, evidence: Evidence | None) -> None:
        if evidence is None:
            self._beliefs.pop(key, None)
        else:
            self._beliefs = {**self._beliefs, key: evidence}

    def _moved(self, old: Evidence | None, new: Evidence | None) -> bool:
        if old is None or new is None:
            return old is not None or self._trust(new) >= _MOVED_TRUST
        trust = self._trust(new)
        slower = math.log(new.seconds / old.seconds)
        return abs(trust - self._trust(old)) >= _MOVED_TRUST or abs(slower) * trust >= _MOVED_TIME

    def _trust(self, evidence: Evidence | None) -> float:
        """How much the evidence weighs against the prior, 0..1."""
        return evidence.requests / (evidence.requests + self._settings.prior_requests) if evidence else 0.0

    def statistics(self) -> Statistics:
        """All times and beliefs, for the store to keep over a restart."""
        return Statistics(
            arms=tuple(
                ArmRecord(**key._asdict(), at=arm.at, recent=arm.recent.buckets, week=arm.week.buckets)
                for key, arm in self._arms.items()
            ),
            beliefs=tuple(BeliefRecord(**key._asdict(), **asdict(e)) for key, e in self._beliefs.items()),
        )

    def recall(self, statistics: Statistics) -> None:
        """Take over what the store remembers, except of arms that were heard of already."""
        for record in statistics.arms:
            key = Key(record.model, record.backend, record.size_class)
            self._arms.setdefault(key, _Arm(record.at, Sketch(record.recent), Sketch(record.week)))
            self._paces.setdefault(record.model, _Pace())
        remembered = {
            Key(b.model, b.backend, b.size_class): Evidence(
                b.seconds, b.requests, b.remembered, b.version, b.learned_at
            )
            for b in statistics.beliefs
        }
        for key in remembered:
            self._paces.setdefault(key.model, _Pace())
        self._beliefs = remembered | self._beliefs


def _answered(attempt: Try) -> bool:
    """Whether the model ran: a refusal is fast wherever it comes from, and must not make its backend look fast."""
    if attempt.grpc_status is not None:
        return attempt.grpc_status == 0
    return 200 <= attempt.http_status < 300


def _words(evidence: Evidence | None) -> str:
    if evidence is None:
        return "not measured"
    learned = f", {evidence.remembered:.0f} of them from lessons {evidence.version}" if evidence.remembered else ""
    return f"{evidence.seconds * 1000:.3g} ms (counts as {evidence.requests:.0f} requests{learned})"
