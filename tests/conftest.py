"""What tests of several parts share."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.postgres import Postgres, binaries, running

# A shell starts what it puts into the background with Ctrl-C ignored, a supervisor may start it with signals blocked,
# and so would be every program that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_SETMASK, ())


class OneClusterAtATime(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Files go to workers as a whole; those that share a cluster, or the ports of one, go to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", maxsplit=1)[0]
        if file == "tests/e2e/test_security.py":  # brings a cluster of its own, on free ports
            return file
        if file.startswith("tests/e2e/"):
            return "tests/e2e"
        # Those beside each other start services on the same ports; a role's own are in a folder below.
        return "tests/roles" if file.startswith("tests/roles/test_") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """What `-n` does with the tests."""
    return OneClusterAtATime(config, log)


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
