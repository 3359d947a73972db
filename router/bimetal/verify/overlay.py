"""Verified results as cells of the operator matrix, where they beat what is documented.

    every test failed, or one hung or crashed   0
    right, but a node ran on the CPU behind     1
    right, by the operator's function body      2
    right, cast to another type and back        3
    right, by the provider behind TensorRT      3
    some tests failed                           3 at most
    all passed, natively                        4, or the documented 5

5 ("fast") is not to be had by passing: node tests are too small to tell.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bimetal.operators.matrix.matrix import Cell, Evidence, Matrix, TypeFact
from bimetal.operators.matrix.targets import Target
from bimetal.verify.results import CaseFailure, Execution, FailureKind, Record, Results, read_results

Key = tuple[str, str, int, Target]
Run = tuple[Record, Results]

_FATAL = frozenset({FailureKind.HUNG, FailureKind.CRASHED})
_SCORES = {
    Execution.FALLBACK: 1,
    Execution.INLINED: 2,
    Execution.CAST: 3,
    Execution.BEHIND: 3,
    Execution.NATIVE: 4,
    Execution.FOLDED: 4,
}
_WORDS = {
    Execution.FALLBACK: "it ran on the CPU",
    Execution.INLINED: "its function body ran",
    Execution.CAST: "it ran in another type, with casts around it",
    Execution.BEHIND: "it ran on the CUDA provider behind TensorRT",
    Execution.NATIVE: "it ran natively",
    Execution.FOLDED: "it cost nothing at run time",
}


def load_verified(folder: Path) -> tuple[Results, ...]:
    """Every document in a folder (`<state_dir>/verified`); none where there is no such folder.

    Raises:
        ResultsError: a document cannot be used; the message names it.
    """
    return tuple(read_results(file) for file in sorted(folder.glob("*.json")))


def overlay(matrix: Matrix, results: Iterable[Results]) -> Matrix:
    """The matrix with what was verified in place of what was documented; `matrix` stays as it is.

    Of several runs on one host the newest counts, of several hosts the one with the lowest score:
    a pool is as good as its weakest member.
    """
    documents = sorted(results, key=lambda document: document.started)
    runs: dict[Key, dict[tuple[str, str], Run]] = {}
    for document in documents:
        for found in document.records:
            key = (found.domain, found.operator, found.version, document.target)
            runs.setdefault(key, {})[found.type, document.host.name] = (found, document)
    verified = [_cell(matrix, key, list(by_host.values())) for key, by_host in runs.items()]
    sources = {_source_id(document): document.provenance for document in documents}
    return Matrix([*_uncovered(matrix, runs), *verified], {**matrix.sources, **sources})


def _uncovered(matrix: Matrix, keys: Iterable[Key]) -> Iterator[Cell]:
    """The matrix's cells; facts without the versions that were verified."""
    versions: dict[tuple[str, str, Target], list[int]] = {}
    for domain, operator, version, target in keys:
        versions.setdefault((domain, operator, target), []).append(version)
    for cell in matrix:
        if cell.evidence is Evidence.PRACTITIONER:
            yield cell
        else:
            yield from _without(cell, sorted(versions.get((cell.domain, cell.operator, cell.target), ())))


def _without(cell: Cell, versions: Sequence[int]) -> Iterator[Cell]:
    """What is left of a cell's range of versions."""
    first = cell.first_version
    for version in filter(cell.covers, versions):
        if version > first:
            yield replace(cell, first_version=first, last_version=version - 1)
        first = version + 1
    if cell.last_version is None or first <= cell.last_version:
        yield replace(cell, first_version=first)


def _cell(matrix: Matrix, key: Key, runs: Sequence[Run]) -> Cell:
    domain, operator, version, target = key
    judgement = matrix.judge(domain, operator, version, target)
    documented = judgement.fact if judgement is not None else None
    decisive: dict[str, Run] = {}
    for run in runs:
        kind = run[0].type
        if kind not in decisive or score(run[0], documented) < score(decisive[kind][0], documented):
            decisive[kind] = run
    facts = {kind: _fact(*run, documented, matrix.sources) for kind, run in decisive.items()}
    # A type that was not run: fp32 speaks for it, or the best that is known.
    stands_for_all = "fp32" if "fp32" in facts else max(facts, key=lambda kind: facts[kind].score)
    documents = {_source_id(document): None for _, document in decisive.values()}
    return Cell(
        domain=domain,
        operator=operator,
        target=target,
        first_version=version,
        last_version=version,
        score=facts[stands_for_all].score,
        evidence=Evidence.MEASURED,
        sources=(*documents, *(documented.sources if documented else ())),
        limits=facts[stands_for_all].text,
        types=documented.types if documented else {},
        verified=facts,
    )


def score(record: Record, documented: Cell | None) -> int:
    """What a record makes of its operator variant, 0 to 5."""
    if record.execution is None or record.passed == 0 or any(failure.kind in _FATAL for failure in record.failures):
        return 0
    measured = _SCORES[record.execution]
    if record.failures:
        return min(3, measured)
    return 5 if measured == 4 and documented is not None and documented.score == 5 else measured


def _fact(record: Record, document: Results, documented: Cell | None, sources: Mapping[str, str]) -> TypeFact:
    """The score, and in words what was seen and which documented fact it overrides."""
    value = score(record, documented)
    says = "no source speaks of it"
    if documented is not None:
        said = documented.limits or ("it runs natively" if documented.score >= 3 else "it does not")
        says = f"documented was {documented.score}: {said} [{'; '.join(sources[id_] for id_ in documented.sources)}]"
        if value == documented.score and not record.failures:
            return TypeFact(value, documented.limits)
    return TypeFact(value, f"{document.provenance}, {record.type}: {_seen(record)}; {says}")


def _seen(record: Record) -> str:
    total = record.passed + record.failed + record.skipped
    passed = f"{record.passed} of {total} tests passed"
    how = f", {_WORDS[record.execution]}" if record.execution is not None and record.passed else ""
    return f"{passed}{how}{_first(record.failures)}"


def _first(failures: Sequence[CaseFailure]) -> str:
    """The gravest failure in words."""
    if not failures:
        return ""
    worst = min(failures, key=lambda failure: failure.kind not in _FATAL)
    return f", {worst.case} {worst.kind.replace('_', ' ')} ({worst.detail})"


def _source_id(document: Results) -> str:
    return f"verified-{document.host.name}-{document.target}-{document.started:%Y%m%dT%H%M%SZ}"
