"""A matrix of two images, a lock, and an engine that remembers what it was asked for."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from images.engine import Engine, Step
from images.errors import EngineError

DIGEST = f"sha256:{'a' * 64}"
MATRIX: dict[str, Any] = {
    "schema": 1,
    "python": "3.11",
    "bases": {
        "bookworm": {"image": "debian:bookworm-slim", "digest": DIGEST, "suite": "bookworm"},
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


class FakeEngine(Engine):
    """Images by reference; a build makes an image of `size` bytes, or fails as told."""

    def __init__(self) -> None:
        self.images: dict[str, dict[str, Any]] = {}
        self.pulled: list[str] = []
        self.built: list[Mapping[str, str]] = []
        self.size = 1_000_000
        self.free: float | None = 100.0
        self.failure: EngineError | None = None
        self.answers_to_pull: dict[str, Any] = {"Id": "sha256:base", "RepoDigests": [f"debian@{DIGEST}"]}

    def inspect(self, reference: str) -> Mapping[str, Any] | None:
        return self.images.get(reference)

    def pull(self, reference: str) -> None:
        self.pulled.append(reference)
        self.images[reference] = self.answers_to_pull

    def import_root(self, tar: Path, repository: str, tag: str) -> str:
        self.images[f"{repository}:{tag}"] = {"Id": hashlib.sha256(tar.read_bytes()).hexdigest(), "RepoDigests": []}
        return str(self.images[f"{repository}:{tag}"]["Id"])

    def build(self, context: IO[bytes], labels: Mapping[str, str], on_step: Step) -> str:
        if self.failure:
            raise self.failure
        on_step("Step 1/1 : FROM x")
        self.built.append(labels)
        image_id = f"sha256:{hashlib.sha256(context.read()).hexdigest()}"
        self.images[image_id] = {"Id": image_id, "Size": self.size, "Config": {"Labels": dict(labels)}}
        return image_id

    def tag(self, image_id: str, repository: str, tag: str) -> None:
        self.images[f"{repository}:{tag}"] = self.images[image_id]

    def free_gb(self) -> float | None:
        return self.free
