"""Tensors as an ONNX graph declares them: element types, attributes, and what each (sub)graph sees."""

from collections.abc import Iterable, Mapping

import onnx

from bimetal.operators.graph import AttributeValue, Dimension, Tensor

# ONNX element types by the names that the matrix uses.
_TYPES = {
    "FLOAT": "fp32",
    "UINT8": "uint8",
    "INT8": "int8",
    "UINT16": "uint16",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "STRING": "str",
    "BOOL": "bool",
    "FLOAT16": "fp16",
    "DOUBLE": "fp64",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "BFLOAT16": "bf16",
    "FLOAT8E4M3FN": "fp8e4m3fn",
    "FLOAT8E4M3FNUZ": "fp8e4m3fnuz",
    "FLOAT8E5M2": "fp8e5m2",
    "FLOAT8E5M2FNUZ": "fp8e5m2fnuz",
    "FLOAT4E2M1": "fp4e2m1",
    "UINT4": "uint4",
    "INT4": "int4",
    "FLOAT8E8M0": "fp8e8m0",
    "UINT2": "uint2",
    "INT2": "int2",
}
_NAMES = {onnx.TensorProto.DataType.Value(name): short for name, short in _TYPES.items()}
_NUMBERS: dict[str, int] = {name: number for number, name in _NAMES.items()}


def type_name(element_type: int) -> str | None:
    """The matrix's name of an ONNX element type."""
    return _NAMES.get(element_type)


def element_type(name: str) -> int:
    """The ONNX element type of a matrix's name."""
    return _NUMBERS[name]


def attribute_values(node: onnx.NodeProto) -> dict[str, AttributeValue]:
    """The numbers and strings among a node's attributes; tensors and graphs are left out."""
    values: dict[str, AttributeValue] = {}
    for attribute in node.attribute:
        match attribute.type:
            case onnx.AttributeProto.INT:
                values[attribute.name] = attribute.i
            case onnx.AttributeProto.FLOAT:
                values[attribute.name] = attribute.f
            case onnx.AttributeProto.STRING:
                values[attribute.name] = attribute.s.decode("utf-8", "replace")
            case onnx.AttributeProto.INTS:
                values[attribute.name] = tuple(attribute.ints)
            case onnx.AttributeProto.FLOATS:
                values[attribute.name] = tuple(attribute.floats)
            case onnx.AttributeProto.STRINGS:
                values[attribute.name] = tuple(text.decode("utf-8", "replace") for text in attribute.strings)
            case _:
                pass
    return values


class TensorTable:
    """The tensors that one graph sees, its own before those of the graphs around it."""

    def __init__(
        self,
        types: Mapping[str, onnx.TypeProto],
        sizes: Mapping[str, onnx.TypeProto],
        constants: dict[str, Tensor],
        outer: "TensorTable | None" = None,
    ) -> None:
        self._types = types
        self._sizes = sizes
        self._constants = constants
        self._outer = outer

    @classmethod
    def of_model(cls, symbolic: onnx.GraphProto, assumed: onnx.GraphProto) -> "TensorTable":
        """The table of the main graph, from the model with symbolic shapes and from the one with assumed sizes."""
        return cls(_types(symbolic), _all_types(assumed), _initializers(symbolic))

    def inner(self, graph: onnx.GraphProto) -> "TensorTable":
        """The table of a graph inside this one."""
        return TensorTable(_types(graph), self._sizes, _initializers(graph), self)

    def tensor(self, name: str) -> Tensor:
        """What is known of a tensor; a name that no graph declares gives one without type and shape."""
        if name in self._constants:
            return self._constants[name]
        if name in self._types:
            return _tensor(name, self._types[name], self._sizes.get(name, self._types[name]))
        return self._outer.tensor(name) if self._outer else Tensor(name)

    def know(self, constants: Iterable[Tensor]) -> None:
        """Takes these tensors for constants, whatever the graph says of them."""
        self._constants |= {tensor.name: tensor for tensor in constants}

    def is_constant(self, name: str) -> bool:
        """Whether the tensor is known before the model runs."""
        return self.tensor(name).constant

    def note_constants(self, node: onnx.NodeProto) -> None:
        """Marks the outputs of a node that can be computed before the model runs.

        The same rule as onnxruntime's MIGraphX provider: constants, what follows from constants,
        and the shape of a tensor whose dimensions are all known.
        """
        inputs = [self.tensor(name) for name in node.input if name]
        if node.op_type in {"Shape", "Size"}:
            known = bool(inputs) and inputs[0].shape is not None and not inputs[0].dynamic_axes
        else:
            known = node.op_type == "Constant" or (bool(inputs) and all(tensor.constant for tensor in inputs))
        if known and not node.op_type.startswith(("Random", "Bernoulli", "Multinomial")):
            for name in filter(None, node.output):
                tensor = self.tensor(name)
                self._constants[name] = Tensor(name, tensor.type, tensor.shape, tensor.assumed, constant=True)


def _types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    return {value.name: value.type for values in (graph.value_info, graph.input, graph.output) for value in values}


def _all_types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    types: dict[str, onnx.TypeProto] = {}
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        types |= _types(current)
        waiting += [a.g for node in current.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return types


def _initializers(graph: onnx.GraphProto) -> dict[str, Tensor]:
    return {
        tensor.name: Tensor(
            tensor.name, type_name(tensor.data_type), tuple(tensor.dims), tuple(tensor.dims), constant=True
        )
        for tensor in graph.initializer
    }


def _tensor(name: str, symbolic: onnx.TypeProto, assumed: onnx.TypeProto) -> Tensor:
    if not symbolic.HasField("tensor_type"):
        return Tensor(name)
    kind = symbolic.tensor_type
    shape = tuple(_dimension(dim) for dim in kind.shape.dim) if kind.HasField("shape") else None
    sizes: tuple[int, ...] | None = None
    if assumed.tensor_type.HasField("shape"):
        known = [dim.dim_value if dim.HasField("dim_value") else None for dim in assumed.tensor_type.shape.dim]
        if all(size is not None and size >= 0 for size in known):
            sizes = tuple(size for size in known if size is not None)
    return Tensor(name, type_name(kind.elem_type), shape, sizes)


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> Dimension:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return dim.dim_param or None
