"""The torch part of the matrix: aten operators on CUDA and ROCm builds of PyTorch.

A test that PyTorch itself skips or expects to fail on a platform is a known failure, not proof
that the operator is unusable: it costs one point (3), as a documented limit does.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from bimetal.operators.matrix.matrix import Cell, Evidence, read_rows
from bimetal.operators.matrix.targets import Target

_ROCM_SCORES = {"same": 4, "types": 4, "cuda_fails": 4, "skipped": 3, "fewer_types": 3, "unsupported": 0}


def torch_cells(facts: Path) -> Iterator[Cell]:
    """Written conditions first; the operator tests speak where no condition does."""
    decided = set()
    for _, row in read_rows(facts / "torch_conditions.csv", ("operator", "target", "score", "limits", "source")):
        target = Target(row["target"])
        decided.add((row["operator"], target))
        yield _cell(row["operator"], target, int(row["score"]), row["limits"], row["source"])
    rows = [row for _, row in read_rows(facts / "torch_operators.csv", ("operator", "variant", "rocm", "difference"))]
    for operator, variants in groupby(rows, key=lambda row: row["operator"]):
        for cell in _tested(operator, list(variants)):
            if (operator, cell.target) not in decided:
                yield cell


def _tested(operator: str, variants: list[dict[str, str]]) -> Iterator[Cell]:
    on_cuda = [row for row in variants if row["rocm"] == "cuda_fails"]
    on_rocm = [row for row in variants if row["rocm"] not in {"same", "cuda_fails"}]
    yield _cell(operator, Target.TORCH_CUDA, 3 if on_cuda else 4, _limits(on_cuda), "torch-2.14.1")
    score = min(_ROCM_SCORES[row["rocm"]] for row in variants)
    yield _cell(operator, Target.TORCH_ROCM, score, _limits(on_rocm), "torch-2.14.1")


def _limits(rows: list[dict[str, str]]) -> str:
    return "; ".join(f"{row['variant']}: {row['difference']}" if row["variant"] else row["difference"] for row in rows)


def _cell(operator: str, target: Target, score: int, limits: str, source: str) -> Cell:
    return Cell(
        domain="aten",
        operator=operator,
        target=target,
        first_version=1,
        last_version=None,
        score=score,
        limits=limits,
        evidence=Evidence.DOCUMENTED,
        sources=(source,),
    )
