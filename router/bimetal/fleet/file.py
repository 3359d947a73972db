"""Reading a fleet file: what is wrong with one is said with file, line and key."""

from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bimetal.errors import FleetFileError
from bimetal.fleet.schema import Fleet


def load_fleet(path: Path) -> Fleet:
    """Read and validate a fleet file.

    Raises:
        FleetFileError: it cannot be read, is not YAML, does not fit, or would open an unprotected port to the network;
            names file, line and key.
    """
    next_step = "Correct it, or render it again with `make up`."
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FleetFileError(f"{path}: the fleet file cannot be read: {error}.", next_step) from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise FleetFileError(f"{path}{line}: not valid YAML: {problem}.", next_step) from error
    if not isinstance(data, Mapping):
        raise FleetFileError(f"{path}:1: expected a mapping with version, pools and backends.", next_step)
    try:
        fleet = Fleet.model_validate(data)
    except ValidationError as error:
        lines = [_describe(path, node, e) for e in error.errors()]
        raise FleetFileError("\n".join(lines), next_step) from error
    unsafe = [f"{path}:{_line_of(node, gap.key)}: {_dotted(gap.key)}: {gap.text}." for gap in fleet.unsafe()]
    if unsafe:
        raise FleetFileError("\n".join(unsafe), next_step)
    return fleet


def point_at(path: Path, key: tuple[str | int, ...]) -> str:
    """`path:line: key` of a fleet file that has been loaded."""
    node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    return f"{path}:{_line_of(node, key)}: {_dotted(key)}"


def _dotted(key: tuple[str | int, ...]) -> str:
    return ".".join(str(part) for part in key)


def _describe(path: Path, node: yaml.Node | None, error: ErrorDetails) -> str:
    where = _dotted(error["loc"]) or "the file as a whole"
    # What stands in the security section may be a secret that belongs into a file of its own.
    # So may a URL, whatever its key was meant to be.
    hidden = (
        error["type"] in {"missing", "value_error"}
        or error["loc"][:1] in {("security",), ("store_url",)}
        or "://" in str(error["input"])
    )
    shown = "" if hidden else f", not {error['input']!r}"
    return f"{path}:{_line_of(node, error['loc'])}: {where}: {error['msg']}{shown}."


def _line_of(node: yaml.Node | None, loc: tuple[str | int, ...]) -> int:
    """The 1-based line of the deepest YAML node on the way to `loc`."""
    line = node.start_mark.line + 1 if node else 1
    for part in loc:
        step: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    line, step = key.start_mark.line + 1, value
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            step = node.value[part]
            line = step.start_mark.line + 1
        if step is None:
            break
        node = step
    return line
