"""Makes a model's structure ready to be walked: names checked, functions inlined, shapes inferred."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import inliner, shape_inference

from bimetal.operators.errors import ModelFileError
from bimetal.operators.graph import NODE_LIMIT
from bimetal.operators.sizes import ASSUMED_BATCH, ASSUMED_LENGTH

_EXPORT_AGAIN = "Export the model again."


@dataclass(frozen=True)
class Prepared:
    """The same model twice: with its symbolic shapes, and with sizes assumed for dynamic ones.

    `notes` says in words what had to be left out.
    """

    symbolic: onnx.ModelProto
    assumed: onnx.ModelProto
    opsets: Mapping[str, int]
    notes: tuple[str, ...]


def prepare(file: Path, model: onnx.ModelProto) -> Prepared:
    """Checks the domains, inlines local functions and infers shapes.

    Raises:
        ModelFileError: a node's domain is not imported, functions call each other in a circle, or
            the model is too large once they are expanded.
    """
    count = _expanded_size(file, model)
    if count > NODE_LIMIT:
        raise ModelFileError(f"{file} has {count:,} nodes; at most {NODE_LIMIT:,} are analysed.", "Split the model.")
    notes: list[str] = []
    if model.functions:
        model = _inlined(file, model)
    _check_domains(file, model)
    symbolic, note = _with_shapes(model)
    notes += note
    assumed, _ = _with_shapes(_with_assumed_inputs(model))
    return Prepared(symbolic, assumed, _opsets(model), tuple(notes))


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    """The imported version of each domain; ONNX's own domain goes by its long name."""
    return {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}


def _check_domains(file: Path, model: onnx.ModelProto) -> None:
    opsets = _opsets(model)
    for node in _nodes(model.graph.node):
        if (node.domain or "ai.onnx") not in opsets:
            raise ModelFileError(
                f"{file}: node {node.name or node.op_type!r} uses domain {node.domain or 'ai.onnx'!r}, "
                "which the model does not import; expected it among the opset imports.",
                _EXPORT_AGAIN,
            )


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterable[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(attribute.g.node)
            for graph in attribute.graphs:
                yield from _nodes(graph.node)


def _expanded_size(file: Path, model: onnx.ModelProto) -> int:
    """Nodes after every local function is put in place; a function may call others many times."""
    functions = {(function.domain, function.name): function for function in model.functions}
    sizes: dict[tuple[str, str], int | None] = {}

    def size_of(nodes: Iterable[onnx.NodeProto]) -> int:
        total = 0
        for node in _nodes(nodes):
            key = (node.domain, node.op_type)
            total += 1 if key not in functions else size_of_function(key)
        return total

    def size_of_function(key: tuple[str, str]) -> int:
        if key not in sizes:
            sizes[key] = None
            sizes[key] = size_of(functions[key].node)
        size = sizes[key]
        if size is None:
            raise ModelFileError(
                f"{file}: function {key[1]!r} calls itself; expected functions without a cycle.", _EXPORT_AGAIN
            )
        return size

    try:
        return size_of(model.graph.node)
    except RecursionError as exc:
        raise ModelFileError(f"{file}: functions are nested too deep to follow.", _EXPORT_AGAIN) from exc


def _inlined(file: Path, model: onnx.ModelProto) -> onnx.ModelProto:
    try:
        return inliner.inline_local_functions(model, convert_version=True)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as exc:
        raise ModelFileError(f"{file}: its local functions cannot be inlined ({exc}).", _EXPORT_AGAIN) from exc


def _with_shapes(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """The model with inferred shapes; as it is, with a note, where inference gives up."""
    try:
        return shape_inference.infer_shapes(model, data_prop=True), []
    except (RuntimeError, ValueError, onnx.shape_inference.InferenceError) as exc:
        return model, [f"shapes could not be inferred ({str(exc).splitlines()[0]})"]


def _with_assumed_inputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose inputs have the assumed size where the file leaves one open."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    for value in copy.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    for value in copy.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") or dim.dim_value <= 0:
                dim.dim_value = ASSUMED_BATCH if axis == 0 else ASSUMED_LENGTH
    return copy
