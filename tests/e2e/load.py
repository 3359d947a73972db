"""A bounded load on one model from several stock clients at once, with every error kept."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

MOST_SECONDS = 120


class Loader:
    """Client threads that infer until they are told to stop, or `MOST_SECONDS` are over."""

    def __init__(self, make_call: Callable[[], Callable[[], Any]], clients: int) -> None:
        self.errors: list[str] = []
        self._answers = [0] * clients
        self._stop = threading.Event()
        self._end = time.monotonic() + MOST_SECONDS
        self._threads = [threading.Thread(target=self._work, args=(make_call, i)) for i in range(clients)]

    @property
    def answers(self) -> int:
        """Good answers so far."""
        return sum(self._answers)

    def _work(self, make_call: Callable[[], Callable[[], Any]], index: int) -> None:
        call = make_call()
        while not self._stop.is_set() and time.monotonic() < self._end:
            try:
                call()
                self._answers[index] += 1
            except Exception as error:  # noqa: BLE001  # whatever a client would see is what is asked about
                self.errors.append(str(error))

    @contextmanager
    def running(self) -> Iterator["Loader"]:
        """The clients at work."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()
