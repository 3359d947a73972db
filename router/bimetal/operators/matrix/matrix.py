"""The operator matrix: operator x target -> score, with types, limits and provenance.

The scores: 5 native and fast (a half-precision kernel and no documented limit), 4 native, 3 native
with limits, 2 through a conversion (a function body put in its place, or another domain's
operator), 1 only on the CPU behind the target, 0 not at all.

A row holds for a range of *operator versions*. onnxruntime matches an open-ended kernel only at
the version it was registered for (KernelRegistry::VerifyVersion), so a model's opset decides.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from bimetal.operators.errors import MatrixError
from bimetal.operators.matrix.targets import Target

DATA = Path(__file__).parents[1] / "data"
MATRIX_FILE = DATA / "operator_matrix.csv"
SOURCES_FILE = DATA / "operator_sources.csv"
COLUMNS = (
    "domain",
    "operator",
    "target",
    "first_version",
    "last_version",
    "score",
    "types",
    "limits",
    "evidence",
    "sources",
)
INLINED = "its function body is inlined"
"""How a cell's limits say that onnxruntime puts the operator's function body in its place."""
_REBUILD = "Rebuild it with `python -m bimetal.operators.matrix.build`."

Key = tuple[str, str, Target]
Place = tuple[str, str, int, Target]
"""Domain, operator, operator version and target."""


class Evidence(StrEnum):
    """How a cell is known. Facts (the first two) beat findings where they contradict."""

    MEASURED = "measured"
    DOCUMENTED = "documented"
    PRACTITIONER = "practitioner"


@dataclass(frozen=True)
class TypeFact:
    """What was verified of one element type; `text` is empty where it runs as documented."""

    score: int
    text: str


@dataclass(frozen=True)
class Cell:
    """What one target does with one operator, for the operator versions first..last (None: open).

    `types` maps a type constraint of the operator ("" for its only or main one) to the element
    types that the target has; an empty mapping says that the source names none. `verified` holds
    what was run, by the operator's main type: it beats score, types and limits.
    """

    domain: str
    operator: str
    target: Target
    first_version: int
    last_version: int | None
    score: int
    evidence: Evidence
    sources: tuple[str, ...]
    limits: str = ""
    types: Mapping[str, frozenset[str]] = field(default_factory=dict)
    verified: Mapping[str, TypeFact] = field(default_factory=dict)

    def covers(self, version: int) -> bool:
        """Whether this operator version is in its range, both ends included; without a last version it has no end."""
        return self.first_version <= version and (self.last_version is None or version <= self.last_version)

    def as_row(self) -> dict[str, str]:
        """The cell as a row of the data file."""
        return {
            "domain": self.domain,
            "operator": self.operator,
            "target": self.target,
            "first_version": str(self.first_version),
            "last_version": "" if self.last_version is None else str(self.last_version),
            "score": str(self.score),
            "types": format_types(self.types),
            "limits": self.limits,
            "evidence": self.evidence,
            "sources": " ".join(self.sources),
        }


@dataclass(frozen=True)
class Learned:
    """How fast a native operator was on this cluster: score 3 to 5, and in words when and against what."""

    score: int
    text: str

    def applied_to(self, score: int) -> int:
        """Of native operators it tells the speed (4 or 5, or lower); what only a test can tell it leaves alone."""
        return min(score, self.score) if score in {3, 5} else self.score if score == 4 else score


@dataclass(frozen=True)
class Judgement:
    """A fact and what practitioners say beside it; `score` is what the two come to."""

    score: int
    fact: Cell | None
    finding: Cell | None
    learned: Learned | None = None

    @property
    def decided_by(self) -> Cell:
        """The cell whose score stands."""
        if self.fact is not None and self.fact.score == self.score:
            return self.fact
        cell = self.finding or self.fact
        assert cell is not None
        return cell


class Matrix:
    """Look-ups over the cells; `sources` describes each source id."""

    def __init__(
        self, cells: Iterable[Cell], sources: Mapping[str, str], learned: Mapping[Place, Learned] | None = None
    ) -> None:
        self.sources = dict(sources)
        self._learned = dict(learned or {})
        self._cells: dict[Key, list[Cell]] = {}
        for cell in cells:
            self._cells.setdefault((cell.domain, cell.operator, cell.target), []).append(cell)

    def __iter__(self) -> Iterator[Cell]:
        for cells in self._cells.values():
            yield from cells

    def operators(self) -> frozenset[tuple[str, str]]:
        """Every (domain, operator) of the matrix."""
        return frozenset((domain, operator) for domain, operator, _ in self._cells)

    def judge(self, domain: str, operator: str, version: int, target: Target) -> Judgement | None:
        """What is known of the operator at that version; None when no source speaks of it."""
        covering = [cell for cell in self._cells.get((domain, operator, target), ()) if cell.covers(version)]
        fact = next((cell for cell in covering if cell.evidence is not Evidence.PRACTITIONER), None)
        finding = next((cell for cell in covering if cell.evidence is Evidence.PRACTITIONER), None)
        if fact is None and finding is None:
            return None
        return Judgement(
            _combined(fact, finding), fact, finding, self._learned.get((domain, operator, version, target))
        )

    def taught(self, learned: Mapping[Place, Learned]) -> "Matrix":
        """The matrix with what was learned on a cluster beside its facts; this one stays as it is."""
        return Matrix(self, self.sources, learned)


def _combined(fact: Cell | None, finding: Cell | None) -> int:
    """The fact's score; a finding only says how fast a native operator without limits is."""
    if fact is None:
        assert finding is not None
        return finding.score
    if finding is not None and fact.score == 4 and finding.score == 5:
        return finding.score
    return fact.score


def parse_types(text: str) -> dict[str, frozenset[str]]:
    """ "T=fp16 fp32; U=int32" or, with one constraint, "fp16 fp32"."""
    types = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        constraint, _, names = part.rpartition("=")
        types[constraint] = frozenset(names.split())
    return types


def format_types(types: Mapping[str, frozenset[str]]) -> str:
    """The inverse of parse_types, in one canonical order."""
    return "; ".join(
        f"{name}={' '.join(sorted(types[name]))}" if name else " ".join(sorted(types[name])) for name in sorted(types)
    )


@lru_cache(maxsize=1)
def default_matrix() -> Matrix:
    """The matrix that ships with the package."""
    return load_matrix(MATRIX_FILE, SOURCES_FILE)


def load_matrix(matrix_file: Path, sources_file: Path) -> Matrix:
    """Reads and validates a matrix.

    Raises:
        MatrixError: names file, line, column and what was expected.
    """
    sources = {row["id"]: f"{row['what']} ({row['version']})" for _, row in read_rows(sources_file, ("id", "what"))}
    cells = [_cell(matrix_file, line, row, sources) for line, row in read_rows(matrix_file, COLUMNS)]
    _refuse_overlaps(matrix_file, cells)
    return Matrix(cells, sources)


def read_rows(file: Path, required: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with their line numbers.

    Raises:
        MatrixError: the file is missing, lacks a required column, or a row has another width.
    """
    try:
        stream = file.open(newline="", encoding="utf-8")
    except OSError as exc:
        raise MatrixError(f"{file}: cannot be read ({exc.strerror}).", _REBUILD) from exc
    with stream:
        reader = csv.DictReader(stream, restkey="", strict=True)
        missing = [name for name in required if name not in (reader.fieldnames or ())]
        if missing:
            raise MatrixError(f"{file}:1: column {missing[0]!r} is missing.", _REBUILD)
        for row in reader:
            if "" in row or None in row.values():
                raise MatrixError(
                    f"{file}:{reader.line_num}: expected {len(reader.fieldnames or ())} columns.", _REBUILD
                )
            yield reader.line_num, row


def _cell(file: Path, line: int, row: Mapping[str, str], sources: Mapping[str, str]) -> Cell:
    def bad(column: str, expected: str) -> MatrixError:
        return MatrixError(f"{file}:{line}: column {column!r} is {row[column]!r}; expected {expected}.", _REBUILD)

    if row["target"] not in set(Target):
        raise bad("target", f"one of {', '.join(Target)}")
    if row["score"] not in set("012345"):
        raise bad("score", "a whole number from 0 to 5")
    if row["evidence"] not in set(Evidence):
        raise bad("evidence", f"one of {', '.join(Evidence)}")
    for column in ("domain", "operator", "sources"):
        if not row[column]:
            raise bad(column, "a name")
    if not row["first_version"].isdecimal():
        raise bad("first_version", "an operator version")
    if row["last_version"] and not row["last_version"].isdecimal():
        raise bad("last_version", "an operator version, or nothing for an open range")
    if unknown := [name for name in row["sources"].split() if name not in sources]:
        raise bad("sources", f"ids of the sources file, which has no {unknown[0]!r}")
    return Cell(
        domain=row["domain"],
        operator=row["operator"],
        target=Target(row["target"]),
        first_version=int(row["first_version"]),
        last_version=int(row["last_version"]) if row["last_version"] else None,
        score=int(row["score"]),
        evidence=Evidence(row["evidence"]),
        sources=tuple(row["sources"].split()),
        limits=row["limits"],
        types=parse_types(row["types"]),
    )


def _refuse_overlaps(file: Path, cells: Iterable[Cell]) -> None:
    def order(cell: Cell) -> tuple[str, str, str, bool, int]:
        finding = cell.evidence is Evidence.PRACTITIONER
        return (cell.domain, cell.operator, cell.target, finding, cell.first_version)

    for before, after in pairwise(sorted(cells, key=order)):
        if order(before)[:4] == order(after)[:4] and before.covers(after.first_version):
            what = f"{after.domain}.{after.operator} on {after.target} has two rows for version {after.first_version}"
            raise MatrixError(f"{file}: {what}; expected one.", _REBUILD)
