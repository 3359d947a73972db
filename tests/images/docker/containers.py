"""Built images, and containers that run them."""

import json
import os
import time
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bimetal.images import engine as engines
from bimetal.images import lock
from bimetal.images.bases import BOOTSTRAP_REPOSITORY
from bimetal.images.cli import CACHE
from bimetal.images.errors import ImageError
from bimetal.images.matrix import Row
from tests.patience import PATIENCE_S

BOOKWORM = f"{BOOTSTRAP_REPOSITORY}:bookworm"
LOCK = Path(os.environ.get("IMAGES_LOCK") or CACHE / "images.lock.json")


class Image:
    """Built images by their row of the matrix; one that was not built skips its test."""

    def __init__(self, engine: engines.Engine) -> None:
        self._engine = engine

    def entry(self, row: Row) -> dict[str, Any]:
        """What the lock has."""
        try:
            return lock.entry_of(LOCK, str(row))
        except ImageError as error:
            pytest.skip(str(error))

    def __call__(self, row: Row) -> str:
        """The reference."""
        entry = self.entry(row)
        found = f"{entry['repository']}:{entry['tag']}"
        if self._engine.image_id(found) is None:
            pytest.skip(f"{found} is in the lock, but not in this engine; build it again")
        return found


class Running:
    """A started container, and the host's ports of its ports."""

    def __init__(self, container: Any) -> None:
        self.container = container

    def address(self, port: int) -> str:
        """Where a port of the container can be reached from here."""
        self.container.reload()
        return f"127.0.0.1:{self.container.ports[f'{port}/tcp'][0]['HostPort']}"

    def get(self, port: int, path: str) -> str:
        """What it answers over HTTP."""
        with urllib.request.urlopen(f"http://{self.address(port)}{path}", timeout=PATIENCE_S) as answer:
            text: str = answer.read().decode()
        return text

    def wait_until_healthy(self) -> None:
        """Wait for the image's own health check to say so."""
        deadline = time.monotonic() + PATIENCE_S
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


class Start:
    """Starts containers with the narrowest rights, and networks on which they reach each other."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._containers: list[Any] = []
        self._networks: list[Any] = []

    def __call__(self, reference: str, command: list[str] | None = None, **options: Any) -> Running:
        """Start one; `ports` of it are published on free ports of this machine's loopback."""
        ports = {f"{port}/tcp": ("127.0.0.1", 0) for port in options.pop("ports", ())}
        container = self._client.containers.create(
            reference,
            command,
            ports=ports,
            read_only=True,
            tmpfs={"/tmp": "", "/var/lib/bimetal": "uid=10001,gid=10001"},
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            shm_size="256m",
            **options,
        )
        self._containers.append(container)
        container.start()
        return Running(container)

    def network(self) -> str:
        """A new network's name."""
        made = self._client.networks.create(f"bimetal-images-test-{uuid.uuid4().hex[:8]}")
        self._networks.append(made)
        name: str = made.name
        return name

    def remove(self) -> None:
        """Remove all of it."""
        for container in self._containers:
            container.remove(force=True)
        for network in self._networks:
            network.remove()


def wait(
    condition: Callable[[], bool], seconds: float, complaint: str, alive: Callable[[], bool] = lambda: True
) -> None:
    """Wait for a condition while its cause is alive."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert alive(), complaint
        assert time.monotonic() < deadline, complaint
        time.sleep(0.05)
