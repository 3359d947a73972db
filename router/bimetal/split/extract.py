"""Cuts one segment out of a model, and writes models with their external data.

`onnx.utils.extract_model` would do for simple graphs. It follows the inputs of nodes only, so it
loses what bodies of If, Loop and Scan take from outside, and it refuses quantization annotations
and sparse initializers; a segment here is given by its nodes, none of which can get lost.
"""

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx.external_data_helper import load_external_data_for_tensor

from bimetal.operators.graph import Tensor
from bimetal.operators.onnx.file import external_tensors
from bimetal.operators.onnx.reader import read_names
from bimetal.split.cut_model import CutModel
from bimetal.split.errors import SplitError
from bimetal.split.plan import Segment
from bimetal.split.wire import onnx_type

_INITIALIZERS_APART = 4  # the first IR version whose initializers need not be inputs, too


def extract(model: CutModel, segment: Segment, name: str) -> onnx.ModelProto:
    """The segment as a model of its own; external data still lies where the whole model's does."""
    protos = model.protos[segment.start : segment.stop]
    graph, tensors = model.model.graph, model.tensors
    read = {name for proto in protos for name in read_names(proto)}
    inside = read | {name for proto in protos for name in proto.output}
    kept = onnx.GraphProto(
        name=name,
        node=protos,
        input=[_value_info(tensors[tensor]) for tensor in segment.inputs],
        output=[_value_info(tensors[tensor]) for tensor in segment.outputs],
        initializer=[tensor for tensor in graph.initializer if tensor.name in read],
        sparse_initializer=[tensor for tensor in graph.sparse_initializer if tensor.values.name in read],
        value_info=_inner(graph, inside - {*segment.inputs, *segment.outputs}),
        quantization_annotation=[note for note in graph.quantization_annotation if note.tensor_name in inside],
    )
    return onnx.ModelProto(
        graph=kept,
        ir_version=max(model.model.ir_version, _INITIALIZERS_APART),
        opset_import=model.model.opset_import,
        metadata_props=model.model.metadata_props,
        producer_name="bimetal model split",
    )


def _inner(graph: onnx.GraphProto, names: set[str]) -> Sequence[onnx.ValueInfoProto]:
    return [value for value in (*graph.value_info, *graph.output) if value.name in names]


def _value_info(tensor: Tensor) -> onnx.ValueInfoProto:
    # A size that the file leaves open is None here, and -1 in some exports.
    shape = [None if size == -1 else size for size in tensor.shape or ()]
    return onnx.helper.make_tensor_value_info(tensor.name, onnx_type(tensor), shape)


def write_model(model: onnx.ModelProto, data_folder: Path, file: Path) -> None:
    """Writes a model and checks it; weights that lay in other files lie in one beside it then.

    Args:
        data_folder: where the external data of `model` is; the tensors of `model` are filled from it.

    Raises:
        SplitError: ONNX's checker refuses what was written.
    """
    external = list(external_tensors(model))
    for tensor in external:
        load_external_data_for_tensor(tensor, str(data_folder))
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    file.parent.mkdir(parents=True, exist_ok=True)
    if external:
        onnx.save_model(model, file, save_as_external_data=True, location=f"{file.name}.data")
    else:
        onnx.save_model(model, file)
    try:
        onnx.checker.check_model(str(file))
    except onnx.checker.ValidationError as error:
        raise SplitError(
            f"{file}: ONNX's checker refuses this segment: {error}",
            "Check the whole model with onnx.checker; if it is well, report this as a bug.",
        ) from error
