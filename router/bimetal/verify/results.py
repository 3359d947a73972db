"""The document of a verification: which host ran what, and a record per operator variant."""

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from bimetal.documents import read_document
from bimetal.errors import BimetalError
from bimetal.files import write_whole
from bimetal.operators.matrix.targets import Target

_AGAIN = "Run `bimetal ops verify` on that host again, or remove the file."


class ResultsError(BimetalError):
    """A results file cannot be used; names the file, the field and what was expected."""


class FailureKind(StrEnum):
    """How a case failed."""

    REFUSED = "refused"  # no session: no kernel for the version or type
    WRONG_OUTPUT = "wrong_output"
    ERROR = "error"  # an exception while it ran, out of memory included
    CRASHED = "crashed"  # the worker process ended
    HUNG = "hung"  # the worker process was killed at the deadline


class Execution(StrEnum):
    """What really ran, from the session's profile."""

    NATIVE = "native"  # a kernel of the provider, or its compiled subgraph
    CAST = "cast"  # such a kernel in another type, with casts around it
    INLINED = "inlined"  # the operator's function body, all on the provider
    BEHIND = "behind"  # a kernel of the CUDA provider behind TensorRT
    FALLBACK = "fallback"  # at least one node on the CPU behind the provider
    FOLDED = "folded"  # nothing: the session had the answer before it ran


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Host(_Model):
    """The machine; `cpu_threads` are the threads that a session may use for one operator."""

    name: str = Field(min_length=1)
    system: str
    machine: str
    cpu: str
    cpus: int
    memory_bytes: int
    cpu_threads: int


class CaseFailure(_Model):
    """A case that failed, and how."""

    case: str
    kind: FailureKind
    detail: str


class Timing(_Model):
    """One case's cost in seconds; `run_*` over `repeats` runs after a first, and None when it failed.

    `transfer_seconds` copies the inputs to the device and the outputs back; None on the CPU
    provider, which copies nothing, and where it could not be measured.
    """

    case: str
    elements: int
    bytes: int
    compile_seconds: float
    repeats: int
    run_mean_seconds: float | None = None
    run_std_seconds: float | None = None
    transfer_seconds: float | None = None


class Record(_Model):
    """What came of one operator variant.

    `origin` is onnx for cases that ONNX ships, derived for those made from them. `execution` is the
    worst of the cases that ran (see Execution), with `nodes` as (operator, provider), or None when
    none did. `skipped` cases were not run, because one before them hung or crashed.
    """

    domain: str
    operator: str
    version: int = Field(ge=1)
    type: str
    origin: Literal["onnx", "derived"]
    passed: int = Field(ge=0)
    failures: tuple[CaseFailure, ...] = ()
    skipped: int = Field(default=0, ge=0)
    execution: Execution | None = None
    nodes: tuple[tuple[str, str], ...] = ()
    smallest: Timing | None = None
    largest: Timing | None = None

    @property
    def failed(self) -> int:
        """Number of cases that failed."""
        return len(self.failures)

    @property
    def fallback(self) -> bool | None:
        """Whether any node ran on the CPU behind the provider; None when nothing ran."""
        return None if self.execution is None else self.execution is Execution.FALLBACK


class Results(_Model):
    """Everything one run of `bimetal ops verify` found.

    `transfer` says why no timing has a transfer: the CPU provider has no device, or onnxruntime's
    build could not place tensors on it.
    """

    format: Literal[1] = 1
    target: Target
    provider: str
    host: Host
    onnxruntime: str
    onnx: str
    bimetal: str
    python: str
    started: AwareDatetime
    duration_seconds: float
    transfer: Literal["measured", "unavailable", "no_device"]
    records: tuple[Record, ...]

    @property
    def provenance(self) -> str:
        """Where a verified fact is from, as people read it."""
        return f"verified on {self.host.name} at {self.started:%Y-%m-%d %H:%M} UTC with onnxruntime {self.onnxruntime}"


def default_file(folder: Path, host: str, target: Target, started: datetime) -> Path:
    """One file per run: a later run of a few operators must not replace what an earlier one knew of others."""
    return folder / f"{host}-{target}-{started:%Y%m%dT%H%M%SZ}.json"


def document_of(results: Results) -> str:
    """The document as JSON, as the results file has it."""
    return results.model_dump_json(indent=1) + "\n"


def write_results(results: Results, file: Path) -> None:
    """Writes the document, whole or not at all.

    Raises:
        BimetalError: the folder cannot be written to.
    """
    write_whole(file, document_of(results))


def read_results(file: Path) -> Results:
    """Reads and validates one document.

    Raises:
        ResultsError: names the file, the first bad field and what was expected.
    """
    return read_document(file, Results, "verification results", ResultsError, _AGAIN)
