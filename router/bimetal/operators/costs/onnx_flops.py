"""FLOPs of ONNX's and com.microsoft's operators; a multiply-add counts two."""

from collections.abc import Callable, Mapping
from math import prod
from typing import TypeVar

from bimetal.operators.graph import Node

Counter = Callable[[Node, int | None], int]
"""From a node and the elements of its first output; TypeError, IndexError or KeyError where a shape is unknown."""
T = TypeVar("T")

VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Shape", "Size", "Constant"})
# FLOPs per output element where it is not one. Norms: mean, variance, scale and shift, or
# maximum, exponential, sum and division.
NORM, MOVE = 8, 0
LOOKUPS = frozenset({"Gather", "GatherElements", "GatherND", "GatherBlockQuantized", "Slice"})
PER_ELEMENT = {
    "BatchNormalization": NORM,
    "GroupNormalization": NORM,
    "InstanceNormalization": NORM,
    "LayerNormalization": NORM,
    "LogSoftmax": NORM,
    "LpNormalization": NORM,
    "RMSNormalization": NORM,
    "SimplifiedLayerNormalization": NORM,
    "SkipLayerNormalization": NORM,
    "SkipSimplifiedLayerNormalization": NORM,
    "Softmax": NORM,
    "Cast": MOVE,
    "CastLike": MOVE,
    "Concat": MOVE,
    "ConstantOfShape": MOVE,
    "DepthToSpace": MOVE,
    "Expand": MOVE,
    "Gather": MOVE,
    "GatherElements": MOVE,
    "GatherND": MOVE,
    "Pad": MOVE,
    "Slice": MOVE,
    "SpaceToDepth": MOVE,
    "Split": MOVE,
    "Tile": MOVE,
    "Transpose": MOVE,
    "Trilu": MOVE,
    "Where": MOVE,
}


def flops(node: Node) -> int | None:
    """With dynamic dimensions at their assumed sizes; None where a shape is unknown."""
    counter = COUNTERS.get(node.operator, reduction if node.operator.startswith("Reduce") else None)
    return counted(node, counter, PER_ELEMENT.get(node.operator, 1))


def counted(node: Node, counter: Counter | None, per_element: int) -> int | None:
    """The counter's answer, or so many for each element of the first output."""
    output = node.outputs[0] if node.outputs else None
    elements = output.elements if output is not None else None
    try:
        return counter(node, elements) if counter is not None else per_element * need(elements)
    except (IndexError, KeyError, TypeError, ZeroDivisionError):
        return None  # a shape that the counter needs is unknown, or is not what the operator asks for


def reduction(node: Node, _: int | None) -> int:
    """One for each element that is read."""
    return shape_of(node, 0, prod)


def shape_of(node: Node, position: int, pick: Callable[[tuple[int, ...]], T]) -> T:
    """Something of an input's shape; TypeError when it is unknown."""
    tensor = node.input(position)
    if tensor is None or tensor.assumed is None:
        raise TypeError(f"input {position} has no shape")
    return pick(tensor.assumed)


def need(count: int | None) -> int:
    """The number of the output's elements. Raises TypeError where its shape is unknown."""
    if count is None:
        raise TypeError("output has no shape")
    return count


def _matmul(node: Node, count: int | None) -> int:
    return 2 * need(count) * shape_of(node, 0, lambda shape: shape[-1])


def _gemm(node: Node, count: int | None) -> int:
    inner = 0 if node.attributes.get("transA") else -1
    return 2 * need(count) * shape_of(node, 0, lambda shape: shape[inner])


def _packed_matmul(node: Node, count: int | None) -> int:
    inner = node.attributes["K"]
    assert isinstance(inner, int)
    return 2 * need(count) * inner


def conv(weight: int) -> Callable[[Node, int | None], int]:
    """FLOPs of a convolution whose kernel [out, in / groups, ...] is input `weight`: each output takes one kernel."""
    return lambda node, count: 2 * need(count) * shape_of(node, weight, lambda shape: prod(shape[1:]))


def conv_transpose(node: Node, _: int | None) -> int:
    """Each input [batch, in, ...] is spread by its kernels [in, out / groups, ...]."""
    return 2 * shape_of(node, 0, prod) * shape_of(node, 1, lambda shape: prod(shape[1:]))


def _recurrent(node: Node, _: int | None) -> int:
    steps = shape_of(node, 0, lambda shape: shape[0] * shape[1])
    return 2 * steps * (shape_of(node, 1, prod) + shape_of(node, 2, prod))


def scaled_dot_product(node: Node, count: int | None) -> int:
    """Two products over the keys: queries with keys, weights with values."""
    keys = 1 if node.input(1) is not None else 0
    return 4 * need(count) * shape_of(node, keys, lambda shape: shape[-2])


def _attention(node: Node, count: int | None) -> int:
    return (scaled_dot_product if node.domain == "ai.onnx" else _fused_attention)(node, count)


def _fused_attention(node: Node, count: int | None) -> int:
    """com.microsoft's Attention also projects its input to queries, keys and values."""
    tokens = shape_of(node, 0, lambda shape: prod(shape[:-1]))
    return 2 * tokens * shape_of(node, 1, prod) + 4 * need(count) * shape_of(node, 0, lambda shape: shape[1])


def _experts(node: Node, _: int | None) -> int:
    """Every token passes the two layers of its k experts."""
    tokens = shape_of(node, 0, lambda shape: prod(shape[:-1]))
    chosen = node.attributes.get("k", 1)
    assert isinstance(chosen, int)
    return 2 * tokens * chosen * (shape_of(node, 2, lambda s: prod(s[1:])) + shape_of(node, 4, lambda s: prod(s[1:])))


def pool(node: Node, count: int | None) -> int:
    """One operation per output and position of the window. Raises KeyError without a kernel_shape."""
    kernel = node.attributes["kernel_shape"]
    assert isinstance(kernel, tuple)
    return need(count) * int(prod(size for size in kernel if isinstance(size, int)))


def einsum(node: Node, _: int | None) -> int:
    """Every combination of indices is one multiply-add."""
    equation = str(node.attributes["equation"]).replace(" ", "").partition("->")[0]
    sizes: dict[str, int] = {}
    for position, term in enumerate(equation.split(",")):
        shape = shape_of(node, position, tuple)
        letters = term.replace("...", "." * (len(shape) - len(term.replace("...", ""))))
        sizes |= {f"{letter}{axis if letter == '.' else ''}": shape[axis] for axis, letter in enumerate(letters)}
    return 2 * prod(sizes.values())


COUNTERS: Mapping[str, Counter] = {
    "MatMul": _matmul,
    "FusedMatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "MatMulNBits": _packed_matmul,
    "MatMulBnb4": _packed_matmul,
    "Gemm": _gemm,
    "Conv": conv(1),
    "ConvInteger": conv(1),
    "DeformConv": conv(1),
    "FusedConv": conv(1),
    "QLinearConv": conv(3),
    "ConvTranspose": conv_transpose,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "MultiHeadAttention": scaled_dot_product,
    "GroupQueryAttention": scaled_dot_product,
    "MoE": _experts,
    "Einsum": einsum,
    "ArgMax": reduction,
    "ArgMin": reduction,
    "GlobalAveragePool": reduction,
    "Attention": _attention,
    "AveragePool": pool,
    "MaxPool": pool,
    "LpPool": pool,
}
