"""Which tensors can travel between Tritons, and what Triton calls their types."""

from collections.abc import Mapping

import onnx

from bimetal.operators.graph import Tensor

# The matrix's type names, Triton's, ONNX's. The Python backend hands tensors over as NumPy arrays, which
# have no bfloat16, 8-bit or 4-bit floats, or 4-bit integers.
_TYPES: Mapping[str, tuple[str, int]] = {
    "bool": ("BOOL", onnx.TensorProto.BOOL),
    "fp16": ("FP16", onnx.TensorProto.FLOAT16),
    "fp32": ("FP32", onnx.TensorProto.FLOAT),
    "fp64": ("FP64", onnx.TensorProto.DOUBLE),
    "int8": ("INT8", onnx.TensorProto.INT8),
    "int16": ("INT16", onnx.TensorProto.INT16),
    "int32": ("INT32", onnx.TensorProto.INT32),
    "int64": ("INT64", onnx.TensorProto.INT64),
    "uint8": ("UINT8", onnx.TensorProto.UINT8),
    "uint16": ("UINT16", onnx.TensorProto.UINT16),
    "uint32": ("UINT32", onnx.TensorProto.UINT32),
    "uint64": ("UINT64", onnx.TensorProto.UINT64),
    "str": ("STRING", onnx.TensorProto.STRING),
}


def can_serve(tensor: Tensor) -> bool:
    """Whether Triton can take or give it: it has such a type, and the number of dimensions is known."""
    return tensor.type in _TYPES and tensor.shape is not None


def can_travel(tensor: Tensor) -> bool:
    """Whether it can pass between segments: Triton can serve it, and its size can be estimated."""
    return can_serve(tensor) and tensor.bytes is not None


def triton_type(tensor: Tensor) -> str:
    """Triton's name of the type in a model configuration, without its `TYPE_`. KeyError: it has none."""
    return _TYPES[tensor.type or ""][0]


def onnx_type(tensor: Tensor) -> int:
    """ONNX's number of the type. KeyError: Triton serves no such type."""
    return _TYPES[tensor.type or ""][1]


def triton_dims(tensor: Tensor) -> list[int]:
    """The shape with -1 for open sizes; a scalar is [1], because Triton has none."""
    return [size if isinstance(size, int) and size > 0 else -1 for size in tensor.shape or ()] or [1]
