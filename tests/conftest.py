"""What tests of several parts share."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.postgres import Postgres, binaries, running

# A shell starts what it puts into the background with Ctrl-C ignored, a supervisor may start it with signals blocked,
# and so would be every program that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_SETMASK, ())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server of the tests' own."""
    programs = binaries()
    if programs is None:
        told = "PostgreSQL is not installed: apt-get install postgresql"
        if "CI" in os.environ:
            pytest.fail(told)
        pytest.skip(told)
    with running(programs) as server:
        yield server
