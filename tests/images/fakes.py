"""A matrix of two images, a lock, and an engine that remembers what it was asked for."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from bimetal.images.engine import Engine
from bimetal.images.errors import EngineError
from bimetal.images.report import Report

DIGEST = f"sha256:{'a' * 64}"
MATRIX: dict[str, Any] = {
    "schema": 1,
    "python": "3.11",
    "bases": {
        "bookworm": {"image": "debian:bookworm-slim", "digest": DIGEST, "suite": "bookworm", "glibc": "2.36"},
        "vendor": {"image": "registry.example/triton:1"},
    },
    "images": {
        "cpu": {
            "kind": "triton",
            "vendor": "cpu",
            "title": "Triton on CPUs",
            "default": "bookworm",
            "offline": "bookworm",
            "variants": {
                "bookworm": {
                    "base": "bookworm",
                    "server": "wheel",
                    "roots": ["nvidia-pytriton"],
                    "packages": {"libpython3.11": None, "libexample1": "1.2.*"},
                    "versions": {"triton": "2.51.0"},
                    "budget_mb": 10,
                    "proven": "in tests",
                }
            },
        },
        "cuda": {
            "kind": "triton",
            "vendor": "nvidia",
            "title": "Triton with CUDA",
            "default": "11.8",
            "offline": None,
            "variants": {
                "11.8": {
                    "base": "vendor",
                    "server": "base",
                    "versions": {"cuda": "11.8.0"},
                    "budget_mb": 10,
                    "proven": "rendered",
                }
            },
        },
    },
}


def known(image_id: str, layer: str = "sha256:layer", **more: Any) -> dict[str, Any]:
    """What an engine knows of an image."""
    return {"Id": image_id, "RootFS": {"Layers": [layer]}, "RepoDigests": [], **more}


class Recorder(Report):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.lines: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def line(self, text: str) -> None:
        self.lines.append(text)


class FakeEngine(Engine):
    """Images by reference; a build makes an image of `size` bytes, or fails as told."""

    def __init__(self) -> None:
        self.images: dict[str, dict[str, Any]] = {}
        self.pulled: list[str] = []
        self.built: list[Mapping[str, str]] = []
        self.from_scratch: list[bool] = []
        self.imports = 0
        self.size = 1_000_000
        self.free: float | None = 100.0
        self.machine = "amd64"
        self.failure: EngineError | None = None
        self.answers_to_pull = known("sha256:base", RepoDigests=[f"debian@{DIGEST}"])

    def inspect(self, reference: str) -> Mapping[str, Any] | None:
        return self.images.get(reference)

    def pull(self, reference: str, report: Report) -> None:  # noqa: ARG002 - Engine has it
        self.pulled.append(reference)
        self.images[reference] = self.answers_to_pull

    def import_root(self, tar: Path, repository: str, tag: str, labels: Mapping[str, str]) -> Mapping[str, Any]:
        self.imports += 1  # an engine puts the time of the import into the id
        layer = hashlib.sha256(tar.read_bytes()).hexdigest()
        imported = known(f"sha256:import{self.imports}", layer=layer, Config={"Labels": dict(labels)})
        self.images[f"{repository}:{tag}"] = imported
        return self.images[f"{repository}:{tag}"]

    def untag(self, reference: str) -> None:
        self.images.pop(reference, None)

    def build(
        self, context: IO[bytes], labels: Mapping[str, str], report: Report, *, from_scratch: bool = False
    ) -> str:
        if self.failure:
            raise self.failure
        report.step("Step 1/1 : FROM x")
        self.built.append(labels)
        self.from_scratch.append(from_scratch)
        image_id = f"sha256:{hashlib.sha256(context.read()).hexdigest()}"
        self.images[image_id] = {"Id": image_id, "Size": self.size, "Config": {"Labels": dict(labels)}}
        return image_id

    def tag(self, image_id: str, repository: str, tag: str) -> None:
        self.images[f"{repository}:{tag}"] = self.images[image_id]

    def architecture(self) -> str:
        return self.machine

    def free_gb(self) -> float | None:
        return self.free
