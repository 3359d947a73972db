"""Where a build stands, for whoever watches: steps that count, and the lines between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

# More would push the row's name off an 80-column terminal.
SHOWN = 90


class Interrupted(Exception):  # noqa: N818 - a person's wish, not an error
    """Somebody pressed Ctrl-C; whoever reports next ends there."""


class Report:
    """What a build tells; this one keeps it to itself."""

    def step(self, text: str) -> None:
        """A new step of the work began."""

    def line(self, text: str) -> None:
        """Something went on within the step."""


class Display:
    """Reports by name: a live line each on a terminal, elsewhere one line per step; both on stderr."""

    def __init__(self, progress: Progress | None, console: Console) -> None:
        self._progress = progress
        self._console = console
        self._stop = threading.Event()
        self._started = time.monotonic()

    def report(self, title: str) -> Report:
        """The report of one piece of work; it can be used from any thread."""
        if self._progress is None:
            return _Lines(title, self._console, self._stop, self._started)
        return _Live(title, self._progress, self._progress.add_task(title, total=None, start=False), self._stop)

    def stop(self) -> None:
        """Let every piece of work end at its next report."""
        self._stop.set()


@contextmanager
def display(console: Console | None = None) -> Iterator[Display]:
    """A display for as long as the block runs."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield Display(None, console)
        return
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as progress:
        yield Display(progress, console)


class _Live(Report):
    def __init__(self, title: str, progress: Progress, task: TaskID, stop: threading.Event) -> None:
        self._title = title
        self._progress = progress
        self._task = task
        self._stop = stop
        self._step = ""

    def step(self, text: str) -> None:
        self._step = text
        self._progress.start_task(self._task)
        self._show(text)

    def line(self, text: str) -> None:
        self._show(f"{self._step[: SHOWN // 2]} · {text}")

    def _show(self, text: str) -> None:
        if self._stop.is_set():
            raise Interrupted
        self._progress.update(self._task, description=f"{self._title}  {text[:SHOWN]}")


class _Lines(Report):
    def __init__(self, title: str, console: Console, stop: threading.Event, started: float) -> None:
        self._title = title
        self._console = console
        self._stop = stop
        self._started = started

    def step(self, text: str) -> None:
        self.line(text)
        seconds = time.monotonic() - self._started
        shown = f"{seconds:4.0f} s  {self._title}  {text[:SHOWN]}"
        self._console.print(shown, highlight=False, markup=False, soft_wrap=True)

    def line(self, text: str) -> None:  # noqa: ARG002 - a log wants the steps only
        if self._stop.is_set():
            raise Interrupted
