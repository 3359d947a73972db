"""`bimetal learn`: fold the measured times into lessons, offline, against the store."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bimetal.fleet.file import load_fleet
from bimetal.fleet.schema import Fleet
from bimetal.learning.documents import Lessons
from bimetal.learning.fold import LEAST_REQUESTS, Change, OperatorChange, compare, compare_operators, fold
from bimetal.learning.memory import Memory
from bimetal.learning.regret import regrets
from bimetal.state.event import Event
from bimetal.store.store import Store


def learn(
    fleet: Annotated[Path, typer.Option("--fleet", envvar="BIMETAL_FLEET", help="The fleet file.")] = Path(
        ".bimetal/fleet.yaml"
    ),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; write nothing.")] = False,
    revert: Annotated[
        int | None, typer.Option("--revert", metavar="VERSION", min=0, help="Go back to VERSION; 0: nothing learned.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Fold the week's measured service times into lessons and operator matrix: versioned, explained, reversible."""
    loaded = load_fleet(fleet)
    store = Store(loaded.database_url)
    try:
        answer = _next_version(loaded, Memory(store), time.time(), dry_run=dry_run, revert=revert)
    finally:
        store.close()
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
    else:
        _print(answer)


def _next_version(
    fleet: Fleet, memory: Memory, now: float, *, dry_run: bool = False, revert: int | None = None
) -> dict[str, Any]:
    """Make the next version of the lessons, and say what it changes; nothing is written if it changes nothing.

    Raises:
        BimetalError: there is no version `revert`.
        StoreError: the store cannot be read or written.
    """
    current, before = memory.lessons()
    statistics = memory.measured(now)
    after = fold(statistics, fleet, before, now) if revert is None else memory.lessons_of(revert)
    changes, operators = compare(before, after), compare_operators(before, after)
    reason = f"learned from {_requests(after)} requests" if revert is None else f"reverted to version {revert}"
    version = current
    if (changes or operators) and not dry_run:
        events = [Event(now, change.pool, "lesson", f"{_words(change)} ({reason})") for change in changes]
        events += [Event(now, each.target, "lesson", f"{_operator_words(each)} ({reason})") for each in operators]
        version = memory.save_lessons(after, reason, now, events)
    return {
        "version": version,
        "before": current,
        "dry_run": dry_run,
        "changes": [change._asdict() for change in changes],
        "operators": [change._asdict() for change in operators],
        "lessons": [lesson.model_dump() for lesson in after.times],
        "regret": [regret._asdict() for regret in regrets(statistics)],
    }


def _requests(lessons: Lessons) -> int:
    return round(sum(lesson.requests for lesson in lessons.times))


def _words(change: Change) -> str:
    arm = f"{change.model} in pool {change.pool}, {change.size_class} requests"
    return f"{arm}: {_time(change.before)} → {_time(change.after)}: {change.reason}"


def _operator_words(change: OperatorChange) -> str:
    return (
        f"{change.operator} on {change.target}: score {_score(change.before)} → {_score(change.after)}: {change.reason}"
    )


def _score(score: int | None) -> str:
    return "as documented" if score is None else str(score)


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.3g} ms"


def _print(answer: dict[str, Any]) -> None:
    console = Console()
    if answer["regret"]:
        console.print(_regret_table(answer["regret"]))
    if not answer["changes"] and not answer["operators"]:
        console.print(f"Nothing to change: version {answer['version']} stands.", highlight=False)
        console.print(f"A pool is learned once {LEAST_REQUESTS} of its requests were measured.", highlight=False)
        return
    table = Table(title="Lessons", title_justify="left")
    for column in ("model", "pool", "size class", "before", "after", "reason"):
        table.add_column(column, justify="right" if column in {"before", "after"} else "left")
    for change in answer["changes"]:
        names = (change["model"], change["pool"], change["size_class"])
        table.add_row(*names, _time(change["before"]), _time(change["after"]), change["reason"])
    if answer["changes"]:
        console.print(table)
    if answer["operators"]:
        console.print(_operator_table(answer["operators"]))
    if answer["dry_run"]:
        console.print("Nothing was written (--dry-run).")
    else:
        console.print(
            f"This is version {answer['version']}. To undo it: bimetal learn --revert {answer['before']}",
            highlight=False,
        )


def _operator_table(changes: list[dict[str, Any]]) -> Table:
    table = Table(title="Operator matrix", title_justify="left")
    for column in ("operator", "target", "before", "after", "reason"):
        table.add_column(column)
    for change in changes:
        scores = _score(change["before"]), _score(change["after"])
        table.add_row(change["operator"], change["target"], *scores, change["reason"])
    return table


def _regret_table(regrets: list[dict[str, Any]]) -> Table:
    table = Table(title="The week against the best fixed policy (all requests to the fastest)", title_justify="left")
    for column in ("model", "size class", "requests", "a request", "best fixed", "on", "regret"):
        table.add_column(column, justify="left" if column in {"model", "size class", "on"} else "right")
    for regret in regrets:
        table.add_row(
            regret["model"],
            regret["size_class"],
            str(regret["requests"]),
            _time(regret["seconds"]),
            _time(regret["best_seconds"]),
            regret["best_backend"],
            f"{regret['part']:.0%}",
        )
    return table
