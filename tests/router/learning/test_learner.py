"""The learner: what it counts, what it forgets, and when it changes its mind."""

from collections.abc import Callable
from typing import Any

import pytest

from bimetal.learning.documents import Lessons, PoolTime, Statistics
from bimetal.learning.evidence import Key

MakeFeeder = Callable[..., Any]

CUDA_TIME = PoolTime(model="m", pool="cuda", size_class="small", seconds=0.010, requests=500, computed_on="gpu")


def test_measured_times_become_beliefs_with_an_event_each(feeder: MakeFeeder) -> None:
    it = feeder()
    it.feed("cuda-0", 0.004, 50)
    events = it.review()
    assert it.believed_ms() == {"cuda-0": 4}
    assert [(e.backend, e.kind) for e in events] == [("cuda-0", "learning")]
    assert events[0].text == "m, small requests: not measured → 3.93 ms (counts as 39 requests)"


def test_a_refusal_does_not_make_a_backend_look_fast(feeder: MakeFeeder) -> None:
    it = feeder()
    it.feed("cuda-0", 0.0001, 50, grpc_status=3)
    it.feed("cuda-0", 0.0001, 50, grpc_status=None, http_status=400)
    it.feed("cuda-0", None, 50)
    assert it.review() == []


def test_http_answers_count(feeder: MakeFeeder) -> None:
    it = feeder()
    it.feed("cuda-0", 0.004, 50, grpc_status=None, http_status=200)
    it.review()
    assert it.believed_ms() == {"cuda-0": 4}


def test_the_queue_of_a_busy_backend_does_not_make_it_look_slow(feeder: MakeFeeder) -> None:
    it = feeder()
    it.feed("cuda-0", 0.004, 90)
    it.review()
    it.feed("cuda-0", 0.400, 500, waiting=30.0)
    assert it.review() == []
    assert it.believed_ms() == {"cuda-0": 4}


def test_waiting_of_most_requests_does_not_show_in_the_lower_quartile(feeder: MakeFeeder) -> None:
    it = feeder()
    for _ in range(30):
        it.feed("cuda-0", 0.004, 1)
        it.feed("cuda-0", 0.040, 2)
    it.review()
    assert it.believed_ms() == {"cuda-0": 4}


def test_a_backend_that_was_never_seen_without_a_queue_is_still_learned_a_little(feeder: MakeFeeder) -> None:
    """Else a wrong prior could keep a slow backend crowded, and so believed, for good."""
    it = feeder()
    it.feed("cuda-0", 0.400, 500, waiting=30.0)
    it.review()
    (evidence,) = it.learner.beliefs.values()
    assert evidence.requests == pytest.approx(10, abs=1)


def test_an_unknown_queue_counts_as_none(feeder: MakeFeeder) -> None:
    it = feeder()
    it.feed("cuda-0", 0.004, 50, waiting=None)
    it.review()
    assert it.believed_ms() == {"cuda-0": 4}


def test_noise_changes_nothing(feeder: MakeFeeder) -> None:
    it = feeder()
    it.feed("cuda-0", 0.0040, 500)
    it.review()
    it.feed("cuda-0", 0.0042, 500)
    assert it.review() == []


def test_a_slow_down_is_believed_after_two_half_lives(feeder: MakeFeeder) -> None:
    it = feeder(half_life_requests=64)
    it.feed("cuda-0", 0.004, 500)
    it.review()
    it.feed("cuda-0", 0.012, 120)
    it.review()
    assert it.believed_ms() == {"cuda-0": 4}
    it.feed("cuda-0", 0.012, 16)
    it.review()
    assert it.believed_ms() == {"cuda-0": 12}


def test_a_model_is_not_changed_twice_within_the_interval(feeder: MakeFeeder) -> None:
    it = feeder(interval_s=2)
    it.feed("cuda-0", 0.004, 500)
    assert it.review(after=0.5)
    it.feed("cuda-0", 0.012, 500)
    assert it.review(after=1.5) == []
    assert it.review(after=0.5)


def test_what_is_not_measured_any_more_decays_to_the_prior(feeder: MakeFeeder) -> None:
    it = feeder(half_life_s=3600)
    it.feed("cuda-0", 0.004, 500)
    it.review()
    counts = []
    for _ in range(20):
        it.review(after=3600)
        counts += [e.requests for e in it.learner.beliefs.values()]
    assert counts == sorted(counts, reverse=True)
    assert it.learner.beliefs == {}


def test_size_classes_are_learned_apart(feeder: MakeFeeder) -> None:
    it = feeder()
    it.feed("cuda-0", 0.004, 50)
    it.feed("cuda-0", 0.040, 50, size_class="large")
    it.review()
    found = {key.size_class: round(e.seconds * 1000) for key, e in it.learner.beliefs.items()}
    assert found == {"small": 4, "large": 41}


def test_a_restart_moves_nothing(feeder: MakeFeeder) -> None:
    first, second = feeder(), feeder()
    first.feed("cuda-0", 0.004, 50)
    first.review()
    first.feed("cuda-0", 0.0042, 5)
    saved = first.learner.statistics().model_dump_json()
    second.learner.recall(Statistics.model_validate_json(saved))
    assert second.learner.beliefs == first.learner.beliefs
    assert second.review() == []
    assert second.learner.statistics() == first.learner.statistics()


def test_what_was_heard_since_the_start_is_newer_than_the_store(feeder: MakeFeeder) -> None:
    first, second = feeder(), feeder()
    first.feed("cuda-0", 0.004, 50)
    first.review()
    second.feed("cuda-0", 0.012, 50)
    second.review()
    second.learner.recall(first.learner.statistics())
    assert second.believed_ms() == {"cuda-0": 12}


def test_lessons_speak_for_every_backend_of_their_pool(feeder: MakeFeeder) -> None:
    it = feeder()
    it.learner.teach(Lessons(times=(CUDA_TIME,)), version=3)
    events = it.review()
    assert it.believed_ms() == {"cuda-0": 10, "cuda-1": 10}
    assert "20 of them from lessons 3" in events[0].text


def test_a_backends_own_times_outweigh_the_lessons_of_its_pool(feeder: MakeFeeder) -> None:
    it = feeder()
    it.learner.teach(Lessons(times=(CUDA_TIME,)), version=3)
    it.feed("cuda-0", 0.040, 500)
    it.review()
    assert it.believed_ms()["cuda-0"] > 30
    assert it.believed_ms()["cuda-1"] == 10


def test_reverted_lessons_are_forgotten(feeder: MakeFeeder) -> None:
    it = feeder()
    it.learner.teach(Lessons(times=(CUDA_TIME,)), version=3)
    it.review()
    it.learner.teach(Lessons(), version=4)
    assert {e.backend for e in it.review()} == {"cuda-0", "cuda-1"}
    assert it.learner.beliefs == {}


def test_equal_tries_give_equal_beliefs(feeder: MakeFeeder) -> None:
    made = [feeder(), feeder()]
    for it in made:
        for i in range(40):
            it.feed("cuda-0", 0.001 * (1 + i % 7))
            it.feed("rocm-0", 0.002 * (1 + i % 5))
        it.review()
    assert made[0].learner.beliefs == made[1].learner.beliefs
    assert Key("m", "rocm-0") in made[0].learner.beliefs
