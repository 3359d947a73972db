"""What tests of several parts share."""

from collections.abc import Iterator

import pytest

from tests.postgres import Postgres, binaries, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server of the tests' own."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with running(programs) as server:
        yield server
