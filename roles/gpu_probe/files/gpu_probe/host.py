"""The machine that is probed: this one, or a recorded tree. Every input of the probe comes through here."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

# systemd units and sudo come with a PATH that has neither of the vendors' own directories.
VENDOR_TOOL_DIRS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/rocm/bin", "/usr/local/cuda/bin")
# nvidia-smi of a GPU that fell off the bus can hang for ever in the driver.
TOOL_TIMEOUT_SECONDS = 30.0
_KILL_GRACE_SECONDS = 1.0


@dataclass(frozen=True)
class ToolRun:
    """What one run of a tool gave. `status` is None when it did not end by itself, and `problem` says why."""

    tool: str
    status: int | None
    stdout: str
    stderr: str
    problem: str | None = None
    found: bool = True

    @property
    def output(self) -> str:
        """Both streams: the vendors' tools print errors on either."""
        return f"{self.stdout}\n{self.stderr}".strip()


class Host:
    """Files and tools below `root`.

    With `root` None, files are this machine's, and tools are found on PATH and in the vendors' directories.
    With a root, files are ROOT/sys, ROOT/proc and so on, and tools are the executables in ROOT/bin and nowhere
    else: a recorded host never answers with the tools of the machine that reads the record.
    """

    def __init__(self, root: Path | None = None, tool_timeout: float = TOOL_TIMEOUT_SECONDS) -> None:
        self.root = root
        self._tool_timeout = tool_timeout
        if root is None:
            self._tool_dirs = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *VENDOR_TOOL_DIRS]
        else:
            self._tool_dirs = [str(root / "bin")]

    def path(self, path: str) -> Path:
        """Where an absolute path of the probed machine is on this one."""
        return Path(path) if self.root is None else self.root / path.lstrip("/")

    def read(self, path: str) -> str | None:
        """The stripped text of a file; None when it is missing or unreadable (sysfs answers EINVAL for "no value")."""
        content = self.read_bytes(path)
        return None if content is None else content.decode(errors="replace").strip()

    def read_bytes(self, path: str) -> bytes | None:
        """The content of a file, or None."""
        try:
            return self.path(path).read_bytes()
        except OSError:
            return None

    def integer(self, path: str) -> int | None:
        """A file with one integer, decimal or 0x…; None without one."""
        try:
            return int(self.read(path) or "", 0)
        except ValueError:
            return None

    def names(self, path: str) -> list[str]:
        """Sorted names in a directory; empty when it is missing."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Whether the path is there; a dangling link is not."""
        return self.path(path).exists()

    def link_name(self, path: str) -> str | None:
        """The last part of a symbolic link's target: sysfs names drivers and modules so."""
        try:
            return os.path.basename(os.readlink(self.path(path)))
        except OSError:
            return None

    def find_tool(self, name: str) -> str | None:
        """The executable of that name, or None."""
        for directory in self._tool_dirs:
            candidate = os.path.join(directory, name)
            if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
                return candidate
        return None

    def run(self, name: str, *arguments: str) -> ToolRun:
        """Run a tool in the C locale: with a decimal comma, numbers of nvidia-smi are not numbers."""
        executable = self.find_tool(name)
        if executable is None:
            return ToolRun(name, None, "", "", problem=f"{name} is not installed", found=False)
        environment = {**os.environ, "LC_ALL": "C", "LANGUAGE": ""}
        try:
            process = subprocess.Popen(
                [executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            return ToolRun(name, None, "", "", problem=f"{executable} cannot be run: {error.strerror}")
        with process:
            return self._finish(name, process)

    def _finish(self, name: str, process: subprocess.Popen[bytes]) -> ToolRun:
        try:
            stdout, stderr = process.communicate(timeout=self._tool_timeout)
        except subprocess.TimeoutExpired:
            # The whole group: a wrapper's child would keep the pipes open.
            os.killpg(process.pid, signal.SIGKILL)
            try:
                process.communicate(timeout=_KILL_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                # In the driver, in uninterruptible sleep: not even SIGKILL ends it, and waiting would hang us too.
                process.returncode = -9
            return ToolRun(name, None, "", "", problem=f"{name} gave no answer within {self._tool_timeout:g} s")
        return ToolRun(name, process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))
