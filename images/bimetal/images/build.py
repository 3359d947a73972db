"""Builds a row of the matrix; an image gets its names when all of it is there, never before."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bimetal.images import bases, render, wheels
from bimetal.images.context import as_tar, digest
from bimetal.images.engine import Engine
from bimetal.images.errors import EngineError, ImageError
from bimetal.images.matrix import Matrix, Row
from bimetal.images.parallel import OneAtATime
from bimetal.images.report import Report
from bimetal.images.revision import Revision

PYTHON_REPOSITORY = "bimetal-build/python"
# Measured: the four offline images with the layers between them take 1.2 times their budgets; contexts come on top.
SPACE_FACTOR = 2

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


@dataclass(frozen=True)
class Environment:
    """A Python environment that images copy: what it is made of; `key` changes with any of it."""

    target: wheels.Target
    recipe: str
    listed: str
    key: str

    @property
    def reference(self) -> str:
        """Name and tag of the image that holds it; a changed part is another tag."""
        return f"{PYTHON_REPOSITORY}:{self.key}"


class Builder:
    """Builds rows on one engine, also several at once; `cache` keeps wheels and bootstrapped roots.

    `fresh` builds again what is there, because the archive has newer packages.
    """

    def __init__(
        self,
        matrix: Matrix,
        engine: Engine,
        cache: Path,
        revision: Revision,
        *,
        repository: str,
        offline: bool,
        fresh: bool = False,
    ) -> None:
        self._matrix = matrix
        self._engine = engine
        self._cache = cache
        self._revision = revision
        self._repository = repository
        self._offline = offline
        self._fresh = fresh
        self._one_at_a_time = OneAtATime()

    def preflight(self, rows: Sequence[Row]) -> None:
        """Ask before an hour of work rather than fail in the middle of it. Raises ImageError; nothing was changed."""
        bases.check_available(self._matrix.bases, rows, offline=self._offline)
        self._check_architecture(rows)
        self._check_space(rows)

    def build(self, row: Row, report: Report) -> Built:
        """Build one row, or find that the engine has it.

        Tags are <variant>-<12 digits of the inputs' digest>, the same for the same inputs, and <variant>.
        Raises ImageError; then nothing new has a name.
        """
        started = time.monotonic()
        base = self._base(row.variant.base, report)
        environment = self._environment(row, report) if row.variant.server == "wheel" else None
        python_image = environment.reference if environment else None
        recipe = render.dockerfile(row, base.reference, python_image, row.python)
        context = render.context(row, recipe, row.python)
        repository = f"{self._repository}/{row.name}"
        labels = render.labels(row, self._revision.name, self._revision.created)
        unchanging = render.labels(row, "", "")
        tag = f"{row.variant_name}-{digest(context, base.content, *sorted(f'{k}={v}' for k, v in unchanging.items()))}"
        image_id = self._engine.image_id(f"{repository}:{tag}")
        status: Status = "up to date"
        if image_id is None or self._fresh:
            if environment is not None:
                self._have(environment, report)
            with as_tar(context) as tar:
                image_id = self._engine.build(tar, labels, report, from_scratch=self._fresh)
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

    def _base(self, name: str, report: Report) -> bases.Resolved:
        report.step(f"base {name}")
        with self._one_at_a_time.on(f"base {name}"):
            base = self._matrix.bases[name]
            return bases.resolve(name, base, self._engine, self._cache / "bases", report, offline=self._offline)

    def _environment(self, row: Row, report: Report) -> Environment:
        """The row's Python environment: an image of its own, so that other changes do not fetch or copy it again."""
        name = row.variant.python_suite or row.variant.base
        base = self._base(name, report)
        listed = render.requirements(row)
        recipe = render.python_dockerfile(row, base.reference, row.python)
        glibc = str(self._matrix.bases[name].glibc)  # the matrix is refused without it
        target = wheels.Target(row.python, glibc, self._engine.architecture())
        return Environment(target, recipe, listed, digest({}, recipe, listed, base.content))

    def _have(self, environment: Environment, report: Report) -> None:
        """Build a Python environment unless the engine has it."""
        with self._one_at_a_time.on(environment.reference):
            if self._engine.image_id(environment.reference) is not None:
                return
            report.step("wheels")
            fetched = wheels.fetch(environment.listed, self._cache / "wheels", environment.target, report)
            with as_tar(render.python_context(environment.recipe, environment.listed, fetched)) as tar:
                image_id = self._engine.build(tar, {"org.bimetal.build": "python"}, report)
            self._engine.tag(image_id, PYTHON_REPOSITORY, environment.key)

    def _check_architecture(self, rows: Sequence[Row]) -> None:
        architecture = self._engine.architecture()
        for row in rows:
            if architecture not in row.variant.architectures:
                raise EngineError(
                    f"{row} is for {', '.join(row.variant.architectures)}, and the engine's machine is {architecture}.",
                    "name an engine of that kind in DOCKER_HOST, or choose other images",
                )

    def _check_space(self, rows: Sequence[Row]) -> None:
        free = self._engine.free_gb()
        new = [row for row in rows if not self._engine.image_id(f"{self._repository}/{row.name}:{row.variant_name}")]
        needed = sum(row.variant.budget_mb for row in new) * SPACE_FACTOR / 1000
        if free is not None and free < needed:
            raise EngineError(
                f"{', '.join(map(str, new))}: the engine has {free:.1f} GB free, expected {needed:.1f} GB to build.",
                "docker image prune, give the engine more disk, or build fewer: make images ONLY=cpu",
            )
