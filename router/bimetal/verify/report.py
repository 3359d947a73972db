"""A verification for people: a progress bar while it runs, tables at its end."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bimetal.operators.verdict import operator_label
from bimetal.verify.results import Execution, FailureKind, Record, Results

_NO_TRANSFER = {
    "no_device": "{} copies nothing to a device",
    "unavailable": "This onnxruntime cannot place tensors on the device of {}",
}
_OUTCOMES = ("passed", "partly", "failed")


@contextmanager
def progress(operators: int, console: Console) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal, nothing elsewhere; gives what to call with each operator that is done."""
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=operators)
        yield lambda label: bar.update(task, advance=1, description=escape(label))


def summary(results: Results) -> Iterator[RenderableType]:
    """Counts per type, then what failed beyond types without a kernel, then operators and tests in one line."""
    yield _counts(results)
    failed = [record for record in results.records if record.failures and not _only_lacks_a_type(record)]
    yield from map(_failure, failed)
    yield _in_one_line(results)
    if results.transfer != "measured":
        yield f"{_NO_TRANSFER[results.transfer].format(results.provider)}: there are no transfer times."


def _only_lacks_a_type(record: Record) -> bool:
    refused = all(failure.kind is FailureKind.REFUSED for failure in record.failures)
    return record.origin == "derived" and not record.passed and refused


def _in_one_line(results: Results) -> str:
    """About ONNX's own tests only: derived ones would count an operator for each type that it lacks."""
    own = [record for record in results.records if record.origin == "onnx"]
    passed: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for record in own:
        passed[record.domain, record.operator] += record.passed
        failed[record.domain, record.operator] += record.failed + record.skipped
    all_passed = sum(not failed[operator] for operator in failed)
    none_passed = sum(not passed[operator] for operator in passed)
    return (
        f"{len(passed)} operators: {all_passed} passed all of ONNX's tests, "
        f"{len(passed) - all_passed - none_passed} some, {none_passed} none; "
        f"{passed.total()} of {passed.total() + failed.total()} tests passed. "
        f"{len(results.records)} variants in {results.duration_seconds:.0f} s, {escape(results.provenance)}."
    )


def _counts(results: Results) -> Table:
    table = Table(
        title=f"{results.target} ({results.provider}): operator variants", title_justify="left", box=box.SIMPLE_HEAD
    )
    seen = [execution for execution in Execution if any(record.execution is execution for record in results.records)]
    table.add_column("type", no_wrap=True)
    for column in (*_OUTCOMES, *seen):
        table.add_column(column, justify="right")
    for kind, records in _by_type(results.records):
        outcomes = Counter(_outcome(record) for record in records)
        executions = Counter(record.execution for record in records if record.passed)
        counts = [*(outcomes[name] for name in _OUTCOMES), *(executions[execution] for execution in seen)]
        table.add_row(kind, *map(str, counts))
    return table


def _by_type(records: Iterable[Record]) -> Iterator[tuple[str, list[Record]]]:
    types: dict[str, list[Record]] = {}
    for record in records:
        types.setdefault(record.type, []).append(record)
    yield from sorted(types.items(), key=lambda pair: -len(pair[1]))


def _outcome(record: Record) -> str:
    if not record.failures:
        return "passed"
    return "partly" if record.passed else "failed"


def _failure(record: Record) -> str:
    label = operator_label(record.domain, record.operator, record.version)
    total = record.passed + record.failed + record.skipped
    first = record.failures[0]
    what = f"{first.case} {first.kind.replace('_', ' ')}: {first.detail}"
    return f"[red]{escape(label)} {record.type}[/red]: {record.failed} of {total} failed; {escape(what)}"
