"""What an engine says, in one line with the next step."""

import sys
import types
from typing import Any

import pytest

from bimetal.images import engine
from bimetal.images.errors import EngineError, ImageError, RegistryError
from tests.images.fakes import Recorder

STEPS = [{"stream": "Step 1/2 : FROM x\n"}, {"stream": " ---> 0123\n"}, {"stream": "Step 2/2 : RUN y\n"}]


@pytest.mark.parametrize(
    ("said", "kind", "expected"),
    [
        ("write /var/lib/x: no space left on device", EngineError, "no space left.*Next: docker image prune"),
        ("E: You don't have enough free space in /var/cache", EngineError, "no space left"),
        (
            "dial tcp: lookup r: no such host",
            RegistryError,
            "registry cannot be reached.*OFFLINE_BASE=1",
        ),
        ("net/http: TLS handshake timeout", RegistryError, "registry cannot be reached"),
        ("manifest verification failed for digest sha256:1", RegistryError, "not what the digest says.*do not use it"),
        ("filesystem layer verification failed for digest sha256:1", RegistryError, "not what the digest says"),
        ("manifest for x:1 not found: manifest unknown", RegistryError, "no such image for you"),
        ("pull access denied for x", RegistryError, "no such image for you.*log-in"),
        ("Temporary failure resolving 'mirror.example'", EngineError, "cannot reach the distribution's mirror"),
        ("E: Version '1' for 'libx' was not found", EngineError, "x:1: E: Version"),
        ("exploded", EngineError, "x:1: exploded"),
    ],
)
def test_an_engines_words_become_the_error_they_are(said: str, kind: type[ImageError], expected: str) -> None:
    error = engine.problem("x:1", said)
    assert type(error) is kind
    with pytest.raises(kind, match=expected):
        raise error


def test_a_build_reports_its_steps_and_gives_the_id() -> None:
    report = Recorder()
    assert engine._built_id(iter([*STEPS, {"aux": {"ID": "sha256:1"}}]), report) == "sha256:1"
    assert report.steps == ["Step 1/2 : FROM x", "Step 2/2 : RUN y"]
    assert report.lines == ["---> 0123"]


def test_a_transfer_reports_its_layers_and_gives_the_digest() -> None:
    report = Recorder()
    said = engine._follow(
        iter(
            [
                {"status": "Pushing", "progress": "[==>  ]  1MB/2MB", "id": "0123"},
                {"status": "latest: digest: sha256:1 size: 2"},
                {"progressDetail": {}, "aux": {"Digest": "sha256:1"}},
            ]
        ),
        "x:1",
        report,
    )
    assert said["Digest"] == "sha256:1"
    assert report.lines[0] == "layer 0123: Pushing [==> ] 1MB/2MB"


def test_a_transfer_that_breaks_off_is_an_error() -> None:
    with pytest.raises(RegistryError, match="x:1: the registry cannot be reached: dial tcp: connection refused"):
        engine._follow(iter([{"error": "dial tcp: connection refused"}]), "x:1", Recorder())


def test_a_step_that_fails_is_reported_with_its_last_lines_in_one_line() -> None:
    failed = [*STEPS, {"stream": "E: no package\n"}, {"error": "The command\nreturned 100"}]
    with pytest.raises(EngineError, match=r"RUN y \| E: no package: The command returned 100\. Next") as error:
        engine._built_id(iter(failed), Recorder())
    assert "\n" not in str(error.value)


def test_a_build_that_ends_without_an_image_is_no_success() -> None:
    with pytest.raises(EngineError, match="ended without an image"):
        engine._built_id(iter(STEPS), Recorder())


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(EngineError, match=r"no module 'docker'. Next: pip install 'docker>=7.1'"):
        engine.connect()


def test_without_an_engine_the_ways_to_one_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sdk: Any = types.ModuleType("docker")

    class DockerError(Exception):
        pass

    def from_env(**_: object) -> None:
        raise DockerError("Error while fetching server API version: \n no such file")

    sdk.errors = types.SimpleNamespace(DockerException=DockerError)
    sdk.from_env = from_env
    monkeypatch.setitem(sys.modules, "docker", sdk)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(EngineError, match=r"No Docker engine answers: unix:///nowhere/docker.sock: No such file"):
        engine.connect()
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    with pytest.raises(
        EngineError, match=r"No Docker engine answers: Error while .* Next: start one .*DOCKER_HOST"
    ) as error:
        engine.connect()
    assert "\n" not in str(error.value)
