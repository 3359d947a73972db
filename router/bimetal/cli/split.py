"""`bimetal model split`: cut a model for a mixed cluster where that pays."""

import json
import re
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from bimetal.operators.matrix.matrix import default_matrix
from bimetal.split.costs import COPY_SECONDS_PER_BYTE, HOP_SECONDS, LINK_GBPS, Link
from bimetal.split.cut_model import read_cut_model
from bimetal.split.plan import plan_split
from bimetal.split.report import as_json, as_tables
from bimetal.split.repository import Serving, write_split

_TARGETS = "CUDAExecutionProvider,MIGraphXExecutionProvider"


def split(
    file: Annotated[Path, typer.Argument(help="an ONNX file")],
    *,
    out: Annotated[Path, typer.Option(help="a new folder; it gets a model repository per pool")],
    targets: Annotated[str, typer.Option(help="execution providers, with commas between")] = _TARGETS,
    link_gbps: Annotated[
        float, typer.Option(min=0.001, help="rate of the network between servers, Gbit/s")
    ] = LINK_GBPS,
    hop_ms: Annotated[float, typer.Option(min=0, help="one call through the gateway, ms")] = HOP_SECONDS * 1e3,
    force: Annotated[int | None, typer.Option(help="cut into that many segments even if it does not pay")] = None,
    name: Annotated[str | None, typer.Option(help="the whole model's name; the file's without it")] = None,
    gateway: Annotated[str, typer.Option(help="host:port of the gateway's gRPC")] = Serving.gateway,
    compute: Annotated[Literal["gpu", "cpu"], typer.Option(help="what the pools compute on")] = Serving.compute,
    max_batch_size: Annotated[int, typer.Option(min=0, help="requests per batch of the pipeline")] = 0,
    retry_after_s: Annotated[float, typer.Option(help="the whole model answers so long after an outage")] = (
        Serving.retry_after_s
    ),
    json_: Annotated[bool, typer.Option("--json", help="print the plan as JSON")] = False,
) -> None:
    """Cut a model into segments for different vendors, where that is faster than the whole on one.

    Writes the segments, the whole model and a pipeline that calls them; nothing when a cut does not pay.
    """
    model = read_cut_model(file)
    link = Link(link_gbps, hop_ms / 1e3, COPY_SECONDS_PER_BYTE)
    plan = plan_split(model, [target.strip() for target in targets.split(",")], link, default_matrix(), force=force)
    written: list[Path] = []
    if plan.split:
        serving = Serving(name or _triton_name(file), gateway, compute, max_batch_size, retry_after_s)
        written = write_split(model, plan, serving, out)
    if json_:
        typer.echo(json.dumps(as_json(model, plan) | {"written": [str(folder) for folder in written]}, indent=2))
    else:
        console = Console(highlight=False)
        for line in (*as_tables(model, plan), *(f"wrote {folder}" for folder in written)):
            console.print(line, soft_wrap=isinstance(line, str))  # a path is copied whole


def _triton_name(file: Path) -> str:
    """The file's name without what a Triton model or a URL cannot have in its name."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", file.stem)
