"""Containers of the images that were built here; without an engine or an image these tests are skipped, aloud."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from images import engine as engines
from images import lock
from images.cli import CACHE
from images.errors import ImageError
from model_repo.build import build
from model_repo.pools import Compute
from model_repo.sources import load_sources

READY_WITHIN_S = 120
LOCK = Path(os.environ.get("IMAGES_LOCK") or CACHE / "images.lock.json")


@pytest.fixture(scope="session")
def engine() -> engines.Engine:
    """The engine that is reachable."""
    try:
        return engines.connect()
    except ImageError as error:
        pytest.skip(f"no Docker engine: {error}")


@pytest.fixture(scope="session")
def client(engine: engines.Engine) -> Any:
    """The SDK's client, for what only tests do with containers."""
    import docker  # noqa: PLC0415 - the engine fixture has skipped where it is not

    assert engine is not None
    return docker.from_env()


@pytest.fixture(scope="session")
def image(engine: engines.Engine) -> Callable[[str], str]:
    """The reference of a built image by its name in the matrix; skips when it was not built."""

    def reference(name: str) -> str:
        try:
            entry = lock.entry_of(LOCK, name)
        except ImageError as error:
            pytest.skip(str(error))
        found = f"{entry['repository']}:{entry['tag']}"
        if engine.image_id(found) is None:
            pytest.skip(f"{found} is in the lock, but not in this engine; build it again")
        return found

    return reference


@pytest.fixture(scope="session")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's models, rendered for every pool as on machines without a GPU."""
    out = tmp_path_factory.mktemp("repositories")
    computes: dict[str, Compute] = {"cuda": "cpu", "rocm": "cpu", "cpu": "cpu"}
    sources = load_sources()
    build(sources, list(sources), computes, out=out)
    return out


class Running:
    """A started container, and the host's ports of its ports."""

    def __init__(self, container: Any) -> None:
        self.container = container

    def address(self, port: int) -> str:
        """Where a port of the container can be reached from here."""
        self.container.reload()
        return f"127.0.0.1:{self.container.ports[f'{port}/tcp'][0]['HostPort']}"

    def wait_until_healthy(self) -> None:
        """Wait for the image's own health check to say so."""
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            self.container.reload()
            state = self.container.attrs["State"]
            if state["Health"]["Status"] == "healthy":
                return
            assert state["Running"], f"ended with {state['ExitCode']}: {self.log()[-2000:]}"
            assert time.monotonic() < deadline, f"{json.dumps(state['Health'])}: {self.log()[-2000:]}"
            time.sleep(0.2)

    def stop(self) -> int:
        """End it as `docker stop` does; its exit status."""
        self.container.stop(timeout=30)
        status: int = self.container.wait()["StatusCode"]
        return status

    def log(self) -> str:
        """All that it printed."""
        text: str = self.container.logs().decode(errors="replace")
        return text


@pytest.fixture
def start(client: Any) -> Iterator[Callable[..., Running]]:
    """Starts a container with the narrowest rights; all are removed after the test."""
    started: list[Any] = []

    def run(reference: str, command: list[str] | None = None, **options: Any) -> Running:
        ports = {f"{port}/tcp": ("127.0.0.1", 0) for port in options.pop("ports", ())}
        container = client.containers.run(
            reference,
            command,
            detach=True,
            ports=ports,
            read_only=True,
            tmpfs={"/tmp": "", "/var/lib/bimetal": "uid=10001,gid=10001"},
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            shm_size="256m",
            **options,
        )
        started.append(container)
        return Running(container)

    yield run
    for container in started:
        container.remove(force=True)


@pytest.fixture
def network(client: Any) -> Iterator[Any]:
    """A network of its own, on which containers find each other by name."""
    made = client.networks.create("bimetal-images-test")
    yield made
    made.remove()
