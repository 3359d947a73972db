"""Processes that run for minutes and start others: whoever ends the run ends all of them. Standard library only."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from tests.testbed.engine import TestbedError

END_TIMEOUT_SECONDS = 30


@dataclass
class Processes:
    """What runs now. Each has a session of its own, so that a signal reaches its children and no one else."""

    running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)
    ended: bool = False

    def run(
        self,
        command: Sequence[str],
        log: Path,
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout_seconds: float | None = None,
    ) -> int:
        """Run a command to its end, its output in `log`; its exit status.

        Raises TestbedError when the command is not found or the run was ended, subprocess.TimeoutExpired once a
        command that took too long has been ended.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            process = self._start(command, cwd, env, output.fileno())
            try:
                return process.wait(timeout_seconds)
            finally:
                with self.lock:
                    self.running.discard(process)
                _end(process)

    def _start(self, command: Sequence[str], cwd: Path, env: Mapping[str, str], output: int) -> subprocess.Popen[bytes]:
        with self.lock:
            if self.ended:
                raise TestbedError("The run was ended.")
            try:
                process = subprocess.Popen(
                    command,
                    cwd=cwd,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise TestbedError(f"{command[0]} not found. Next: run it through make; make help") from None
            self.running.add(process)
            return process

    def end(self) -> None:
        """End those that run, and let no other start."""
        with self.lock:
            self.ended = True
            for process in self.running:
                _signal(process)


def _signal(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes]) -> None:
    _signal(process)
    try:
        process.wait(END_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
