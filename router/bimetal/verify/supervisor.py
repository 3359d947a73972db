"""Has worker processes run cases: a worker that hangs or crashes is replaced, and what it ran is known."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from bimetal.errors import BimetalError
from bimetal.verify.cases import Case
from bimetal.verify.execution import Outcome
from bimetal.verify.results import FailureKind
from bimetal.verify.worker import WorkerSettings

_START_SECONDS = 120  # importing onnxruntime on a busy machine, or the first use of a GPU driver


class WorkerError(BimetalError):
    """No worker process can run anything on the provider."""


class Supervisor:
    """Runs cases in a worker process, one after the other.

    Args:
        settings: what the workers are told.
        deadline_seconds: a case that takes longer is killed.
    """

    def __init__(self, settings: WorkerSettings, deadline_seconds: float) -> None:
        self._settings = settings
        self._deadline = deadline_seconds
        self._worker: _Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end_worker()

    def run(self, cases: Iterable[Case], timed: Iterable[Case]) -> Iterator[tuple[Case, Outcome | None]]:
        """Each case with its outcome; None for those after a case that hung or crashed, which are not run."""
        measured = {case.name for case in timed}
        ended = False
        for case in cases:
            outcome = None if ended else self._run(case, case.name in measured)
            ended = ended or (outcome is not None and _ended_worker(outcome))
            yield case, outcome

    def _run(self, case: Case, timed: bool) -> Outcome:
        if self._worker is None:
            self._worker = _Worker(self._settings)
        outcome = self._worker.run(case, timed, self._deadline)
        if outcome.failure is not None and outcome.failure[0] not in {FailureKind.REFUSED, FailureKind.WRONG_OUTPUT}:
            # After an error a GPU's context may fail whatever comes next: that would not be the next operator's.
            self._end_worker()
        return outcome

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None


def _ended_worker(outcome: Outcome) -> bool:
    return outcome.failure is not None and outcome.failure[0] in {FailureKind.HUNG, FailureKind.CRASHED}


class _Worker:
    """One worker process and the connection to it."""

    def __init__(self, settings: WorkerSettings) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bimetal.verify.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._connection = Connection(ours.detach())
        trouble = self._start(settings)
        if trouble is not None:
            self.end()
            raise WorkerError(
                f"{settings.execution.provider} does not start on this host: {trouble}.",
                "Check the driver with `ansible-playbook ansible/playbooks/doctor.yml`, and onnxruntime's package.",
            )

    def _start(self, settings: WorkerSettings) -> str | None:
        """None when the worker is ready, else why it is not."""
        try:
            self._connection.send(settings)
            if not self._connection.poll(_START_SECONDS):
                return f"no answer from the worker process after {_START_SECONDS} s"
            trouble: str | None = self._connection.recv()
        except (EOFError, OSError):
            return f"the worker process ended: {self._ending()}"
        return trouble

    def run(self, case: Case, timed: bool, deadline_seconds: float) -> Outcome:
        try:
            self._connection.send((case, timed))
            if not self._connection.poll(deadline_seconds):
                self._process.kill()
                return Outcome((FailureKind.HUNG, f"killed after {deadline_seconds:g} s"))
            outcome: Outcome = self._connection.recv()
        except (EOFError, OSError):
            return Outcome((FailureKind.CRASHED, f"the worker process ended: {self._ending()}"))
        return outcome

    def end(self) -> None:
        """Ends the process, whatever it does, and waits for it."""
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def _ending(self) -> str:
        code = self._process.wait()
        return f"exit status {code}" if code >= 0 else signal.Signals(-code).name
