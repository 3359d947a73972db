"""The Docker engine, as little of it as images need; foreign errors become one line here."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from bimetal.images.errors import EngineError, ImageError, RegistryError
from bimetal.images.report import Report

# A registry's answers are slow, a layer of CUDA takes minutes.
TIMEOUT_S = 1800
_UNREACHABLE = re.compile(
    r"no such host|dial tcp|connection refused|i/o timeout|TLS handshake|Temporary failure in name resolution|"
    r"context deadline exceeded|Client\.Timeout|EOF$|network is unreachable",
    re.IGNORECASE,
)
# The engine computes the digest of what it got itself: a registry cannot pass one image off as another.
_MISMATCH = re.compile(r"verification failed|does not match digest|digest mismatch|unexpected commit digest")
_NOT_THERE = re.compile(r"manifest unknown|manifest for .* not found|access denied|requested access to the resource")
_NO_MIRROR = re.compile(r"Temporary failure resolving|Could not resolve '|Failed to fetch http")
_NO_SPACE = re.compile(r"no space left on device|No space left|You don't have enough free space", re.IGNORECASE)


def connect() -> Engine:
    """The engine that DOCKER_HOST names, or the system's. Raises EngineError when there is none or no SDK."""
    try:
        import docker  # noqa: PLC0415 - planning and rendering work without the SDK
    except ImportError as error:
        raise EngineError("Python has no module 'docker'.", "pip install 'docker>=7.1' (extra 'images')") from error
    try:
        _knock(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")
        client = docker.from_env(timeout=TIMEOUT_S)
        client.ping()
    except (docker.errors.DockerException, OSError) as error:
        raise EngineError(
            f"No Docker engine answers: {_one_line(error)}.",
            "start one (systemctl start docker), or point DOCKER_HOST at one",
        ) from error
    return Engine(client)


def _knock(host: str) -> None:
    """Raises OSError where nobody listens: the SDK would leave its socket open, a warning for whoever collects it."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(TIMEOUT_S)
            try:
                door.connect(host.removeprefix("unix://"))
            except OSError as error:
                raise OSError(f"{host}: {error.strerror}") from error


class Engine:
    """What images are built with. Every method raises EngineError or RegistryError in words."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._api = client.api

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def image_id(self, reference: str) -> str | None:
        """The id of an image that the engine has, None when it has none of that name."""
        found = self.inspect(reference)
        return None if found is None else str(found["Id"])

    def inspect(self, reference: str) -> Mapping[str, Any] | None:
        """What the engine knows of an image."""
        from docker.errors import ImageNotFound  # noqa: PLC0415 - comes with the one above

        with explained(reference):
            try:
                found: Mapping[str, Any] = self._api.inspect_image(reference)
            except ImageNotFound:
                return None
        return found

    def pull(self, reference: str, report: Report) -> None:
        """Fetch an image by digest or tag."""
        with explained(reference):
            _follow(self._api.pull(reference, stream=True, decode=True), reference, report)

    def registry_digest(self, reference: str) -> str:
        """What the registry has under that name now."""
        with explained(reference):
            digest: str = self._client.images.get_registry_data(reference).id
        return digest

    def import_root(self, tar: Path, repository: str, tag: str, labels: Mapping[str, str]) -> Mapping[str, Any]:
        """Make an image of a root's tar; what the engine knows of it then."""
        changes = [f"LABEL {name}={value}" for name, value in labels.items()]
        reference = f"{repository}:{tag}"
        with explained(reference):
            self._api.import_image_from_file(str(tar), repository=repository, tag=tag, changes=changes)
        found = self.inspect(reference)
        if found is None:
            raise EngineError(f"{reference}: the engine lost it after the import.", "read the engine's log")
        return found

    def build(
        self, context: IO[bytes], labels: Mapping[str, str], report: Report, *, from_scratch: bool = False
    ) -> str:
        """Build a context without giving the result a name, and return its id; `from_scratch` uses no layer again."""
        with explained("build"):
            stream = self._api.build(
                fileobj=context,
                custom_context=True,
                rm=True,
                forcerm=True,
                nocache=from_scratch,
                decode=True,
                labels=dict(labels),
            )
            return _built_id(stream, report)

    def untag(self, reference: str) -> None:
        """Take a name away; images that were built on it stay."""
        if self.inspect(reference) is not None:
            with explained(reference):
                self._api.remove_image(reference, noprune=True)

    def tag(self, image_id: str, repository: str, tag: str) -> None:
        """Give an image this name too, which moves from the image that had it."""
        with explained(f"{repository}:{tag}"):
            self._api.tag(image_id, repository, tag=tag)

    def push(self, repository: str, tag: str, report: Report) -> str:
        """Push an image and return the digest that the registry gave it."""
        reference = f"{repository}:{tag}"
        with explained(reference):
            said = _follow(self._api.push(repository, tag=tag, stream=True, decode=True), reference, report)
        digest: str = said.get("Digest", "")
        if not digest:
            raise RegistryError(f"{reference}: the registry gave no digest.", "look whether it has the image")
        return digest

    def run(self, image: str, command: list[str], **options: Any) -> tuple[int, str]:
        """Run a container to its end: its exit status and what it printed. It is removed in any case."""
        with explained(image):
            container = self._client.containers.create(image, command, **options)
            try:
                container.start()
                status = container.wait()["StatusCode"]
                return status, container.logs().decode(errors="replace")
            finally:
                container.remove(force=True)

    def architecture(self) -> str:
        """The engine's own, as images name it: amd64, arm64."""
        with explained("engine"):
            named: str = self._api.version()["Arch"]
        return named

    def free_gb(self) -> float | None:
        """Free space where the engine keeps its images; None when that is not on this machine."""
        with explained("engine"):
            root = Path(self._api.info()["DockerRootDir"])
        return shutil.disk_usage(root).free / 1e9 if root.is_dir() else None


@contextmanager
def explained(subject: str) -> Iterator[None]:
    """Turn the SDK's and the connection's errors into ours."""
    import requests  # noqa: PLC0415 - comes with the SDK
    from docker.errors import DockerException  # noqa: PLC0415 - comes with the one above

    try:
        yield
    except (DockerException, requests.RequestException, OSError) as error:
        raise problem(subject, _one_line(error)) from error


def problem(subject: str, message: str) -> ImageError:
    """The error for what an engine said about `subject`."""
    if _NO_MIRROR.search(message):
        return EngineError(
            f"{subject}: a container cannot reach the distribution's mirror: {message}.",
            "check the engine's network: docker run --rm local/debian:bookworm apt-get update",
        )
    if _NO_SPACE.search(message):
        return EngineError(f"{subject}: no space left: {message}.", "docker image prune, or give the engine more disk")
    if _MISMATCH.search(message):
        return RegistryError(
            f"{subject}: what came is not what the digest says: {message}.",
            "do not use it; find out what stands between here and the registry, or who changed the registry's storage",
        )
    if _UNREACHABLE.search(message):
        return RegistryError(
            f"{subject}: the registry cannot be reached: {message}.",
            "check the network, or build offline: make images OFFLINE_BASE=1",
        )
    if _NOT_THERE.search(message):
        return RegistryError(f"{subject}: the registry has no such image for you: {message}.", "check name and log-in")
    return EngineError(f"{subject}: {message}.", "read the engine's message")


def _built_id(stream: Iterator[Mapping[str, Any]], report: Report) -> str:
    """Follow a build's output to the id at its end; a failing step is reported with its last lines."""
    lines: list[str] = []
    image_id = error = ""
    for entry in stream:  # to its end in any case: the connection is free only then
        for line in str(entry.get("stream", "")).splitlines():
            if not line.strip():
                continue
            lines.append(line.strip())
            if line.startswith("Step "):
                report.step(line)
            else:
                report.line(line.strip())
        error = entry.get("error", error)
        image_id = entry.get("aux", {}).get("ID", image_id)
    if error:
        raise problem("build", f"{' | '.join(lines[-6:])}: {_flat(error)}")
    if not image_id:
        raise EngineError("The build ended without an image.", "read the engine's log")
    return image_id


def _follow(stream: Iterator[Mapping[str, Any]], subject: str, report: Report) -> Mapping[str, Any]:
    """Follow a pull or a push; what the engine said beside its progress (the digest of a push)."""
    said: Mapping[str, Any] = {}
    error = ""
    for entry in stream:
        error = entry.get("error", error)
        said = entry.get("aux", said)
        layer = f"layer {entry['id']}: " if "id" in entry else ""
        report.line(f"{layer}{_flat(entry.get('status', ''))} {_flat(entry.get('progress', ''))}".strip())
    if error:
        raise problem(subject, _flat(error))
    return said


def _one_line(error: BaseException) -> str:
    return _flat(str(getattr(error, "explanation", None) or error))


def _flat(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
