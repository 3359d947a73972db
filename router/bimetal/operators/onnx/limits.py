"""Documented limits that a file can answer: does this node keep within them?

The matrix gives 3 ("with limits") to an operator; here the node's attributes, types and constant
inputs say whether the limits touch it. Sources: the MIGraphX operator table, the modes that
onnxruntime's MIGraphX provider refuses, and the TensorRT operator table (see SOURCES.md).
"""

from collections.abc import Callable

import onnx

from bimetal.operators.graph import Node, Tensor
from bimetal.operators.matrix.matrix import Cell
from bimetal.operators.matrix.targets import Target

Check = Callable[[Node], str | None]
"""None when the node keeps within the limit, else what breaks it."""


def broken_limit(node: Node, target: Target) -> tuple[bool, str | None]:
    """(could the file answer, what the node breaks)."""
    checks = _CHECKS.get(target, {}).get(node.operator)
    if checks is None:
        return False, None
    return True, next((broken for check in checks if (broken := check(node)) is not None), None)


def unsupported_type(node: Node, cell: Cell) -> str | None:
    """An element type of the node that the target's kernels lack; None when all are there or unknown."""
    for constraint, names in cell.types.items():
        used = _types_under(node, constraint)
        if used and not any(_listed(name, names) for name in used):
            return sorted(used)[0]
    return None


def _listed(name: str, names: frozenset[str]) -> bool:
    return name in names or "any" in names or ("fp8" in names and name.startswith("fp8"))


def _types_under(node: Node, constraint: str) -> set[str]:
    """The node's types that a constraint speaks of; without a name it may be any of them."""
    tensors = [tensor for tensor in (*node.inputs, *node.outputs) if tensor is not None]
    if constraint:
        tensors = [tensor for position in _positions(node, constraint) if (tensor := node.input(position)) is not None]
    return {tensor.type for tensor in tensors if tensor.type is not None}


def _positions(node: Node, constraint: str) -> list[int]:
    try:
        schema = onnx.defs.get_schema(node.operator, node.opset, "" if node.domain == "ai.onnx" else node.domain)
    except onnx.defs.SchemaError:
        return [0] if constraint == "T" else []  # com.microsoft calls the main type T
    return [position for position, formal in enumerate(schema.inputs) if formal.type_str == constraint]


def _constant(*positions: int) -> Check:
    def check(node: Node) -> str | None:
        wanted = positions or range(len(node.inputs))
        for position in wanted:
            tensor = node.input(position)
            if tensor is not None and not tensor.constant:
                return f"input {tensor.name!r} is computed at run time, and must be constant"
        return None

    return check


def _constant_from(first: int) -> Check:
    return lambda node: _constant(*range(first, len(node.inputs)))(node) if len(node.inputs) > first else None


def _attribute(name: str, *allowed: object, default: object = None) -> Check:
    def check(node: Node) -> str | None:
        value = node.attributes.get(name, default)
        return None if value is None or value in allowed else f"{name} is {value}"

    return check


def _all_equal(name: str, expected: int) -> Check:
    def check(node: Node) -> str | None:
        values = node.attributes.get(name, ())
        return None if isinstance(values, tuple) and all(v == expected for v in values) else f"{name} is {values}"

    return check


def _one_output(node: Node) -> str | None:
    return "it has a second output" if len([tensor for tensor in node.outputs if tensor]) > 1 else None


def _input_type(*names: str) -> Check:
    def check(node: Node) -> str | None:
        tensor = node.input(0)
        kind = tensor.type if tensor else None
        return None if kind is None or kind in names else f"its input is {kind}"

    return check


def _not_type(*names: str) -> Check:
    def check(node: Node) -> str | None:
        tensor = node.input(0)
        return f"its input is {tensor.type}" if tensor is not None and tensor.type in names else None

    return check


def _no_fp8_output(node: Node) -> str | None:
    """`saturate` only means something when the result is an 8-bit float."""
    output = node.outputs[0] if node.outputs else None
    return f"its output is {output.type}" if output is not None and (output.type or "").startswith("fp8") else None


def _tensors_only(node: Node) -> str | None:
    """A sequence has no tensor type in the file."""
    return next(
        (f"{t.name!r} is no tensor" for t in (*node.inputs, *node.outputs) if t is not None and t.type is None), None
    )


def _scalar(*positions: int) -> Check:
    def check(node: Node) -> str | None:
        tensors: list[Tensor | None] = [node.input(position) for position in positions]
        return next(
            (f"{t.name!r} is no scalar" for t in tensors if t is not None and t.elements not in {1, None}), None
        )

    return check


def _common_activations(node: Node) -> str | None:
    off = {"Affine", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Softsign", "Softplus"}
    activations = node.attributes.get("activations", ())
    assert isinstance(activations, tuple)
    return next((f"activation {name}" for name in activations if name in off), None)


def _spatial(*ranks: int) -> Check:
    def check(node: Node) -> str | None:
        tensor = node.input(0)
        shape = tensor.shape if tensor is not None else None
        return None if shape is None or len(shape) - 2 in ranks else f"it has {len(shape) - 2} spatial dimensions"

    return check


_REDUCTIONS = [
    f"Reduce{name}" for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
]
_BYTES = _input_type("int8", "uint8")
_AXIS_1 = (_constant(1),)

_MIGRAPHX: dict[str, tuple[Check, ...]] = {
    "ArgMax": (_attribute("select_last_index", 0),),
    "ArgMin": (_attribute("select_last_index", 0),),
    "Cast": (_no_fp8_output,),
    "ConstantOfShape": (_constant(0),),
    "ConvInteger": (_BYTES,),
    "ConvTranspose": (_attribute("auto_pad", "NOTSET"), _all_equal("output_padding", 0)),
    "CumSum": _AXIS_1,
    "Dropout": (_constant(2),),
    "DynamicQuantizeLinear": (),  # uint8 is all that ONNX defines
    "Expand": _AXIS_1,
    "GRU": (_common_activations,),
    "GroupNormalization": (_attribute("stash_type", 1),),
    "Identity": (_tensors_only,),
    "If": (_tensors_only,),
    "LSTM": (_common_activations,),
    "LayerNormalization": (_attribute("stash_type", 1), _one_output),
    "MatMulInteger": (_BYTES,),
    "MaxPool": (_one_output, _all_equal("dilations", 1), _attribute("storage_order", 0), _not_type("int8", "uint8")),
    "Mod": (_not_type("int8", "int32"),),
    "NonZero": (_constant(0),),
    "OneHot": _AXIS_1,
    "Pad": (_constant(1), _attribute("mode", "constant", "reflect")),
    "QLinearMatMul": (_scalar(1, 2, 4, 5, 6, 7),),
    "QuantizeLinear": (_no_fp8_output,),
    "RNN": (_common_activations,),
    "Range": (_constant(),),
    "Reshape": (_constant(1), _attribute("allowzero", 0)),
    "ReverseSequence": _AXIS_1,
    "Slice": (_constant_from(1),),
    "Split": _AXIS_1,
    "Squeeze": _AXIS_1,
    "Tile": _AXIS_1,
    "TopK": _AXIS_1,
    "Trilu": _AXIS_1,
    "Unsqueeze": _AXIS_1,
    **dict.fromkeys(_REDUCTIONS, _AXIS_1),
}

_TENSORRT: dict[str, tuple[Check, ...]] = {
    "AveragePool": (_spatial(2, 3), _all_equal("dilations", 1)),
    "CumSum": _AXIS_1,
    "Dropout": (_constant(2),),
    "LayerNormalization": (_one_output,),
    "LpPool": (_all_equal("dilations", 1),),
    "MaxPool": (_spatial(2, 3), _one_output, _all_equal("dilations", 1)),
    "OneHot": _AXIS_1,
    "RotaryEmbedding": (),  # ONNX asks for int64 positions, too
    "ScatterND": (_attribute("reduction", "none"),),
    "Squeeze": _AXIS_1,
    "Unsqueeze": _AXIS_1,
    **dict.fromkeys(_REDUCTIONS, _AXIS_1),
}

_CHECKS: dict[Target, dict[str, tuple[Check, ...]]] = {Target.MIGRAPHX: _MIGRAPHX, Target.TENSORRT: _TENSORRT}
