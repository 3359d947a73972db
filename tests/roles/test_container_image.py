"""What an engine that cannot be used, or an image that cannot be had, is told. The engine is a fake."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

GOOD = {"ServerVersion": "20.10.24+dfsg1", "DockerRootDir": "/var/lib/docker", "Runtimes": {"runc": {}}}
ENTRY = {"repository": "bimetal/cpu", "tag": "bookworm-6e1a7561556f", "image_id": "sha256:c0ffee"}


@pytest.fixture
def check(ansible_playbook: Run, tmp_path: Path) -> Callable[..., str]:
    """The preflight's words with an engine that says `info` and has no image."""

    def run(info: dict[str, Any], images: dict[str, Any] | None, succeeds: bool = False, **variables: object) -> str:
        engine = tmp_path / "docker"
        engine.write_text(f"#!/bin/sh\n[ \"$1\" = info ] || exit 1\ncat <<'END'\n{json.dumps(info)}\nEND\n")
        engine.chmod(0o755)
        lock = tmp_path / "images.lock.json"
        if images is not None:
            lock.write_text(json.dumps({"schema": 1, "images": images}))
        own = {"container_image_engine": str(engine), "container_image_lock": str(lock), "container_image_name": "cpu"}
        result = ansible_playbook(
            "tests/roles/playbooks/image_preflight.yml", f"--extra-vars={json.dumps(own | variables)}"
        )
        assert (result.returncode == 0) is succeeds, result.stdout
        return " ".join((result.stdout + result.stderr).split())

    return run


def test_the_snap_is_refused_with_the_way_out(check: Callable[..., str]) -> None:
    """docker-snap 180: unknown runtime nvidia."""
    said = check(GOOD | {"DockerRootDir": "/var/snap/docker/common/var-lib-docker"}, {"cpu:bookworm": ENTRY})
    assert "is the snap (/var/snap/docker/common/var-lib-docker)" in said
    assert "snap remove docker && apt-get install docker.io" in said


def test_an_old_engine_is_refused_with_both_versions(check: Callable[..., str]) -> None:
    said = check(GOOD | {"ServerVersion": "19.03.15"}, {"cpu:bookworm": ENTRY})
    assert "is 19.03.15: expected 20.10 or newer" in said


def test_without_a_lock_file_the_command_that_writes_it_is_named(check: Callable[..., str]) -> None:
    assert "Build it: make images ONLY=cpu (with OFFLINE_BASE=1 where no registry is in reach)" in check(GOOD, None)


def test_two_variants_have_to_be_told_apart(check: Callable[..., str]) -> None:
    said = check(GOOD, {"cpu:bookworm": ENTRY, "cpu:trixie": ENTRY})
    assert "cpu:bookworm and cpu:trixie: expected exactly one image 'cpu'" in said


def test_an_image_that_is_nowhere_is_named_with_what_to_do(check: Callable[..., str]) -> None:
    said = check(GOOD, {"cpu:bookworm": ENTRY})
    assert "has no image cpu:bookworm (sha256:c0ffee)" in said
    assert "make images OFFLINE_BASE=1 ONLY=cpu" in said


def test_an_image_that_a_registry_has_is_run_by_its_digest(check: Callable[..., str]) -> None:
    pushed = {"cpu:bookworm": ENTRY | {"digest": "sha256:feed"}}
    said = check(GOOD, pushed, succeeds=True, container_image_registry="registry.example/mirror")
    assert "registry.example/mirror/cpu@sha256:feed" in said


def test_an_engine_that_this_run_installs_later_need_not_answer_yet(check: Callable[..., str]) -> None:
    nothing = {"container_image_engine": "/nonexistent/docker"}
    assert "No container engine answers on cpu-0" in check(GOOD, {"cpu:bookworm": ENTRY}, **nothing)
    check(GOOD, {"cpu:bookworm": ENTRY}, succeeds=True, container_image_engine_follows=True, **nothing)
