"""Does ``model.yml`` declare what the ONNX file has? Asked at build time, where the answer is a sentence."""

import onnx
from onnx import TensorProto, ValueInfoProto

from bimetal.model_repo.errors import SourceError
from bimetal.model_repo.sources import ModelSource, Tensor

_ELEMENT_TYPES = {
    "BOOL": TensorProto.BOOL,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
    **{f"{sign}INT{bits}": getattr(TensorProto, f"{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64)},
}


def check_signature(model: ModelSource, onnx_file: bytes) -> None:
    """Raise SourceError, with a line per difference, unless names, types, ranks and fixed sizes agree."""
    graph = onnx.load_model_from_string(onnx_file).graph
    constants = {initializer.name for initializer in graph.initializer}
    inputs = {value.name: value for value in graph.input if value.name not in constants}
    outputs = {value.name: value for value in graph.output}
    problems = [
        *_differences(model, "inputs", model.inputs, inputs),
        *_differences(model, "outputs", model.outputs, outputs),
        *(
            f"inputs: expected {name!r} too, which the ONNX model needs"
            for name in inputs.keys() - {tensor.name for tensor in model.inputs}
        ),
    ]
    if problems:
        raise SourceError("\n".join(f"{_path(model)}: {problem}" for problem in problems))


def _path(model: ModelSource) -> str:
    return str(model.directory / "model.yml")


def _differences(model: ModelSource, key: str, declared: list[Tensor], actual: dict[str, ValueInfoProto]) -> list[str]:
    problems = []
    for tensor in declared:
        where = f"{key}.{tensor.name}"
        if tensor.name not in actual:
            problems.append(f"{where}: the ONNX model has no such tensor; expected one of {', '.join(actual)}")
            continue
        onnx_type = actual[tensor.name].type.tensor_type
        if onnx_type.elem_type != _ELEMENT_TYPES[tensor.type]:
            name = TensorProto.DataType.Name(onnx_type.elem_type)
            problems.append(f"{where}.type: expected ONNX {name}; found {tensor.type}")
        # ONNX leaves the shape out where even the rank is unknown: then any will do.
        if onnx_type.HasField("shape"):
            problems += _shape_problems(model, where, tensor, actual[tensor.name])
    return problems


def _shape_problems(model: ModelSource, where: str, tensor: Tensor, actual: ValueInfoProto) -> list[str]:
    shape = [dim.dim_value or -1 for dim in actual.type.tensor_type.shape.dim]
    if not shape:
        shape = [1]  # the runner makes a scalar of it
    dims = list(tensor.dims)
    if model.max_batch_size > 0:
        dims.insert(0, -1)
    fits = len(dims) == len(shape) and all(fixed in (-1, dim) for fixed, dim in zip(shape, dims, strict=True))
    if fits:
        return []
    batch = "with the batch dimension" if model.max_batch_size > 0 else "max_batch_size is 0"
    return [f"{where}.dims: expected to fit the ONNX shape {shape} (-1: any size); found {dims} ({batch})"]
