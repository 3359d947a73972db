"""Builds router/bimetal/operators/data/operator_matrix.csv from the facts: `python -m bimetal.operators.matrix.build`.

The same facts give the same file, byte for byte. What a fact means as a score is decided here and
written down in docs/operators.md.
"""

import argparse
import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bimetal.operators.matrix.matrix import COLUMNS, DATA, INLINED, MATRIX_FILE, Cell, Evidence, parse_types, read_rows
from bimetal.operators.matrix.targets import Target
from bimetal.operators.matrix.torch_facts import torch_cells

FACTS = DATA / "facts"
OLDEST_OPSET = 7  # where onnxruntime's kernels begin; 1.32.0 on the CPU refused all 8 older versions tried
NEWEST_OPSET_READ = 24  # of the onnxruntime sources behind the CUDA and ROCm columns
_HALF = frozenset({"fp16", "bf16"})


@dataclass(frozen=True)
class State:
    """What a target does with one operator version, before equal neighbours become a range."""

    score: int
    limits: str = ""
    types: str = ""
    evidence: Evidence = Evidence.DOCUMENTED
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Kernels:
    """What the facts say of one onnxruntime provider's kernels for an operator.

    `state` is kernel, function (only a function body), flag (special builds), none, or "" (unknown).
    """

    name: str
    state: str
    max_opset: str
    types: str
    source: str
    note: str = ""

    def match(self, version: int) -> bool:
        return self.state == "kernel" and _in_kernel_range(version, self.max_opset, NEWEST_OPSET_READ)

    def why_not(self, version: int) -> str:
        if self.state == "kernel" and self.max_opset:
            why = f"{self.name} kernels match up to opset {self.max_opset}"
        elif self.state == "kernel":
            why = f"version {version} is newer than the {self.name} kernels read"
        elif self.state == "flag":
            why = f"the {self.name} kernel is only in builds with a special flag"
        else:
            why = f"no {self.name} kernel" if self.state else f"newer than the {self.name} sources read"
        return f"{why} ({self.note})" if self.note else why


def build(facts: Path = FACTS) -> list[Cell]:
    """Every cell of the matrix, in the file's order."""
    cells = [
        cell
        for _, row in read_rows(facts / "onnx_operators.csv", ("domain", "cpu_measured"))
        for cell in _onnx_cells(row)
    ]
    cells += torch_cells(facts)
    cells += _findings(facts / "practitioners.csv")
    return sorted(cells, key=lambda c: (c.domain, c.operator, c.target, c.evidence, c.first_version))


def write(cells: Iterable[Cell], file: Path) -> None:
    """Writes the cells as the matrix file."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(cell.as_row() for cell in cells)


def _onnx_cells(row: Mapping[str, str]) -> Iterator[Cell]:
    versions = [int(version) for version in row["versions"].split()]
    judges: dict[Target, Callable[[Mapping[str, str], int], State]] = {
        Target.CPU: _cpu_state,
        Target.CUDA: _cuda_state,
        Target.ROCM: _rocm_state,
        Target.MIGRAPHX: _migraphx_state,
        Target.TENSORRT: _tensorrt_state,
    }
    for target, judge in judges.items():
        states = [judge(row, version) for version in versions]
        starts = [i for i in range(len(versions)) if i == 0 or states[i] != states[i - 1]]
        for start, following in zip(starts, [*starts[1:], None], strict=True):
            state = states[start]
            yield Cell(
                domain=row["domain"],
                operator=row["operator"],
                target=target,
                first_version=versions[start],
                last_version=None if following is None else versions[following] - 1,
                score=state.score,
                limits=state.limits,
                types=parse_types(state.types),
                evidence=state.evidence,
                sources=state.sources,
            )


def _cpu_state(row: Mapping[str, str], version: int) -> State:
    """A session run on this version counts more than the list of kernels."""
    measured = dict(pair.split(":") for pair in row["cpu_measured"].split()).get(str(version))
    if measured is not None:
        limits = {
            "kernel": "",
            "function": f"no kernel: {INLINED}",
            "none": "no kernel at this version",
        }
        score = {"kernel": 4, "function": 2, "none": 0}[measured]
        return State(score, limits[measured], evidence=Evidence.MEASURED, sources=("ort-cpu-1.32.0",))
    known = ("ort-cpu",)
    if _superseded(row, version):
        return State(0, f"older than opset {OLDEST_OPSET}, where onnxruntime's kernels begin", sources=known)
    if row["cpu"] == "kernel" and _in_kernel_range(version, row["cpu_max_opset"], newest_read=26):
        return State(4, sources=known)
    if row["cpu"] == "function":
        return State(2, f"no kernel: {INLINED}", sources=known)
    if row["cpu"] == "flag":
        return State(0, "only in builds with a special flag", sources=known)
    return State(0, "no kernel at this version" if row["cpu"] else "newer than the sources read", sources=known)


def _cuda_state(row: Mapping[str, str], version: int) -> State:
    """The score on onnxruntime's CUDA provider, with the CPU behind it."""
    kernels = _Kernels("CUDA", row["cuda"], row["cuda_max_opset"], row["cuda_types"], "ort-cuda", row["cuda_note"])
    return _ort_state(row, version, kernels, _cpu_state(row, version))


def _rocm_state(row: Mapping[str, str], version: int) -> State:
    """The score on onnxruntime's ROCm provider, which ended with 1.22, with the CPU behind it."""
    kernels = _Kernels("ROCm", row["rocm"], row["rocm_max_opset"], row["rocm_types"], "ort-rocm")
    behind = _cpu_state(row, version)
    if row["function"] == "yes" and version >= 23:
        # onnxruntime 1.22, the last with this provider, has no CPU kernels for opset 23 either.
        behind = State(2, sources=("ort-rocm",))
    return _ort_state(row, version, kernels, behind)


def _migraphx_state(row: Mapping[str, str], version: int) -> State:
    """The library must parse the operator *and* onnxruntime's provider must hand it over."""
    known = ("migraphx", "ort-migraphx")
    if row["operator"] == "Constant":
        return State(5, sources=known)
    takes, parses = row["migraphx_ep"], row["migraphx"]
    if takes == "no" or (parses == "no" and row["function"] == "no"):
        why = "the provider does not take it"
        if row["migraphx_plugin"] == "yes":
            why += " (AMD's plugin provider does)"
        return _fallback(_cpu_state(row, version), why, known)
    if parses == "no":
        why = (
            "the parser of that name reads com.microsoft's operator, and the provider does not look at the domain: "
            "convert the node"
        )
        return State(2, why, sources=known)
    limits = row["migraphx_limits"]
    if takes == "partial":
        limits = "; ".join(filter(None, (limits, "the provider refuses some modes")))
    if limits or parses == "partial":
        return State(3, limits or "the documentation and the parser disagree", row["migraphx_types"], sources=known)
    return _native(row["migraphx_types"], sources=known)


def _tensorrt_state(row: Mapping[str, str], version: int) -> State:
    """The score on TensorRT, with the CUDA provider behind it."""
    known = ("tensorrt",)
    if row["tensorrt"] == "yes":
        return _native(row["tensorrt_types"], sources=known)
    if row["tensorrt"] == "partial":
        return State(3, row["tensorrt_limits"], row["tensorrt_types"], sources=known)
    behind = _cuda_state(row, version)
    if behind.score >= 3:
        why = "not in TensorRT: the CUDA provider behind it runs the node and the engine is cut in two"
        return State(3, why, behind.types, sources=known + behind.sources)
    return State(behind.score, behind.limits, sources=known + behind.sources)


def _superseded(row: Mapping[str, str], version: int) -> bool:
    """Whether a later version replaced this one before onnxruntime's kernels begin."""
    return any(version < later <= OLDEST_OPSET for later in map(int, row["versions"].split()))


def _in_kernel_range(version: int, max_opset: str, newest_read: int) -> bool:
    return version <= (int(max_opset) if max_opset else newest_read)


def _native(types: str, sources: tuple[str, ...]) -> State:
    fast = any(names & _HALF for names in parse_types(types).values())
    return State(5 if fast else 4, types=types, sources=sources)


def _ort_state(row: Mapping[str, str], version: int, kernels: _Kernels, behind: State) -> State:
    """A provider with kernels of its own: native where one matches, else what stands behind it."""
    if row["operator"] == "Constant":
        return State(5, sources=(kernels.source,))  # onnxruntime makes it an initializer: no kernel is asked for
    if _superseded(row, version):
        return State(0, behind.limits, sources=(kernels.source,))
    if kernels.match(version):
        return _native(kernels.types, sources=(kernels.source,))
    return _fallback(behind, kernels.why_not(version), (kernels.source,))


def _fallback(behind: State, why: str, sources: tuple[str, ...]) -> State:
    """onnxruntime asks the CPU provider next; only what nobody takes is replaced by its body."""
    if behind.score >= 3:
        return State(1, f"{why}: the node runs on the CPU", sources=sources + behind.sources)
    if behind.score == 2:
        return State(2, f"{why}: {INLINED}", sources=(*sources, "ort-partitioner"))
    return State(0, f"{why}, and none on the CPU", sources=sources + behind.sources)


def _findings(file: Path) -> Iterator[Cell]:
    for _, row in read_rows(file, ("domain", "operator", "target", "score", "finding")):
        yield Cell(
            domain=row["domain"],
            operator=row["operator"],
            target=Target(row["target"]),
            first_version=1,
            last_version=None,
            score=int(row["score"]),
            limits=row["finding"],
            evidence=Evidence.PRACTITIONER,
            sources=("practitioners",),
        )


def main() -> None:
    """The command: rebuild the matrix file, or say which row is wrong."""
    parser = argparse.ArgumentParser(description="Rebuild the operator matrix from its facts.")
    parser.add_argument("--facts", type=Path, default=FACTS, help="folder with the CSV facts")
    parser.add_argument("--output", type=Path, default=MATRIX_FILE, help="the matrix file to write")
    options = parser.parse_args()
    cells = build(options.facts)
    write(cells, options.output)
    print(f"{options.output}: {len(cells)} cells")


if __name__ == "__main__":
    main()
