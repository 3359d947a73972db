"""The CLI's tables: the same facts as `--json`, for people."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table

_COLOUR = {"Healthy": "green", "Degraded": "yellow", "Isolated": "red", "Faulted": "bold red"}
_FULL_WIDTH_OF_BAR = 10


def status_tables(status: dict[str, Any]) -> Iterator[Table | str]:
    """One table of backends, one of models with a column per backend."""
    backends = Table(title="Backends", title_justify="left")
    for column in ("backend", "pool", "vendor", "computes on", "breaker", "reachable", "models"):
        backends.add_column(column)
    for b in status["backends"]:
        colour = _COLOUR[b["state"]]
        reachable = "yes" if b["ready"] else f"[red]no: {b['error']}[/red]"
        computes = b["compute"] if b["compute"] == "gpu" or b["vendor"] == "cpu" else f"{b['compute']} (emulated)"
        models = str(len(b["models"]))
        state = f"[{colour}]{b['state']}[/{colour}]"
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
        yield f"[red]The state store is down; the router goes on from memory.[/red] {status['store']['error']}"


def _share(share: float | None) -> str:
    """A missing home is a dash, which is not 0 %."""
    if share is None:
        return "-"
    bar = "█" * round(share * _FULL_WIDTH_OF_BAR)
    return f"{bar} {share:4.0%}" if share else "0%"


def explanation_tables(explanation: dict[str, Any]) -> Iterator[Table]:
    """One table: a row per backend, its factors and the reasons in words."""
    stateful = " (stateful: sequences stay on one backend)" if explanation["stateful"] else ""
    table = Table(title=f"{explanation['model']}{stateful}", title_justify="left", show_lines=True)
    for column in ("backend", "provider", "score", "factors", "share", "why"):
        table.add_column(column)
    for b in explanation["backends"]:
        score = "unknown" if b["score"] is None else f"{b['score']} of 5"
        factors = "\n".join(f"{name} {value:g}" for name, value in b["factors"].items()) or "-"
        table.add_row(b["name"], b["provider"], score, factors, f"{b['share']:.0%}", "\n".join(b["reasons"]))
    yield table
