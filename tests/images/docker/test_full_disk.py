"""A disk that is really full: a private engine whose images lie on a small file system in memory."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bimetal.images import engine as engines
from bimetal.images.context import File, as_tar
from bimetal.images.errors import EngineError
from bimetal.images.report import Report
from tests.images.docker.containers import wait
from tests.images.test_bad_input import complaint
from tests.patience import PATIENCE_S

SIZE_MB = 96
# What an engine needs at its start, and no bridge: nothing here talks to anyone.
OPTIONS = ("--bridge=none", "--iptables=false", "--ip-masq=false", "--ip-forward=false", "--storage-driver=overlay2")


@pytest.fixture
def small_engine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The SDK's client of an engine with next to no space; DOCKER_HOST names it."""
    docker = pytest.importorskip("docker", reason="the extra 'images' is not installed")
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("only root can start an engine of its own, where dockerd is installed")
    folder = tmp_path_factory.mktemp("engine")
    data, socket, log = folder / "data", folder / "s", folder / "log"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "bimetal-small", str(data)], check=True)
    places = [f"--data-root={data}", f"--exec-root={folder}/run", f"--pidfile={folder}/pid", f"--host=unix://{socket}"]
    # A name of its own, should the system's containerd be taken.
    command = ["dockerd", *places, *OPTIONS, f"--containerd-namespace=small-{os.getpid()}"]
    try:
        with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as running:
            try:
                wait(socket.exists, PATIENCE_S, "no engine", lambda: running.poll() is None)
                monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
                client = docker.from_env()
                wait(lambda: answers(client), PATIENCE_S, "the engine does not answer")
                yield client
                client.close()
            finally:
                running.terminate()
    finally:
        subprocess.run(["umount", "--lazy", str(data)], check=True)


def answers(client: Any) -> bool:
    try:
        return bool(client.ping())
    except OSError:
        return False


def test_a_build_that_would_not_fit_is_refused_before_it_begins(small_engine: Any, tmp_path: Path) -> None:
    line = complaint(tmp_path, "build", "cpu", OFFLINE_BASE="1")
    assert line.startswith("error: cpu:bookworm: the engine has 0.1 GB free, expected 1.4 GB to build. Next: ")
    assert small_engine.images.list(all=True) == []


def test_a_disk_that_fills_up_while_it_builds_is_one_line_and_leaves_no_image(small_engine: Any) -> None:
    half = File(os.urandom(SIZE_MB * 600_000))  # it fits as a context, and not again as a layer
    recipe = File(b"FROM scratch\nCOPY big /\n")
    with (
        closing(engines.connect()) as engine,
        as_tar({"Dockerfile": recipe, "big": half}) as tar,
        pytest.raises(EngineError) as error,
    ):
        engine.build(tar, {}, Report())
    [line] = str(error.value).splitlines()
    assert "no space left" in line
    assert line.endswith("Next: docker image prune, or give the engine more disk")
    assert small_engine.images.list(all=True) == []
    assert small_engine.containers.list(all=True) == []
