"""Several pieces of work side by side: what finished is kept, the first failure lets nothing new begin."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from bimetal.images.errors import ImageError
from bimetal.images.report import Interrupted

Item = TypeVar("Item")
# An engine that is told of an interruption only at its next line of output may be in a long copy.
END_WITHIN_S = 10
# A signal that comes just before a wait begins is acted upon only when the wait ends.
NOTICED_WITHIN_S = 0.2


class OneAtATime:
    """Work that several rows need is done by the first; the others wait and find it done."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    @contextmanager
    def on(self, key: str) -> Iterator[None]:
        """Nobody else is in a block of that key."""
        with self._guard:
            lock = self._locks[key]
        with lock:
            yield


class Crew(Generic[Item]):
    """Workers that take items from the front until there are none or one failed."""

    def __init__(self, items: Sequence[Item], work: Callable[[Item], None], workers: int) -> None:
        self._queue: SimpleQueue[Item] = SimpleQueue()
        for item in items:
            self._queue.put(item)
        self._work = work
        self._halt = threading.Event()
        self.errors: list[ImageError] = []
        self._crash: BaseException | None = None
        # Not Thread.join: interrupted by Ctrl-C, Python 3.11's takes a running thread for an ended one.
        self._ended = threading.Event()
        self._guard = threading.Lock()
        self._running = min(workers, len(items))
        # Daemons: after an interruption the process may end while an engine still copies.
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(self._running)]

    def run(self) -> None:
        """Do all of it; what failed in words is in `errors`, anything else is raised here."""
        if not self._threads:
            return
        for thread in self._threads:
            thread.start()
        while not self._ended.wait(NOTICED_WITHIN_S):
            pass
        if self._crash is not None:
            raise self._crash

    def interrupt(self) -> None:
        """Begin nothing more, and give what runs a moment to end."""
        self._halt.set()
        self._ended.wait(END_WITHIN_S)

    def _run(self) -> None:
        try:
            self._work_off()
        finally:
            with self._guard:
                self._running -= 1
                if self._running == 0:
                    self._ended.set()

    def _work_off(self) -> None:
        while not self._halt.is_set():
            try:
                item = self._queue.get_nowait()
            except Empty:
                return
            try:
                self._work(item)
            except Interrupted:
                return
            except ImageError as error:
                self._halt.set()
                self.errors.append(error)
            except BaseException as error:  # noqa: BLE001 - raised again by run()
                self._crash = error
                self._halt.set()
