"""`bimetal model`: what a model file holds and who should run it."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group

from router.operators.errors import ModelFileError
from router.operators.matrix import default_matrix
from router.operators.placement import place
from router.operators.profile import analyze as analyze_onnx
from router.operators.report import as_json, as_tree, torch_as_json, torch_as_tree
from router.operators.torch_file import is_zip, read_torch_file

model_app = typer.Typer(help="Look into model files.", no_args_is_help=True)


@model_app.callback()
def _model() -> None:
    """Keeps `analyze` a sub-command while it is the only one."""


@model_app.command()
def analyze(
    file: Annotated[Path, typer.Argument(help="an ONNX, torch.export or TorchScript file")],
    as_json_: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Show a model's operators with each vendor's score, and the verdict per provider with its reasons."""
    try:
        values, tree = _analysis(file)
    except ModelFileError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    if as_json_:
        typer.echo(json.dumps(values, indent=2))
    else:
        Console().print(tree)


def _analysis(file: Path) -> tuple[dict[str, Any], Group]:
    matrix = default_matrix()
    if is_zip(file):
        model = read_torch_file(file)
        return torch_as_json(model, matrix), torch_as_tree(model, matrix)
    profile = analyze_onnx(file)
    placement = place(profile, matrix)
    return as_json(profile, placement), as_tree(profile, placement)
