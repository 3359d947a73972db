"""The worker process: runs cases that its supervisor sends, one at a time, until it is told no more.

    python -m bimetal.verify.worker FD

What runs here may hang, crash or eat memory; that is why it is a process of its own.
"""

import ctypes
import pkgutil
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from bimetal.verify.cases import Case
from bimetal.verify.execution import Outcome, Settings, message_of, start_provider

Runner = Callable[[Case, bool, Settings], Outcome]
REAL_RUNNER = "bimetal.verify.execution:run_case"


@dataclass(frozen=True)
class WorkerSettings:
    """What a worker is told first. `runner` names the function that runs a case ("module:function")."""

    execution: Settings
    memory_bytes: int
    runner: str = REAL_RUNNER


def main(descriptor: int) -> None:
    """Answers the settings with None (or why it cannot work), then each (case, timed) with an Outcome."""
    _end_with_the_supervisor()
    connection = Connection(descriptor)
    settings: WorkerSettings = connection.recv()
    try:
        runner: Runner = pkgutil.resolve_name(settings.runner)
        _limit_memory(settings)
        start_provider(settings.execution)
    except Exception as exc:  # noqa: BLE001 - whatever a provider raises, the supervisor reports it
        connection.send(message_of(exc))
        return
    connection.send(None)
    while True:
        try:
            case, timed = connection.recv()
        except EOFError:
            return
        connection.send(runner(case, timed, settings.execution))


def _end_with_the_supervisor() -> None:
    """A worker that hangs must not outlive a supervisor that was killed (Linux: PR_SET_PDEATHSIG is 1)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor, which ends this process


def _limit_memory(settings: WorkerSettings) -> None:
    """GPU drivers reserve far more addresses than they use, so there only writable memory is counted."""
    on_cpu = settings.execution.provider == "CPUExecutionProvider"
    limit = resource.RLIMIT_AS if on_cpu else resource.RLIMIT_DATA
    resource.setrlimit(limit, (settings.memory_bytes, settings.memory_bytes))


if __name__ == "__main__":
    main(int(sys.argv[1]))
