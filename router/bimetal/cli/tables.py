"""The CLI's tables: the same facts as `--json`, for people."""

from collections.abc import Iterator
from typing import Any

from rich.markup import escape
from rich.table import Table

_COLOUR = {"Healthy": "green", "Degraded": "yellow", "Isolated": "red", "Faulted": "bold red"}
_FULL_WIDTH_OF_BAR = 10
FACTORS = ("operators", "bandwidth", "temperature", "load", "breaker", "measured")


def status_tables(status: dict[str, Any]) -> Iterator[Table | str]:
    """One table of backends, one of models with a column per backend."""
    backends = Table(title="Backends", title_justify="left")
    for column in ("backend", "pool", "vendor", "computes on", "breaker", "reachable", "models"):
        backends.add_column(column)
    for b in status["backends"]:
        colour = _COLOUR[b["state"]]
        reachable = "yes" if b["ready"] else f"[red]no: {escape(b['error'])}[/red]"
        computes = b["compute"] if b["compute"] == "gpu" or b["vendor"] == "cpu" else f"{b['compute']} (emulated)"
        models = str(len(b["models"]))
        marks = [mark for mark in ("drained", "stopping") if b[mark]]
        state = ", ".join([f"[{colour}]{b['state']}[/{colour}]", *marks])
        backends.add_row(b["name"], b["pool"], b["vendor"], computes, state, reachable, models)
    yield backends
    names = [b["name"] for b in status["backends"]]
    models_table = Table(title="Shares of each model's traffic", title_justify="left")
    models_table.add_column("model")
    for name in names:
        models_table.add_column(name, justify="right")
    for model in status["models"]:
        models_table.add_row(model["name"], *(_share(model["shares"].get(name)) for name in names))
    yield models_table
    if not status["store"]["ok"]:
        yield f"[red]The state store is down; the router goes on from memory.[/red] {escape(status['store']['error'])}"


def _share(share: float | None) -> str:
    """A missing home is a dash, which is not 0 %."""
    if share is None:
        return "-"
    bar = "█" * round(share * _FULL_WIDTH_OF_BAR)
    return f"{bar} {share:4.0%}" if share else "0%"


def explanation_tables(explanation: dict[str, Any], most_reasons: int = 3) -> Iterator[Table | str]:
    """A table of factors and shares, then the reasons of each backend in words, the weightiest first."""
    stateful = " (stateful: sequences stay on one backend)" if explanation["stateful"] else ""
    table = Table(title=f"{explanation['model']}{stateful}", title_justify="left")
    table.add_column("backend")
    for column in ("score", *FACTORS, "share"):
        table.add_column(column, justify="right")
    for b in explanation["backends"]:
        score = "unknown" if b["score"] is None else f"{b['score']} of 5"
        factors = (f"{b['factors'][name]:g}" if b["factors"] else "-" for name in FACTORS)
        table.add_row(b["name"], score, *factors, f"{b['share']:.0%}")
    yield table
    for b in explanation["backends"]:
        yield f"\n[bold]{b['name']}[/bold] ({b['provider']})"
        for reason in b["reasons"][:most_reasons]:
            yield f"  - {escape(reason)}"
        hidden = len(b["reasons"]) - most_reasons
        if hidden > 0:
            yield f"  and {hidden} more with --json"
