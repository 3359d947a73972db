"""The matrix: reading matrix.yml and choosing rows of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bimetal.images.errors import MatrixError
from bimetal.resources import resource

MATRIX_FILE = resource("images/matrix.yml")

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Python = Annotated[str, Field(pattern=r"^3\.\d+$")]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")]


class Strict(BaseModel):
    """Immutable, and an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Base(Strict):
    """Where an image starts; a `suite` can be bootstrapped from the distribution's mirror instead of pulled."""

    image: str
    digest: Digest | None = None
    suite: str | None = None
    # Wheels are installed only where this is known.
    glibc: Annotated[str, Field(pattern=r"^2\.\d+$")] | None = None


class Variant(Strict):
    """One recipe of an image; matrix.yml explains the fields. Sizes are MB of the unpacked image."""

    base: Name
    server: Literal["wheel", "base"]
    versions: dict[str, str]
    budget_mb: Annotated[int, Field(gt=0)]
    proven: str
    components: list[str] = ["main"]
    architectures: list[Literal["amd64", "arm64"]] = ["amd64"]
    python: Python | None = None
    python_suite: str | None = None
    roots: list[str] = []
    requirements: str | None = None
    packages: dict[str, str | None] = {}
    provided: list[str] = []
    prune: list[str] = []
    library_dirs: list[str] = []
    site_library_dirs: list[str] = []
    libraries: list[str] = []
    provider: str = "CPUExecutionProvider"

    @model_validator(mode="after")
    def _wheels_need_a_server_of_their_own(self) -> Self:
        if self.server == "base" and (self.roots or self.requirements):
            raise ValueError("server: base has the base's own Python; roots and requirements are for server: wheel")
        return self


class Image(Strict):
    """What is served to a vendor's hosts, in one or more variants."""

    kind: Literal["triton", "router", "train"]
    vendor: Literal["nvidia", "amd", "cpu"]
    title: str
    default: str
    offline: str | None
    variants: dict[Name, Variant]

    @model_validator(mode="after")
    def _chosen_variants_exist(self) -> Self:
        for field, name in (("default", self.default), ("offline", self.offline)):
            if name is not None and name not in self.variants:
                raise ValueError(f"{field}: {name} is none of its variants ({', '.join(self.variants)})")
        return self


class Matrix(Strict):
    """All of matrix.yml."""

    schema_version: Literal[1] = Field(alias="schema")
    python: Python
    bases: dict[Name, Base]
    images: dict[Name, Image]

    @model_validator(mode="after")
    def _bases_exist(self) -> Self:
        for name, image in self.images.items():
            for variant_name, variant in image.variants.items():
                if variant.base not in self.bases:
                    raise ValueError(
                        f"{name}:{variant_name} starts at '{variant.base}', which is none of the bases"
                        f" ({', '.join(self.bases)})"
                    )
                python_base = variant.python_suite or variant.base
                if variant.server == "wheel" and self.bases[python_base].glibc is None:
                    raise ValueError(f"{name}:{variant_name} gets wheels, and base '{python_base}' has no glibc")
        return self


class Row(Strict):
    """One image in one variant: what a build is about."""

    name: str
    variant_name: str
    image: Image
    variant: Variant
    base: Base
    python: Python

    def __str__(self) -> str:
        return f"{self.name}:{self.variant_name}"

    @property
    def levels(self) -> tuple[str, ...]:
        """What the image is built up from, parents first: what holds for a level holds for all that have it."""
        return tuple(dict.fromkeys(("common", self.image.kind, self.name)))


def file_in_use() -> Path:
    """The project's matrix, or the one that IMAGES_MATRIX names."""
    return Path(os.environ.get("IMAGES_MATRIX") or MATRIX_FILE)


def load(file: Path | None = None) -> Matrix:
    """Read and check the matrix. Raises MatrixError with the place of the first mistake."""
    file = file or file_in_use()
    try:
        return Matrix.model_validate(yaml.safe_load(file.read_text()))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise MatrixError(f"{file.name}: {place or 'matrix'}: {first['msg']}.", "correct it") from error
    except (yaml.YAMLError, OSError) as error:
        raise MatrixError(f"{file} cannot be read: {error}.", "correct it") from error


def choose(matrix: Matrix, only: list[str], *, offline: bool) -> list[Row]:
    """The rows to work on: `only` has names of images or image:variant, empty means every image.

    With `offline` an image without an offline variant is left out, unless it was asked for.
    Raises MatrixError for an unknown name and for one that cannot be built offline.
    """
    if only:
        return [_row(matrix, wanted, offline=offline) for wanted in only]
    return [
        _row(matrix, name, offline=offline)
        for name, image in matrix.images.items()
        if not offline or image.offline is not None
    ]


def _row(matrix: Matrix, wanted: str, *, offline: bool) -> Row:
    name, _, variant_name = wanted.partition(":")
    image = matrix.images.get(name)
    if image is None:
        raise MatrixError(f"'{name}' is no image of the matrix.", f"name one of {', '.join(matrix.images)}")
    chosen = variant_name or (image.offline if offline else image.default)
    if chosen is None:
        raise MatrixError(
            f"'{name}' has no variant whose base can be bootstrapped.",
            "build it where its base can be pulled, without OFFLINE_BASE",
        )
    if chosen not in image.variants:
        raise MatrixError(f"'{name}' has no variant '{chosen}'.", f"name one of {', '.join(image.variants)}")
    variant = image.variants[chosen]
    base = matrix.bases[variant.base]
    if offline and base.suite is None:
        raise MatrixError(
            f"{name}:{chosen} starts at {base.image}, which is no distribution's suite that could be bootstrapped.",
            f"leave OFFLINE_BASE away, or build {name}:{image.offline}",
        )
    python = variant.python or matrix.python
    return Row(name=name, variant_name=chosen, image=image, variant=variant, base=base, python=python)
