"""The command line: `bimetal …`. The commands here ask a running router; the others are imported when they run."""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType

from bimetal.cli.admin_client import AdminClient
from bimetal.cli.fleet_option import DEFAULT_FLEET, FleetOption
from bimetal.cli.later import add_later
from bimetal.cli.tables import explanation_tables, status_tables
from bimetal.errors import BimetalError
from bimetal.fleet.file import load_fleet

app = typer.Typer(no_args_is_help=True, add_completion=False, help="NVIDIA and AMD GPU servers as one Triton.")
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
LATER = {
    "run": ("bimetal.cli.processes:run", "Run the router in the foreground until SIGTERM."),
    "gateway": ("bimetal.cli.processes:gateway", "Run the Envoy gateway in the foreground, in place of this process."),
    "client-bootstrap": (
        "bimetal.cli.processes:write_client_bootstrap",
        "Write the bootstrap of proxyless clients and print the line that makes a client use it.",
    ),
    "model": ("bimetal.cli.model:model_app", "Look into model files."),
    "ops": ("bimetal.cli.ops:ops_app", "Verify operators on this host."),
    "learn": (
        "bimetal.cli.learn:learn",
        "Fold the week's measured service times into lessons and operator matrix: versioned, explained, reversible.",
    ),
    "calibrate": (
        "bimetal.cli.calibrate:calibrate",
        "Measure GEMM, memory bandwidth and PCIe bandwidth of every GPU with torch, or the CPU where there is none.",
    ),
}
for _name, (_where, _help) in LATER.items():
    add_later(app, _name, _where, _help)


@app.command()
def status(fleet: FleetOption = DEFAULT_FLEET, as_json: JsonOption = False) -> None:
    """Show backends, breaker states, models and their shares."""
    _show(AdminClient(load_fleet(fleet)).status(), as_json, status_tables)


@app.command()
def explain(model: str, fleet: FleetOption = DEFAULT_FLEET, as_json: JsonOption = False) -> None:
    """Show why each backend gets the share of MODEL that it gets."""
    _show(AdminClient(load_fleet(fleet)).explain(model), as_json, explanation_tables)


@app.command()
def clear(backend: str, fleet: FleetOption = DEFAULT_FLEET) -> None:
    """Declare BACKEND well: its breaker becomes Healthy, whatever it was (also Faulted)."""
    AdminClient(load_fleet(fleet)).tell(backend, "clear")
    typer.echo(f"{backend} is Healthy again.")


@app.command()
def drain(backend: str, fleet: FleetOption = DEFAULT_FLEET) -> None:
    """Send BACKEND no new requests, so that it can be stopped; those in flight finish."""
    AdminClient(load_fleet(fleet)).tell(backend, "drain")
    typer.echo(f"{backend} gets no new requests.")


@app.command()
def undrain(backend: str, fleet: FleetOption = DEFAULT_FLEET) -> None:
    """Give BACKEND its share again."""
    AdminClient(load_fleet(fleet)).tell(backend, "undrain")
    typer.echo(f"{backend} gets its share again.")


def _show(answer: dict[str, Any], as_json: bool, tables: Callable[[dict[str, Any]], Iterable[RenderableType]]) -> None:
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
    else:
        Console().print(*tables(answer), sep="\n")


def main() -> None:
    """The console script: an error of ours is one message and exit code 1, never a traceback."""
    try:
        app()
    except BimetalError as error:
        Console(stderr=True).print(f"[red]error:[/red] {error}", highlight=False, soft_wrap=True)
        sys.exit(1)
