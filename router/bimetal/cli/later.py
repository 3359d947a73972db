"""Commands whose modules are imported when they run: onnx and the gateway's messages take a second to load."""

import importlib
from typing import Any

import typer

_AS_GIVEN = {"allow_extra_args": True, "ignore_unknown_options": True}


def add_later(app: typer.Typer, name: str, where: str, help_: str) -> None:
    """A command that hands its arguments, `--help` too, to the one at `where`.

    Args:
        where: "module:attribute", a function or a Typer app.
        help_: the first line of that one's help.
    """

    @app.command(name, help=help_, add_help_option=False, context_settings=_AS_GIVEN)
    def run(context: typer.Context) -> None:
        command_at(where).main(args=list(context.args), prog_name=context.command_path)


def command_at(where: str) -> Any:
    """The command, as typer builds it from a function or an app."""
    module, _, attribute = where.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(add_completion=False)
    alone.command()(found)
    return typer.main.get_command(alone)
