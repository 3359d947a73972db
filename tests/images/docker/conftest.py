"""Containers of the images that were built here; without an engine or an image these tests are skipped, aloud."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bimetal.images import engine as engines
from bimetal.images.errors import ImageError
from bimetal.model_repo.build import build
from bimetal.model_repo.pools import Compute
from bimetal.model_repo.sources import load_sources
from tests.images.docker.containers import BOOKWORM, Image, Start


@pytest.fixture(scope="session")
def engine() -> Iterator[engines.Engine]:
    """The engine that is reachable."""
    try:
        connected = engines.connect()
    except ImageError as error:
        pytest.skip(f"no Docker engine: {error}")
    yield connected
    connected.close()


@pytest.fixture(scope="session")
def client(engine: engines.Engine) -> Iterator[Any]:
    """The SDK's client, for what only tests do with containers."""
    import docker  # noqa: PLC0415 - the engine fixture has skipped where it is not

    assert engine is not None
    connected = docker.from_env()
    yield connected
    connected.close()


@pytest.fixture(scope="session")
def image(engine: engines.Engine) -> Image:
    """The built images."""
    return Image(engine)


@pytest.fixture(scope="session")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's models, rendered for every pool as on machines without a GPU."""
    out = tmp_path_factory.mktemp("repositories")
    computes: dict[str, Compute] = {"cuda": "cpu", "rocm": "cpu", "cpu": "cpu"}
    sources = load_sources()
    build(sources, list(sources), computes, out=out)
    return out


@pytest.fixture
def start(client: Any) -> Iterator[Start]:
    """Starts containers; all are removed after the test."""
    starting = Start(client)
    yield starting
    starting.remove()


@pytest.fixture
def removed(engine: engines.Engine, client: Any) -> Iterator[list[str]]:
    """Images by name that are removed after the test, with what was built for them only."""
    names: list[str] = []
    yield names
    for name in names:
        if engine.image_id(name):
            client.images.remove(name, force=True)


@pytest.fixture(scope="session")
def bookworm(engine: engines.Engine) -> str:
    """Debian's root as the images start from it."""
    if engine.image_id(BOOKWORM) is None:
        pytest.skip(f"no {BOOKWORM}: make images OFFLINE_BASE=1")
    return BOOKWORM
