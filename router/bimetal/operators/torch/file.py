"""The operator graph of a PyTorch file, read without torch and without running anything in it.

torch.export archives hold their graph as JSON with all shapes (`export`). TorchScript archives hold code and
pickled weights: the code is followed on descriptions of tensors (`script`).
"""

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from struct import unpack_from
from typing import Any

from bimetal.operators.errors import ModelFileError, NotFollowedError
from bimetal.operators.graph import Graph
from bimetal.operators.input_shapes import InputShapes, configured_shapes
from bimetal.operators.sizes import Dim, Sizes
from bimetal.operators.torch.archive import ClassCode, Code, Members, open_archive
from bimetal.operators.torch.export import read_exported
from bimetal.operators.torch.graph import Collector, plain_name
from bimetal.operators.torch.pickle import StoredTensor, Thing, read_pickle
from bimetal.operators.torch.script import Follower
from bimetal.operators.torch.value import Value, values

_CALL = re.compile(r"(?<![\w.])(?:torch|ops\.aten)\.([A-Za-z_]\w*)\(")
_NUMBERS = {"int64": "<q", "int32": "<i", "fp64": "<d", "fp32": "<f", "bool": "<?", "uint8": "<B", "int8": "<b"}
_SCRIPT = "TorchScript"


def read_torch_graph(file: Path, inputs: InputShapes | None = None) -> Graph:
    """The operators of a torch.export or TorchScript file.

    Args:
        inputs: shapes of a TorchScript file's inputs, by the names of forward's arguments or INPUT__0, ...

    Raises:
        ModelFileError: the file is neither, is damaged, is larger than the limits, or has no such input.
    """
    with open_archive(file) as members:
        programs = members.matching(r"models/[^/]+\.json") or members.matching(r"serialized_exported_program\.json")
        if programs:
            return read_exported(file, members.read(programs[0]))
        if not members.matching(r"code/.*\.py"):
            raise ModelFileError(
                f"{file} is a zip file without a graph; expected models/*.json (torch.export) or code/*.py "
                f"({_SCRIPT}).",
                "A state dict has only weights: save the model with torch.export.save or torch.jit.save.",
            )
        try:
            return _followed(file, members, inputs or {})
        except (NotFollowedError, RecursionError) as exc:
            return _as_written(file, members, str(exc) or type(exc).__name__)


def _followed(file: Path, members: Members, given: InputShapes) -> Graph:
    if "data.pkl" not in members:
        raise NotFollowedError("it has no data.pkl")
    root = read_pickle(f"{file}: data.pkl", members.read("data.pkl"))
    code = Code(str(file), members)
    found = code.class_(root.class_name) if isinstance(root, Thing) else None
    if found is None or "forward" not in found.methods:
        raise NotFollowedError("its model has no forward method in the archive")
    inputs = _inputs(file, members, found, given)
    collector = Collector(file)
    follower = Follower(code, collector, _constants(file, members), _paths(root))
    result = follower.call(root, "forward", list(inputs.values()))
    tensors = values(list(inputs.values()))
    notes = list(follower.notes)
    if open_ := [value.name for value in tensors if value.sizes.leading]:
        notes.insert(0, f"no shape is known of {', '.join(open_)}: its sizes count as one (--input NAME=SIZE,SIZE,...)")
    return collector.graph(
        _SCRIPT,
        inputs=[value.tensor for value in tensors],
        outputs=[value.tensor for value in values([result])],
        notes=notes,
    )


def _inputs(file: Path, members: Members, model: ClassCode, given: InputShapes) -> dict[str, Any]:
    """forward's arguments: tensors with the shapes that are known of them."""
    function = model.methods["forward"]
    names = [argument.arg for argument in function.args.args][1:]
    annotations = [_annotation(argument.annotation) for argument in function.args.args][1:]
    shapes = _known_shapes(file, names, given)
    traced = _traced_inputs(file, members)
    optional = len(names) - len(function.args.defaults)
    found: dict[str, Any] = {}
    for position, (name, kind) in enumerate(zip(names, annotations, strict=True)):
        example = traced[position] if position < len(traced) else None
        if name in shapes:
            found[name] = Value(name, shapes[name], example.type if example else None)
        elif isinstance(example, StoredTensor):
            # The model takes other sizes, too: they are open, and counted as in the example.
            sizes = (Dim(f"{name}{axis}", size) for axis, size in enumerate(example.sizes))
            found[name] = Value(name, Sizes(tuple(sizes)), example.type)
        elif position >= optional:
            break  # the default
        else:
            found[name] = (
                Value(name) if kind in {"Tensor", "Optional[Tensor]"} else Dim(name) if kind == "int" else None
            )
    return found


def _annotation(expression: Any) -> str:
    return "Tensor" if expression is None else ast.unparse(expression)


def _known_shapes(file: Path, names: list[str], given: InputShapes) -> Mapping[str, Sizes]:
    """The shapes that a person gave before those of the model's config.pbtxt."""
    by_position = {f"INPUT__{position}": name for position, name in enumerate(names)}
    unknown = [name for name in given if name not in names and name not in by_position]
    if unknown:
        raise ModelFileError(
            f"{file} has no input {unknown[0]!r}; its inputs are {', '.join(names)}.", "Name one of them."
        )
    shapes = {}
    for position, (name, sizes) in enumerate(configured_shapes(file)):
        ours = name if name in names else by_position.get(name, names[position] if position < len(names) else name)
        shapes[ours] = sizes
    return shapes | {by_position.get(name, name): sizes for name, sizes in given.items()}


def _traced_inputs(file: Path, members: Members) -> list[Any]:
    """The example inputs that torch.jit.trace kept; none in other files."""
    if "traced_inputs.pkl" not in members:
        return []
    examples = read_pickle(f"{file}: traced_inputs.pkl", members.read("traced_inputs.pkl"))
    found = examples.get("forward", []) if isinstance(examples, dict) else []
    tensors = found if isinstance(found, list | tuple) else []
    return [each if isinstance(each, StoredTensor) else None for each in tensors]


def _constants(file: Path, members: Members) -> list[Any]:
    if "constants.pkl" not in members:
        return []
    stored = read_pickle(f"{file}: constants.pkl", members.read("constants.pkl"))
    if not isinstance(stored, list | tuple):
        raise NotFollowedError("its constants are no list")
    return [_constant(members, each, position) for position, each in enumerate(stored)]


def _constant(members: Members, stored: Any, position: int) -> Any:
    if not isinstance(stored, StoredTensor):
        return stored
    number = None
    member = f"constants/{stored.key}"
    layout = _NUMBERS.get(stored.type or "")
    if stored.sizes == () and layout and member in members:
        number = unpack_from(layout, members.read(member, at_most=4096))[0]
    return Value(f"CONSTANTS.c{position}", Sizes(stored.sizes), stored.type, constant=True, number=number)


def _paths(root: Thing) -> dict[int, str]:
    """The attribute path of every module, by identity; a module that is used twice has the first."""
    paths = {id(root): ""}
    waiting = [root]
    while waiting:
        thing = waiting.pop()
        for name, value in thing.state.items():
            if isinstance(value, Thing) and id(value) not in paths:
                paths[id(value)] = f"{paths[id(thing)]}.{name}".removeprefix(".")
                waiting.append(value)
    return paths


def _as_written(file: Path, members: Members, why: str) -> Graph:
    """The operators as the code names them: without shapes, and without an order."""
    collector = Collector(file)
    for source in members.matching(r"code/.*\.py"):
        for operator in _CALL.findall(members.read(source).decode("utf-8", "replace")):
            collector.add(plain_name(operator, {}), {}, [])
    note = f"the code could not be followed ({why}): operators are counted as they are written, without shapes"
    return collector.graph(_SCRIPT, notes=[note])
