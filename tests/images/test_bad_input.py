"""What a person gets who typed something wrong or lacks something: the real command, one line, nothing changed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

PROJECT = Path(__file__).parents[2]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "bimetal.images.cli", *words]


def complaint(tmp_path: Path, *words: str, **environment: str) -> str:
    """The one line that the command ends with; it changed nothing."""
    known = {"IMAGES_LOCK": str(tmp_path / "lock.json"), "IMAGES_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        command(*words),
        cwd=PROJECT,
        env=os.environ | known | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []
    [line] = done.stderr.splitlines()
    return line


def test_an_unknown_image_is_named_with_the_known_ones(tmp_path: Path) -> None:
    assert complaint(tmp_path, "build", "gaudi") == (
        "error: 'gaudi' is no image of the matrix. Next: name one of cpu, cuda, rocm, router, train-cuda, train-rocm"
    )


def test_without_an_engine_the_ways_to_one_are_named(tmp_path: Path) -> None:
    pytest.importorskip("docker", reason="the extra 'images' is not installed")
    line = complaint(tmp_path, "build", "cpu", DOCKER_HOST=f"unix://{tmp_path}/nowhere.sock")
    assert line.startswith("error: No Docker engine answers: ")
    assert line.endswith("Next: start one (systemctl start docker), or point DOCKER_HOST at one")


def test_ctrl_c_ends_a_build_and_what_it_started_with_one_line(tmp_path: Path) -> None:
    """The base is being bootstrapped: its tool ends too, and half a root is not left."""
    pytest.importorskip("docker", reason="the extra 'images' is not installed")
    tools, cache = tmp_path / "bin", tmp_path / "cache"
    tools.mkdir()
    # Never ends by itself; an engine is asked nothing before the root is there.
    (tools / "mmdebstrap").write_text(
        f'#!/bin/sh\necho $$ > {tmp_path}/pid\nfor last; do :; done\necho half > "$last"\n'
        "while :; do echo I: installing; sleep 0.05; done\n"
    )
    (tools / "mmdebstrap").chmod(0o755)
    matrix = tmp_path / "matrix.yml"
    matrix.write_text(
        "schema: 1\npython: '3.11'\nbases:\n  nowhere: {image: nowhere, suite: nowhere}\nimages:\n"
        "  tool: {kind: train, vendor: cpu, title: x, default: '1', offline: '1', variants: {'1':\n"
        "    {base: nowhere, server: base, versions: {}, budget_mb: 1, proven: in tests}}}\n"
    )
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "IMAGES_MATRIX": str(matrix),
        "IMAGES_CACHE": str(cache),
        "IMAGES_LOCK": str(tmp_path / "lock.json"),
        "OFFLINE_BASE": "1",
    }
    with subprocess.Popen(
        command("build"), cwd=PROJECT, env=os.environ | environment, stderr=subprocess.PIPE, text=True
    ) as building:
        assert building.stderr is not None
        first = building.stderr.readline()
        if "No Docker engine" in first:
            pytest.skip(first.strip())
        assert "base nowhere" in first
        assert "I: installing" not in first
        while not (tmp_path / "pid").exists():
            assert building.poll() is None
        building.send_signal(signal.SIGINT)
        try:
            _, said = building.communicate(timeout=PATIENCE_S)
        finally:
            building.kill()
        assert building.returncode == 130
    assert said == "error: Interrupted: what was not whole got no name. Next: the same command goes on\n"
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert list(cache.rglob("*.tar")) == []
    assert not (tmp_path / "lock.json").exists()
