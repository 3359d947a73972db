"""A PostgreSQL cluster of the tests' own, from Debian's package: nothing of a system's cluster is touched."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.patience import PATIENCE_S

_USER = "postgres"


class Postgres:
    """A running server on a loopback port, trusted by everybody on it, and without fsync."""

    def __init__(self, folder: Path, binaries: Path, port: int) -> None:
        self.port = port
        self._data = folder / "data"
        self._folder = folder
        self._binaries = binaries
        self._numbers = count(1)

    def url(self, database: str, password: str = "") -> str:
        """The SQLAlchemy URL of a database."""
        secret = f":{password}" if password else ""
        return f"postgresql+psycopg://{_USER}{secret}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Make an empty one; its name."""
        name = f"test_{next(self._numbers)}"
        self._run("createdb", f"--host={self._folder}", f"--port={self.port}", name)
        return name

    def query(self, database: str, sql: str) -> str:
        """What psql prints of a statement: one row a line, fields between bars."""
        where = [f"--host={self._folder}", f"--port={self.port}", f"--dbname={database}"]
        return self._run("psql", *where, "--no-psqlrc", "--tuples-only", "--no-align", f"--command={sql}").strip()

    def create(self) -> None:
        self._run("initdb", f"--pgdata={self._data}", "--auth=trust", "--encoding=UTF8", "--no-sync")

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self._folder} -c fsync=off"
        log = self._folder / "log"
        self._run("pg_ctl", f"--pgdata={self._data}", f"--log={log}", "--wait", f"--options={options}", "start")

    def stop(self, mode: str = "fast") -> None:
        """As for an update: connections end."""
        self._run("pg_ctl", f"--pgdata={self._data}", "--wait", f"--mode={mode}", "stop")

    @contextmanager
    def hung(self) -> Iterator[None]:
        """Every process of the server is stopped: connections stay, and nobody answers."""
        pids = self._pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def _pids(self) -> list[int]:
        """The postmaster first, so that it starts no process that is not listed."""
        postmaster = int((self._data / "postmaster.pid").read_text().splitlines()[0])
        os.kill(postmaster, signal.SIGSTOP)
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        return [postmaster, *map(int, children)]

    def _run(self, program: str, *arguments: str) -> str:
        command = [*_as_user(), str(self._binaries / program), *arguments]
        # Not captured by pipes: the server would inherit them, and they would never end.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False, cwd=self._folder
            )
            output.seek(0)
            printed = output.read()
        assert done.returncode == 0, f"{program} failed:\n{printed}"
        return printed


def binaries() -> Path | None:
    """The newest installed server's programs; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: float(path.parts[-3]))
    return found[-1].parent if found else None


def _as_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    return ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"] if os.getuid() == 0 else []


@contextmanager
def running(programs: Path) -> Iterator[Postgres]:
    """A cluster that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # pytest's own folders are closed to the user postgres
    if os.getuid() == 0:
        user = pwd.getpwnam(_USER)
        os.chown(folder, user.pw_uid, user.pw_gid)
    server = Postgres(folder, programs, _free_port())
    try:
        server.create()
        server.start()
        yield server
        server.stop("immediate")
    finally:
        shutil.rmtree(folder)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
