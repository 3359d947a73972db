"""Builds a row of the matrix; an image gets its names when all of it is there, never before."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from images import bases, render, wheels
from images.context import as_tar, digest
from images.engine import Engine, Step
from images.errors import EngineError, ImageError
from images.matrix import Matrix, Row
from images.revision import Revision

PYTHON_REPOSITORY = "bimetal-build/python"
# A CUDA environment passes through the engine three times: context, builder layer, image layer.
SPACE_FACTOR = 3

Status = Literal["built", "up to date"]


@dataclass(frozen=True)
class Built:
    """What a build gave; sizes in bytes of the unpacked image, seconds of this build."""

    name: str
    variant: str
    repository: str
    tag: str
    image_id: str
    base: str
    base_id: str
    revision: str
    versions: Mapping[str, str]
    size: int
    budget: int
    seconds: float
    status: Status

    def lock_entry(self) -> dict[str, object]:
        """What images.lock.json keeps: all but what belongs to this one build."""
        entry = asdict(self)
        for key in ("seconds", "status", "name"):
            del entry[key]
        return entry


class Builder:
    """Builds rows on one engine; `cache` keeps wheels and bootstrapped roots."""

    def __init__(
        self, matrix: Matrix, engine: Engine, cache: Path, revision: Revision, *, repository: str, offline: bool
    ) -> None:
        self._matrix = matrix
        self._engine = engine
        self._cache = cache
        self._revision = revision
        self._repository = repository
        self._offline = offline

    def build(self, row: Row, on_step: Step) -> Built:
        """Build one row, or find that the engine has it.

        Tags are <variant>-<12 digits of the inputs' digest>, the same for the same inputs, and <variant>.
        Raises ImageError; then nothing new has a name.
        """
        started = time.monotonic()
        self._check_space(row)
        base = self._base(row.variant.base, on_step)
        python_image = self._python_image(row, on_step) if row.variant.server == "wheel" else None
        recipe = render.dockerfile(row, base.reference, python_image, self._matrix.python)
        context = render.context(row, recipe, self._matrix.python)
        repository = f"{self._repository}/{row.name}"
        labels = render.labels(row, self._revision.name, self._revision.created)
        unchanging = render.labels(row, "", "")
        tag = f"{row.variant_name}-{digest(context, base.image_id, *sorted(f'{k}={v}' for k, v in unchanging.items()))}"
        image_id = self._engine.image_id(f"{repository}:{tag}")
        status: Status = "up to date"
        if image_id is None:
            with as_tar(context) as tar:
                image_id = self._engine.build(tar, labels, on_step)
            status = "built"
        inspected = self._engine.inspect(image_id)
        if inspected is None:
            raise EngineError(f"{row}: the image is gone after its build.", "build again, without a prune beside it")
        size, budget = int(inspected["Size"]), row.variant.budget_mb * 1_000_000
        if size > budget:
            raise ImageError(
                f"{row} has {size // 1_000_000} MB, over its budget of {row.variant.budget_mb} MB; it was not tagged.",
                "see what grew (docker history), or raise budget_mb in matrix.yml with a reason",
            )
        for name in (tag, row.variant_name):
            self._engine.tag(image_id, repository, name)
        return Built(
            name=row.name,
            variant=row.variant_name,
            repository=repository,
            tag=tag,
            image_id=image_id,
            base=base.reference,
            base_id=base.image_id,
            revision=inspected["Config"]["Labels"]["org.opencontainers.image.revision"],
            versions=row.variant.versions,
            size=size,
            budget=budget,
            seconds=time.monotonic() - started,
            status=status,
        )

    def _base(self, name: str, on_step: Step) -> bases.Resolved:
        on_step(f"base {name}")
        return bases.resolve(name, self._matrix.bases[name], self._engine, self._cache / "bases", offline=self._offline)

    def _python_image(self, row: Row, on_step: Step) -> str:
        """The row's Python environment: an image of its own, so that other changes do not fetch or copy it again."""
        base = self._base(row.variant.python_suite or row.variant.base, on_step)
        listed = render.requirements(row)
        recipe = render.python_dockerfile(row, base.reference, self._matrix.python)
        key = digest({}, recipe, listed, base.image_id)
        reference = f"{PYTHON_REPOSITORY}:{key}"
        if self._engine.image_id(reference) is None:
            on_step("wheels")
            fetched = wheels.fetch(listed, self._cache / "wheels", self._matrix.python)
            with as_tar(render.python_context(recipe, listed, fetched)) as tar:
                image_id = self._engine.build(tar, {"org.bimetal.build": "python"}, on_step)
            self._engine.tag(image_id, PYTHON_REPOSITORY, key)
        return reference

    def _check_space(self, row: Row) -> None:
        """Ask before an hour of work rather than fail in the middle of it."""
        free = self._engine.free_gb()
        needed = row.variant.budget_mb * SPACE_FACTOR / 1000
        if free is not None and free < needed:
            raise EngineError(
                f"{row}: the engine has {free:.1f} GB free, expected {needed:.1f} GB for the build.",
                "docker image prune, or give the engine more disk",
            )
