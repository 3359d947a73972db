"""Work side by side: what can wait waits, what fails lets nothing new begin."""

import threading
import time

import pytest

from bimetal.images.errors import ImageError
from bimetal.images.parallel import Crew, OneAtATime
from bimetal.images.report import Interrupted
from tests.patience import PATIENCE_S


def test_two_workers_work_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def work(_: str) -> None:
        both.wait()

    crew = Crew(["a", "b"], work, workers=2)
    crew.run()
    assert crew.errors == []
    assert not both.broken


def test_items_begin_in_their_order() -> None:
    begun: list[int] = []
    Crew([3, 1, 2], begun.append, workers=1).run()
    assert begun == [3, 1, 2]


def test_after_a_failure_nothing_new_begins_and_what_runs_is_kept() -> None:
    begun: list[str] = []
    done: list[str] = []

    def work(name: str) -> None:
        begun.append(name)
        if name == "bad":
            raise ImageError("bad broke.", "mend it")
        deadline = time.monotonic() + PATIENCE_S
        while not crew.errors:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        done.append(name)

    crew = Crew(["good", "bad", "late"], work, workers=2)
    crew.run()
    assert [str(error) for error in crew.errors] == ["bad broke. Next: mend it"]
    assert (sorted(begun), done) == (["bad", "good"], ["good"])


def test_a_mistake_in_the_work_itself_is_raised_with_its_traceback() -> None:
    def work(_: str) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Crew(["a"], work, workers=1).run()


def test_an_interruption_ends_what_runs_and_begins_nothing() -> None:
    running, go_on = threading.Event(), threading.Event()
    begun = []

    def work(name: str) -> None:
        begun.append(name)
        running.set()
        assert go_on.wait(PATIENCE_S)
        raise Interrupted

    crew = Crew(["a", "b"], work, workers=1)
    threading.Thread(target=crew.run, daemon=True).start()
    assert running.wait(PATIENCE_S)
    go_on.set()
    crew.interrupt()
    assert (begun, crew.errors) == (["a"], [])


def test_work_of_one_key_is_done_by_one_at_a_time() -> None:
    one_at_a_time = OneAtATime()
    made: list[str] = []
    begin = threading.Barrier(4, timeout=PATIENCE_S)

    def work(_: int) -> None:
        begin.wait()
        with one_at_a_time.on("base"):
            if not made:
                made.append("base")

    Crew(range(4), work, workers=4).run()
    assert made == ["base"]


def test_work_of_another_key_does_not_wait() -> None:
    one_at_a_time = OneAtATime()
    inside = threading.Barrier(2, timeout=PATIENCE_S)

    def work(key: str) -> None:
        with one_at_a_time.on(key):
            inside.wait()

    Crew(["bookworm", "trixie"], work, workers=2).run()
    assert not inside.broken
