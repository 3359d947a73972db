"""What is known of a tensor while a PyTorch file is followed, and PyTorch's element types by the matrix's names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bimetal.operators.graph import Tensor
from bimetal.operators.sizes import ANY, Sizes

# Classes of typed storages, as TorchScript's pickles name them.
_STORAGES = {
    "BFloat16Storage": "bf16",
    "BoolStorage": "bool",
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "DoubleStorage": "fp64",
    "FloatStorage": "fp32",
    "HalfStorage": "fp16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "QInt32Storage": "int32",
    "QInt8Storage": "int8",
    "QUInt8Storage": "uint8",
    "ShortStorage": "int16",
}
# c10::ScalarType, as TorchScript's code writes a dtype.
_SCRIPT = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "fp16",
    6: "fp32",
    7: "fp64",
    11: "bool",
    15: "bf16",
    23: "fp8e5m2",
    24: "fp8e4m3fn",
    25: "fp8e5m2fnuz",
    26: "fp8e4m3fnuz",
}
# torch._export.serde.schema.ScalarType, which counts differently.
_EXPORT = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "fp16",
    7: "fp32",
    8: "fp64",
    12: "bool",
    13: "bf16",
    28: "uint16",
    29: "fp8e4m3fn",
    30: "fp8e5m2",
    31: "fp8e4m3fnuz",
    32: "fp8e5m2fnuz",
    33: "fp8e8m0",
    34: "uint32",
    35: "uint64",
}
# The order of promotion: of two types, the later one stands for both.
_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "fp16", "bf16", "fp32", "fp64")


def of_storage(name: str) -> str | None:
    """The element type of a typed storage's class; None for an unknown one."""
    return _STORAGES.get(name)


def of_script(code: object) -> str | None:
    """The element type of a number in TorchScript's code (c10::ScalarType); None for an unknown one."""
    return _SCRIPT.get(code) if isinstance(code, int) and not isinstance(code, bool) else None


def of_export(code: object) -> str | None:
    """The element type of a number in an export's JSON (its own ScalarType); None for an unknown one."""
    return _EXPORT.get(code) if isinstance(code, int) else None


def promoted(types: list[str | None]) -> str | None:
    """The type of an element-wise result, from those that are known."""
    known = [name for name in types if name is not None]
    if {"fp16", "bf16"} <= set(known):
        known.append("fp32")
    return max(known, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER), default=None)


Shapes = Sizes | tuple[Sizes, ...] | list[Sizes]
"""Of a result, of several results, or of a list of tensors."""
Arguments = Mapping[str, Any]
"""A call's arguments, by name as `record` has them; tensors as `Value`."""


@dataclass(frozen=True)
class Value:
    """A tensor: `number` is what a constant of one element holds, where that was read."""

    name: str
    sizes: Sizes = ANY
    type: str | None = None
    constant: bool = False
    number: int | float | None = None

    @property
    def tensor(self) -> Tensor:
        """As the operator graph has it."""
        return Tensor(self.name, self.type, self.sizes.shape, self.sizes.counted, self.constant)


def sizes_of(arguments: Arguments, name: str = "self") -> Sizes:
    """The shape of the tensor of that name.

    Raises:
        KeyError, TypeError: there is no such argument, or it is no tensor.
    """
    value = arguments[name]
    if not isinstance(value, Value):
        raise TypeError(f"{name} is no tensor")
    return value.sizes


def values(arguments: Any) -> list[Value]:
    """The tensors among arguments, those in lists included."""
    if isinstance(arguments, Value):
        return [arguments]
    if isinstance(arguments, Mapping):
        return [value for each in arguments.values() for value in values(each)]
    if isinstance(arguments, list | tuple):
        return [value for each in arguments for value in values(each)]
    return []
