"""The callback of tritonclient's asynchronous calls and streams."""

import queue
from typing import Any

from tests.patience import PATIENCE_S


class Answers:
    """What the callback was given, in order."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[Any, Any]] = queue.Queue()

    def take(self, result: Any, error: Any) -> None:
        """The callback."""
        self._queue.put((result, error))

    def next(self) -> tuple[Any, Any]:
        """Result and error of the next call that ended; one of them is None."""
        return self._queue.get(timeout=PATIENCE_S)
