"""Reads the structure of an ONNX file: the graph without its weights, whoever made the file.

The file is walked once on the wire format and large tensor contents are left out before protobuf
sees them, so a 1 GB model costs a few megabytes. Everything that a hostile file could make grow
(nodes, nesting, function expansion) has a limit, and each refusal says what was expected.
"""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import DecodeError

from bimetal.operators.errors import ModelFileError
from bimetal.protobuf_wire import WireError, extent, varint, varint_bytes

PROTOBUF_LIMIT = 2**31 - 1  # bytes: protobuf, and so onnxruntime, reads no larger message
STRUCTURE_LIMIT = 256 * 2**20  # bytes of graph structure that we are willing to parse
FIELD_LIMIT = 2_000_000  # protobuf fields walked in Python, about two seconds of work
KEEP_BYTES = 4096  # tensors up to this size stay: shapes and axes are read from them

# Which fields of an ONNX message hold messages that can contain tensors (field numbers of onnx.proto).
_CHILDREN: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
_TENSOR_CONTENTS = frozenset({4, 5, 6, 7, 9, 10, 11})  # float_data ... raw_data
_GRAPH_ATTRIBUTES = frozenset({onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS})
_MAX_NESTING = 100  # protobuf's own limit


def load_structure(file: Path) -> onnx.ModelProto:
    """The model without large tensor contents; external data is checked, not read.

    Raises:
        ModelFileError: the file is missing, is no ONNX model, is too large, or names external data
            that is missing, too short or outside the model's folder.
    """
    model = _parse(file, _slim_bytes(file))
    _check_is_model(file, model)
    _check_text(file, model)
    for tensor in external_tensors(model):
        _check_external(file, tensor)
    return model


def _slim_bytes(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, 2)
            if size == 0:
                raise ModelFileError(f"{file} is empty; expected an ONNX model.", "Export or copy the model again.")
            if size > PROTOBUF_LIMIT:
                raise ModelFileError(
                    f"{file} has {size:,} bytes; an ONNX file can have at most {PROTOBUF_LIMIT:,}.",
                    "Save the weights as external data (onnx.save_model with save_as_external_data=True).",
                )
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
                return _Slimmer().slim(view, "model", 0)
    except OSError as exc:
        raise ModelFileError(f"{file} cannot be read: {exc.strerror}.", "Check the path and its permissions.") from exc
    except WireError as exc:
        raise ModelFileError(
            f"{file} is no ONNX model, or is cut short: {exc}; expected a serialized ModelProto.",
            "Export or copy the model again.",
        ) from exc


class _Slimmer:
    """Copies a message without large tensor contents; counts fields, so that work has a limit."""

    def __init__(self) -> None:
        self._fields_read = 0

    def slim(self, data: memoryview, message: str, depth: int) -> bytes:
        if depth > _MAX_NESTING:
            raise WireError(f"graphs are nested more than {_MAX_NESTING} deep")
        children = _CHILDREN[message]
        kept = bytearray()
        for number, start, payload, end in self._fields(data):
            length = end - payload
            if message == "tensor" and number in _TENSOR_CONTENTS and length > KEEP_BYTES:
                continue
            child = children.get(number)
            if child is None or length <= KEEP_BYTES:
                kept += data[start:end]
            else:
                with data[payload:end] as inner:
                    body = self.slim(inner, child, depth + 1)
                kept += varint_bytes(number << 3 | 2) + varint_bytes(len(body)) + body
            if len(kept) > STRUCTURE_LIMIT:
                raise WireError(f"its structure without weights is larger than {STRUCTURE_LIMIT:,} bytes")
        return bytes(kept)

    def _fields(self, data: memoryview) -> Iterator[tuple[int, int, int, int]]:
        """(field number, start of the field, start of its payload, end) of each field."""
        position, size = 0, len(data)
        while position < size:
            self._fields_read += 1
            if self._fields_read > FIELD_LIMIT:
                raise WireError(f"it has more than {FIELD_LIMIT:,} fields")
            start = position
            try:
                tag, payload = varint(data, position)
                payload, position = extent(data, tag & 7, payload)
            except IndexError as exc:
                raise WireError(f"a number in the field at byte {start} has no end") from exc
            if position > size:
                raise WireError(f"a field at byte {start} ends after the data")
            yield tag >> 3, start, payload, position


def _parse(file: Path, data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as exc:
        raise ModelFileError(
            f"{file} is no ONNX model: {exc}; expected a serialized ModelProto.", "Export or copy the model again."
        ) from exc
    return model


def _check_is_model(file: Path, model: onnx.ModelProto) -> None:
    if not model.HasField("graph") or not model.graph.output:
        raise ModelFileError(f"{file} has no graph with outputs; expected an ONNX model.", "Export the model again.")
    if not model.opset_import:
        raise ModelFileError(f"{file} imports no operator set; expected at least ai.onnx.", "Export the model again.")


def _check_text(file: Path, model: onnx.ModelProto) -> None:
    """Names must be UTF-8: protobuf gives others as bytes, which no later step could compare."""
    graphs: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    while graphs:
        graph = graphs.pop()
        texts: list[object] = [graph.name]
        if isinstance(graph, onnx.GraphProto):
            texts += [value.name for value in (*graph.input, *graph.output, *graph.value_info)]
            texts += [dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim]
            texts += [tensor.name for tensor in graph.initializer]
        for node in graph.node:
            texts += [node.name, node.op_type, node.domain, *node.input, *node.output]
            for attribute in node.attribute:
                texts.append(attribute.name)
                graphs += [attribute.g, *attribute.graphs] if attribute.type in _GRAPH_ATTRIBUTES else ()
        if wrong := next((text for text in texts if isinstance(text, bytes)), None):
            raise ModelFileError(f"{file}: the name {wrong!r} is no UTF-8 text.", "Export or copy the model again.")


def external_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of the model whose contents lie in another file."""
    graphs: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    while graphs:
        graph = graphs.pop()
        tensors = list(graph.initializer) if isinstance(graph, onnx.GraphProto) else []
        for node in graph.node:
            for attribute in node.attribute:
                tensors += [attribute.t, *attribute.tensors]
                graphs += [attribute.g, *attribute.graphs]
        yield from (tensor for tensor in tensors if tensor.data_location == onnx.TensorProto.EXTERNAL)


def _check_external(file: Path, tensor: onnx.TensorProto) -> None:
    """The other file must lie in the model's folder (onnxruntime asks the same) and be long enough."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    what = f"{file}: tensor {tensor.name!r} has its data in {location!r}"
    folder = file.parent.resolve()
    if (
        not location
        or PurePosixPath(location).is_absolute()
        or not (folder / location).resolve().is_relative_to(folder)
    ):
        raise ModelFileError(
            f"{what}; expected a relative path inside the model's folder.",
            "Save the model again with its data beside it.",
        )
    path = folder / location
    if not os.path.isfile(path):  # also False, and no error, in a folder that may not be read
        raise ModelFileError(f"{what}, which is missing; expected it at {path}.", "Copy it beside the model.")
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or 0)
    except ValueError as exc:
        raise ModelFileError(f"{what} at an offset or length that is no number.", "Save the model again.") from exc
    if offset < 0 or length < 0 or offset + length > path.stat().st_size:
        raise ModelFileError(
            f"{what}, bytes {offset}-{offset + length}, but that file has {path.stat().st_size:,} bytes.",
            "Copy the data file again.",
        )
