"""numpy arrays to and from onnxruntime's values, whatever their element type.

onnxruntime's own conversion knows no bfloat16 and packs no 4-bit integers, so the bytes go through
ONNX's TensorProto, which has all of them.
"""

import ctypes
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

from bimetal.verify.cases import Value


def numeric(value: Value) -> bool:
    """Whether a value is one tensor of numbers, as opposed to texts, a sequence or an empty optional."""
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OUS"


def to_ort(value: Value) -> Any:
    """The onnxruntime value, in host memory, of an array."""
    array = np.asarray(value)
    element_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    content = numpy_helper.from_array(array).raw_data
    made = ort.OrtValue.ortvalue_from_shape_and_type(array.shape, element_type)
    if content:
        ctypes.memmove(made.data_ptr(), content, len(content))
    return made


def from_ort(value: Any) -> Value:
    """The array behind an onnxruntime value in host memory."""
    proto = onnx.TensorProto(data_type=value.element_type(), dims=value.shape())
    proto.raw_data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()) if np.prod(value.shape()) else b""
    return numpy_helper.to_array(proto)
