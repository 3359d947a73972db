"""What became of tries is counted, and a failure leaves a line that says where it arose."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from bimetal.breaker.outcome import Effect, Try, classify
from bimetal.circle.tally import Tally


def lines(tally: Tally, *tries: Try, now: float = 0.0) -> list[Any]:
    """What is logged of tries that ended at `now`."""
    with capture_logs() as logged:
        for attempt in tries:
            tally.take(attempt, classify(attempt), now)
    return list(logged)


def failed(flag: str, http_status: int = 503, **fields: Any) -> Try:
    return Try("cuda-0", "m", flags=frozenset({flag}), http_status=http_status, **fields)


@pytest.mark.parametrize(
    ("attempt", "where"),
    [
        (failed("upstream_request_timeout", 504), "gateway"),
        (failed("upstream_overflow"), "gateway"),
        (failed("upstream_connection_termination"), "connection"),
        (failed("upstream_connection_failure"), "connection"),
        (failed("downstream_connection_termination", 0), "client"),
        (failed("duration_timeout", 504), "client"),
        (Try("cuda-0", "m", http_status=200, grpc_status=13, message="Stub process is not healthy"), "backend"),
        (Try("cuda-0", "m", http_status=404), "backend"),
    ],
)
def test_the_log_says_where_a_try_failed(attempt: Try, where: str) -> None:
    """KServe 3533: a random 502, and nobody could say whose."""
    (line,) = lines(Tally(), attempt)
    assert (line["where"], line["backend"], line["model"]) == (where, "cuda-0", "m")
    assert line["reason"] or where == "backend"


def test_the_words_of_a_failure_over_http_are_logged_once() -> None:
    without_words = Try("cuda-0", "m", http_status=500)
    with_words = Try("cuda-0", "m", http_status=500, message="CUDA error: out of memory")
    (line,) = lines(Tally(), without_words, with_words)
    assert (line["status"], line["reason"], line["effect"]) == ("HTTP 500", "CUDA error: out of memory", "failure")


@pytest.mark.parametrize("attempt", [Try("cuda-0", "m", grpc_status=0), Try("cuda-0", "m", http_status=400)])
def test_successes_and_clients_mistakes_are_not_logged(attempt: Try) -> None:
    assert lines(Tally(), attempt) == []


def test_failures_alike_share_a_line_and_their_number_is_not_lost() -> None:
    tally, attempt = Tally(), failed("upstream_connection_failure")
    assert [line["times"] for line in lines(tally, *[attempt] * 50)] == [1]
    assert [line["times"] for line in lines(tally, attempt, now=11.0)] == [50]


def test_tries_are_counted_by_backend_and_effect() -> None:
    tally = Tally()
    lines(tally, Try("a", "m", grpc_status=0), Try("a", "m", grpc_status=0), failed("upstream_overflow"))
    assert tally.counts == {("a", Effect.SUCCESS): 2, ("cuda-0", Effect.NEUTRAL): 1}
