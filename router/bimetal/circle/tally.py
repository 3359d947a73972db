"""What became of tries, counted; and for those that failed a line of log that says where the failure arose."""

from collections import Counter
from collections.abc import Mapping

import structlog

from bimetal.breaker.outcome import Effect, Outcome, Try, origin

log = structlog.get_logger(__name__)

_EVERY_S = 10.0
"""Failures alike within this time share a line: an outage must not fill the disk."""


class Tally:
    """Counts tries by backend and effect.

    Attributes:
        entries: entries of the access logs so far, those that reached no backend included.
    """

    def __init__(self) -> None:
        self.entries = 0
        self._counts: Counter[tuple[str, Effect]] = Counter()
        self._unsaid: Counter[tuple[str, ...]] = Counter()
        self._said_at: dict[tuple[str, ...], float] = {}

    @property
    def counts(self) -> Mapping[tuple[str, Effect], int]:
        """(backend, effect) → tries. A failed HTTP request has two entries, and counts with both."""
        return self._counts

    def take(self, attempt: Try, outcome: Outcome, now: float) -> None:
        """Count a try; if it failed, say so, or count it for the next time that this is said."""
        self._counts[attempt.backend, outcome.effect] += 1
        where = origin(attempt)
        if outcome.effect is Effect.SUCCESS or _tells_nothing(attempt):
            return
        kind = (attempt.backend, attempt.model, where, outcome.effect)
        self._unsaid[kind] += 1
        if now - self._said_at.get(kind, -_EVERY_S) >= _EVERY_S:
            self._said_at[kind] = now
            log.warning(
                "a try failed",
                where=where.value,
                backend=attempt.backend,
                model=attempt.model,
                effect=outcome.effect.value,
                status=attempt.grpc_status if attempt.grpc_status is not None else f"HTTP {attempt.http_status}",
                reason=outcome.reason or attempt.message[:300] or ", ".join(sorted(attempt.flags)),
                times=self._unsaid.pop(kind),
            )


def _tells_nothing(attempt: Try) -> bool:
    """A client's mistake over HTTP, or a failure of which another entry tells more."""
    wordless = not attempt.flags and not attempt.message and attempt.grpc_status is None
    return wordless and attempt.http_status in {0, 400, 500}
