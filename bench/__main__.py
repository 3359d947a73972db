"""`make bench`: measures a running cluster and prints ratios beside their targets."""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.analysis import analysis_seconds
from bench.decision import BACKENDS, MODELS, decision_ms
from bench.paths import CLIENTS, median_latency_us, require_h2load, throughput, write_request
from bench.plain_envoy import plain_envoy
from bench.rounds import in_turn
from bimetal.errors import BimetalError
from bimetal.files import write_whole
from bimetal.fleet.file import load_fleet
from bimetal.fleet.schema import Fleet
from bimetal.gateway.bootstrap import client_bootstrap

_PLAIN_PORT = 18990


@dataclass(frozen=True)
class Result:
    """One comparison; `figures` are medians, `value` is what the target speaks of."""

    what: str
    figures: dict[str, float]
    value: float
    target: str
    met: bool


def latency(fleet: Fleet, rounds: int) -> Result:
    """Proxyless against direct: one client, one request at a time."""
    measures = {
        # Over all backends in turn, as the others do: one Triton alone would keep the processor's caches to itself.
        "direct µs": median_latency_us(*(b.grpc_address for b in fleet.backends)),
        "proxyless µs": median_latency_us("xds:///identity"),
        "gateway µs": median_latency_us(f"127.0.0.1:{fleet.gateway.grpc_port}"),
    }
    figures = in_turn(measures, rounds)
    ratio = figures["proxyless µs"] / figures["direct µs"]
    return Result("p50 of proxyless / direct", figures, ratio, "≤ 1.05", ratio <= 1.05)


def rate(fleet: Fleet, rounds: int) -> Result:
    """Gateway against plain Envoy: 16 clients."""
    with tempfile.TemporaryDirectory() as folder, plain_envoy(fleet, _PLAIN_PORT) as port:
        body = write_request(Path(folder) / "request")
        measures = {
            "plain Envoy req/s": throughput(port, body),
            "gateway req/s": throughput(fleet.gateway.grpc_port, body),
            "direct (one Triton) req/s": throughput(fleet.backends[0].grpc_port, body),
        }
        figures = in_turn(measures, rounds)
    ratio = figures["gateway req/s"] / figures["plain Envoy req/s"]
    what = f"throughput of gateway / plain Envoy, {CLIENTS} clients"
    return Result(what, figures, ratio, "≥ 0.90", ratio >= 0.90)


def decision() -> Result:
    """How long a change takes to become resources."""
    taken = decision_ms()
    what = f"table and resources for {MODELS} models x {BACKENDS} backends, ms"
    return Result(what, {"ms": taken}, taken, "< 50", taken < 50)


def analysis() -> Result:
    """How long a model of BERT-Large's size takes to be judged."""
    taken, size = analysis_seconds()
    what = "bimetal model analyze of a BERT-Large with 1.2 GB of weights, s"
    return Result(what, {"s": taken, "file MB": size / 1e6}, taken, "< 10", taken < 10)


def main(
    fleet: Annotated[Path, typer.Option(envvar="BIMETAL_FLEET")] = Path(".bimetal/fleet.yaml"),
    rounds: Annotated[int, typer.Option(help="Rounds of each comparison.")] = 5,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Measure direct, proxyless, gateway and plain Envoy in turn on the running cluster."""
    require_h2load()
    loaded = load_fleet(fleet)
    bootstrap = loaded.state_dir / "client-bootstrap.json"
    write_whole(bootstrap, json.dumps(client_bootstrap(loaded)))
    os.environ["GRPC_XDS_BOOTSTRAP"] = str(bootstrap)
    console = Console(stderr=True)
    parts: dict[str, Callable[[], Result]] = {
        "latency": lambda: latency(loaded, rounds),
        "throughput": lambda: rate(loaded, rounds),
        "decision": decision,
        "analysis": analysis,
    }
    results = []
    for title, measure in parts.items():
        with console.status(f"measuring {title} …"):
            results.append(measure())
    if as_json:
        typer.echo(json.dumps([asdict(r) for r in results], indent=2, ensure_ascii=False))
    else:
        Console().print(_table(results))


def _table(results: list[Result]) -> Table:
    table = Table(title="Medians of one run; ratios, not seconds, are comparable between machines")
    for column in ("what", "medians", "value", "target", ""):
        table.add_column(column)
    for r in results:
        medians = "\n".join(f"{name}: {value:,.1f}" for name, value in r.figures.items())
        table.add_row(r.what, medians, f"{r.value:.3f}", r.target, "met" if r.met else "missed")
    return table


if __name__ == "__main__":
    try:
        typer.run(main)
    except BimetalError as error:
        sys.exit(f"error: {error}")
