"""Writes docs/reference/ from the code: `make docs`. tests/docs/test_reference.py compares."""

import argparse
import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
import yaml
from pydantic import BaseModel

import bimetal.cli.main
import bimetal.images.cli
from bimetal.cli.later import command_at
from bimetal.control.metrics import CircleCollector
from bimetal.fleet import schema, security, settings
from bimetal.model_repo.build import argument_parser

ROOT = Path(__file__).parents[1]
OUT = Path(__file__).parent / "reference"
_GENERATED = "<!-- Written by docs/generate.py (`make docs`): change the code, not this. -->\n"


def pages() -> dict[str, str]:
    """Text by file name."""
    made = {"fleet.md": _fleet(), "cli.md": _commands(), "metrics.md": _metrics(), "roles.md": _roles()}
    return {name: f"{_GENERATED}\n{text.rstrip()}\n" for name, text in made.items()}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)])


def _fleet() -> str:
    """Every key of the fleet file, section by section, in the order in which the whole file names them."""
    meanings = _attribute_docstrings(schema, security, settings)
    text = [
        "# The fleet file",
        "YAML, read once at start. An unknown key, a value out of its limits or a name that fits nothing is "
        "refused with file and line. Paths in `security` are absolute. Role `router` writes the file; `bimetal` "
        "looks for it in `--fleet`, `BIMETAL_FLEET`, `.bimetal/fleet.yaml`.",
    ]
    for where, model in _sections("", schema.Fleet):
        text.append(f"## {where or 'Top level'}")
        text.append(inspect.cleandoc(model.__doc__ or ""))
        rows = [
            (f"`{name}`", _type(field), _default(field), _meaning(meanings[model.__name__, name], field))
            for name, field in model.model_fields.items()
        ]
        text.append(_table(("key", "type", "default", "meaning"), rows))
    return "\n\n".join(text)


def _sections(where: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    yield where, model
    for name, field in model.model_fields.items():
        for inner in _models(field.annotation):
            many = {"models": "models.NAME", "pools": "pools.NAME", "backends": "backends[]", "devices": "devices[]"}
            yield from _sections(".".join(filter(None, (where, many.get(name, name)))), inner)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models(argument)


def _attribute_docstrings(*modules: Any) -> dict[tuple[str, str], str]:
    """(class, attribute) → the string that stands below the attribute."""
    found = {}
    for module in modules:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                for field, below in zip(node.body, node.body[1:], strict=False):
                    if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                        text = ast.literal_eval(below.value)
                        found[node.name, ast.unparse(field.target)] = " ".join(text.split())
    return found


_WORDS = {"str": "text", "Path": "path", "SecretStr": "URL", "IPv4Address": "IP address", "IPv6Address": "IP address"}


def _type(field: Any) -> str:
    if any(True for _ in _models(field.annotation)):
        return "section"
    return " or ".join(dict.fromkeys(_words(field.annotation)))


def _words(annotation: Any) -> Iterator[str]:
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        yield from map(str, arguments)
    elif get_origin(annotation) is Annotated:
        yield from _words(arguments[0])
    elif get_origin(annotation) is dict:
        yield f"{next(_words(arguments[1]))} by name"
    elif arguments:
        for argument in arguments:
            yield from _words(argument)
    elif annotation is not type(None):
        yield _WORDS.get(annotation.__name__, annotation.__name__)


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, BaseModel) or default in ({}, ()):
        return ""
    return "none" if default is None else f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _meaning(text: str, field: Any) -> str:
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    limits = [f"{word} {getattr(m, key)}" for m in field.metadata for key, word in words.items() if hasattr(m, key)]
    return f"{text} ({', '.join(limits)})" if limits else text


def _commands() -> str:
    text = ["# Commands", "Errors are one message and exit status 1 (2 for a word that is not known)."]
    for name, app in (("bimetal", bimetal.cli.main.app), ("bimetal-images", bimetal.images.cli.app)):
        text += [f"# `{name}`", *_command(name, typer.main.get_command(app))]
    rows = [
        (", ".join(f"`{word}`" for word in action.option_strings), _argument_help(action))
        for action in argument_parser()._actions
        if action.option_strings and action.dest != "help"
    ]
    text += ["# `python -m bimetal.model_repo.build`", _table(("option", "meaning"), rows)]
    return "\n\n".join(text)


def _argument_help(action: argparse.Action) -> str:
    return action.help or ""


def _command(name: str, command: Any) -> Iterator[str]:
    if hasattr(command, "commands"):
        for each, inner in command.commands.items():
            later = bimetal.cli.main.LATER.get(each) if name == "bimetal" else None
            yield from _command(f"{name} {each}", command_at(later[0]) if later else inner)
        return
    options = [each for each in command.params if each.param_type_name == "option"]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    given = " ".join(map(_placeholder, arguments))
    yield f"## `{f'{name} {given}'.strip()}`"
    yield " ".join((command.help or "").split())
    rows = [(f"`{_placeholder(each)}`", each.help) for each in arguments if each.help]
    rows += [(", ".join(f"`{word}`" for word in each.opts), _option_help(each)) for each in options]
    if rows:
        yield _table(("option", "meaning"), rows)


def _placeholder(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper().strip("{}")
    return name if argument.required else f"[{name}]"


def _option_help(option: Any) -> str:
    also = f" (also `{option.envvar}`)" if option.envvar else ""
    return (option.help or "") + also


def _metrics() -> str:
    nothing = SimpleNamespace(
        state=SimpleNamespace(observations={}),
        fleet=SimpleNamespace(backends=()),
        table=SimpleNamespace(routes={}),
        tally=SimpleNamespace(counts={}, entries=0),
        store_error=None,
    )
    silent = SimpleNamespace(connected=dict, rejections=0)
    router = [
        (f"`{family.name}{'_total' if family.type == 'counter' else ''}`", family.type, *_labels(family))
        for family in CircleCollector(nothing, silent).collect()  # type: ignore[arg-type]  # only names are asked for
    ]
    sys.path.insert(0, str(ROOT / "roles/gpu_probe/files"))
    textfile = importlib.import_module("gpu_probe.textfile")

    source = " ".join(inspect.getsource(textfile.render).split())
    probe = re.findall(r'_family\( ?"(\w+)", "(\w+)", "([^"]+)"', source)
    probe += [(name, "gauge", text) for name, text, *_ in textfile._GAUGES]
    probe += [(f"{kind}_total", "counter", text) for kind, text in textfile._EVENTS.items()]
    return "\n\n".join(
        [
            "# Metrics",
            "## Of the router, at `/metrics` of its HTTP port (8002)",
            _table(("metric", "type", "labels", "meaning"), router),
            "## Of the role gpu_probe, in node_exporter's textfile folder",
            "Gauges of one GPU have the labels `pci` and `vendor`; `info` also `name`, `uuid`, `architecture` and "
            "`kernel_driver`, `fault` also `kind`. Counters have `pci`, `xid_code_total` also `xid`. Of the first, "
            "`probe_collector_up` has `collector` and `devices` has `vendor`. A value that the vendor's tool does not "
            "give is left out.",
            _table(
                ("metric", "type", "meaning"),
                [(f"`{textfile.PREFIX}_{name}`", kind, text) for name, kind, text in probe],
            ),
        ]
    )


def _labels(family: Any) -> tuple[str, str]:
    return ", ".join(f"`{name}`" for name in getattr(family, "_labelnames", ())), family.documentation


def _roles() -> str:
    rows = []
    for file in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        role = file.parents[1].name
        main = yaml.safe_load(file.read_text())["argument_specs"]["main"]
        rows.append((f"[{role}](../../roles/{role}/README.md)", main["short_description"], str(len(main["options"]))))
    return "\n\n".join(
        [
            "# Roles",
            "Each README has the table of its role's variables with type, default and meaning, as "
            "`meta/argument_specs.yml` and `defaults/main.yml` have them: a test compares.",
            _table(("role", "what it does", "variables"), rows),
        ]
    )


def main() -> None:
    """Write every page."""
    OUT.mkdir(exist_ok=True)
    for name, text in pages().items():
        (OUT / name).write_text(text)
        print(OUT / name)


if __name__ == "__main__":
    main()
