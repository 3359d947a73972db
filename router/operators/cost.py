"""What one node costs: floating-point operations, bytes moved, and time on a reference machine.

The time only serves to compare nodes of one model with each other. It is a roofline: the larger
of arithmetic and memory time, plus the launch of a kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from router.operators.graph import Node
from router.operators.tensors import Tensor

# NVIDIA A100 SXM 80GB: dense fp16 rate and memory bandwidth as its data sheet has them.
PEAK_FLOPS = 312e12
BANDWIDTH = 2.04e12  # bytes/s
LAUNCH = 5e-6  # seconds a kernel launch takes, whatever it computes
# One server socket behind it, for what falls back: fused multiply-add peak and memory bandwidth.
CPU_FLOPS = 2e12
CPU_BANDWIDTH = 200e9
LINK = 25e9  # bytes/s over PCIe 4.0 x16 as copies reach it
SYNC = 20e-6  # seconds to drain the stream, copy, and start again
CONVERSION = 3.0  # kernels that a typical function body (LayerNormalization, Gelu, RoPE) needs in place of one

_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Shape", "Size", "Constant"})
# FLOPs per output element where it is not one. Norms: mean, variance, scale and shift, or
# maximum, exponential, sum and division.
_NORM, _MOVE = 8, 0
_PER_ELEMENT = {
    "BatchNormalization": _NORM,
    "GroupNormalization": _NORM,
    "InstanceNormalization": _NORM,
    "LayerNormalization": _NORM,
    "LogSoftmax": _NORM,
    "LpNormalization": _NORM,
    "RMSNormalization": _NORM,
    "SimplifiedLayerNormalization": _NORM,
    "SkipLayerNormalization": _NORM,
    "SkipSimplifiedLayerNormalization": _NORM,
    "Softmax": _NORM,
    "Cast": _MOVE,
    "CastLike": _MOVE,
    "Concat": _MOVE,
    "ConstantOfShape": _MOVE,
    "DepthToSpace": _MOVE,
    "Expand": _MOVE,
    "Gather": _MOVE,
    "GatherElements": _MOVE,
    "GatherND": _MOVE,
    "Pad": _MOVE,
    "Slice": _MOVE,
    "SpaceToDepth": _MOVE,
    "Split": _MOVE,
    "Tile": _MOVE,
    "Transpose": _MOVE,
    "Trilu": _MOVE,
    "Where": _MOVE,
}


@dataclass(frozen=True)
class Cost:
    """FLOPs (a multiply-add counts two) and bytes read and written; None where shapes are unknown."""

    flops: int | None
    bytes: int | None

    def native_seconds(self) -> float:
        """On the reference accelerator, with a kernel of its own."""
        if self.flops == 0 and self.bytes == 0:
            return 0.0
        return LAUNCH + max((self.flops or 0) / PEAK_FLOPS, (self.bytes or 0) / BANDWIDTH)

    def seconds(self, score: int) -> float:
        """On the reference accelerator, when the operator has this score there."""
        native = self.native_seconds()
        if native == 0.0 or score >= 3:
            return native
        if score == 2:
            return CONVERSION * native
        moved = self.bytes or 0
        return SYNC + moved / LINK + max((self.flops or 0) / CPU_FLOPS, moved / CPU_BANDWIDTH)


def cost_of(node: Node) -> Cost:
    """The node's cost with dynamic dimensions at their assumed sizes.

    What is computed from constants alone costs nothing: it is folded before the model runs.
    """
    outputs = [tensor for tensor in node.outputs if tensor is not None]
    if node.operator in _VIEWS or (outputs and all(tensor.constant for tensor in outputs)):
        return Cost(0, 0)
    return Cost(_flops(node), _bytes(node, outputs))


def _bytes(node: Node, outputs: list[Tensor]) -> int | None:
    inputs = [tensor for tensor in node.inputs if tensor is not None]
    if node.operator.startswith("Gather") or node.operator == "Slice":
        inputs = outputs  # reads what it writes, not the whole table
    sizes = [tensor.bytes for tensor in (*inputs, *outputs)]
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _flops(node: Node) -> int | None:
    output = node.outputs[0] if node.outputs else None
    count = output.elements if output is not None else None
    counter = _COUNTERS.get(node.operator, _reduction if node.operator.startswith("Reduce") else _elementwise)
    try:
        return counter(node, count)
    except (IndexError, KeyError, TypeError, ZeroDivisionError):
        return None  # a shape that the counter needs is unknown, or is not what the operator asks for


def _elementwise(node: Node, count: int | None) -> int:
    return _PER_ELEMENT.get(node.operator, 1) * _need(count)


def _reduction(node: Node, _: int | None) -> int:
    return _shape(node, 0, prod)


def _shape(node: Node, position: int, pick: Callable[[tuple[int, ...]], int]) -> int:
    """Something of an input's shape; TypeError when it is unknown."""
    tensor = node.input(position)
    if tensor is None or tensor.assumed is None:
        raise TypeError(f"input {position} has no shape")
    return pick(tensor.assumed)


def _need(count: int | None) -> int:
    if count is None:
        raise TypeError("output has no shape")
    return count


def _matmul(node: Node, count: int | None) -> int:
    return 2 * _need(count) * _shape(node, 0, lambda shape: shape[-1])


def _gemm(node: Node, count: int | None) -> int:
    inner = 0 if node.attributes.get("transA") else -1
    return 2 * _need(count) * _shape(node, 0, lambda shape: shape[inner])


def _packed_matmul(node: Node, count: int | None) -> int:
    inner = node.attributes["K"]
    assert isinstance(inner, int)
    return 2 * _need(count) * inner


def _conv(weight: int) -> Callable[[Node, int | None], int]:
    return lambda node, count: 2 * _need(count) * _shape(node, weight, lambda shape: prod(shape[1:]))


def _conv_transpose(node: Node, _: int | None) -> int:
    return 2 * _shape(node, 0, prod) * _shape(node, 1, lambda shape: prod(shape[1:]))


def _recurrent(node: Node, _: int | None) -> int:
    steps = _shape(node, 0, lambda shape: shape[0] * shape[1])
    return 2 * steps * (_shape(node, 1, prod) + _shape(node, 2, prod))


def _scaled_dot_product(node: Node, count: int | None) -> int:
    """Two products over the keys: queries with keys, weights with values."""
    keys = 1 if node.input(1) is not None else 0
    return 4 * _need(count) * _shape(node, keys, lambda shape: shape[-2])


def _attention(node: Node, count: int | None) -> int:
    return (_scaled_dot_product if node.domain == "ai.onnx" else _fused_attention)(node, count)


def _fused_attention(node: Node, count: int | None) -> int:
    """com.microsoft's Attention also projects its input to queries, keys and values."""
    tokens = _shape(node, 0, lambda shape: prod(shape[:-1]))
    return 2 * tokens * _shape(node, 1, prod) + 4 * _need(count) * _shape(node, 0, lambda shape: shape[1])


def _experts(node: Node, _: int | None) -> int:
    """Every token passes the two layers of its k experts."""
    tokens = _shape(node, 0, lambda shape: prod(shape[:-1]))
    chosen = node.attributes.get("k", 1)
    assert isinstance(chosen, int)
    return 2 * tokens * chosen * (_shape(node, 2, lambda s: prod(s[1:])) + _shape(node, 4, lambda s: prod(s[1:])))


def _pool(node: Node, count: int | None) -> int:
    kernel = node.attributes["kernel_shape"]
    assert isinstance(kernel, tuple)
    return _need(count) * int(prod(size for size in kernel if isinstance(size, int)))


def _einsum(node: Node, _: int | None) -> int:
    """Every combination of indices is one multiply-add."""
    equation = str(node.attributes["equation"]).replace(" ", "").partition("->")[0]
    sizes: dict[str, int] = {}
    for position, term in enumerate(equation.split(",")):
        shape = _shape_of(node, position)
        letters = term.replace("...", "." * (len(shape) - len(term.replace("...", ""))))
        sizes |= {f"{letter}{axis if letter == '.' else ''}": shape[axis] for axis, letter in enumerate(letters)}
    return 2 * prod(sizes.values())


def _shape_of(node: Node, position: int) -> tuple[int, ...]:
    tensor = node.input(position)
    if tensor is None or tensor.assumed is None:
        raise TypeError(f"input {position} has no shape")
    return tensor.assumed


_COUNTERS: dict[str, Callable[[Node, int | None], int]] = {
    "MatMul": _matmul,
    "FusedMatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "MatMulNBits": _packed_matmul,
    "MatMulBnb4": _packed_matmul,
    "Gemm": _gemm,
    "Conv": _conv(1),
    "ConvInteger": _conv(1),
    "DeformConv": _conv(1),
    "FusedConv": _conv(1),
    "QLinearConv": _conv(3),
    "ConvTranspose": _conv_transpose,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "MultiHeadAttention": _scaled_dot_product,
    "GroupQueryAttention": _scaled_dot_product,
    "MoE": _experts,
    "Einsum": _einsum,
    "ArgMax": _reduction,
    "ArgMin": _reduction,
    "GlobalAveragePool": _reduction,
    "Attention": _attention,
    "AveragePool": _pool,
    "MaxPool": _pool,
    "LpPool": _pool,
}
