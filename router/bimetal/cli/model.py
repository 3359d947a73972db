"""`bimetal model`: what a model file holds and who should run it."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bimetal.cli.split import split
from bimetal.fleet.file import load_fleet
from bimetal.learning.cluster_matrix import cluster_matrix
from bimetal.operators.errors import ModelFileError
from bimetal.operators.input_shapes import parse_shapes
from bimetal.operators.matrix.matrix import default_matrix
from bimetal.operators.placement import place
from bimetal.operators.profile import analyze as analyze_file
from bimetal.operators.report import as_json, as_tree

model_app = typer.Typer(help="Look into model files.", no_args_is_help=True)


model_app.command()(split)


@model_app.command()
def analyze(
    file: Annotated[Path, typer.Argument(help="an ONNX, torch.export or TorchScript file")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=SIZE,SIZE,...", help="the shape of a TorchScript file's input"),
    ] = None,
    fleet: Annotated[
        Path | None,
        typer.Option("--fleet", help="a fleet file: what that cluster verified and learned counts, too"),
    ] = None,
    as_json_: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Show a model's operators with each vendor's score, and the verdict per provider with its reasons."""
    try:
        profile = analyze_file(file, parse_shapes(inputs or []))
    except ModelFileError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    placement = place(profile, default_matrix() if fleet is None else cluster_matrix(load_fleet(fleet)))
    if as_json_:
        typer.echo(json.dumps(as_json(profile, placement), indent=2))
    else:
        Console().print(as_tree(profile, placement))
