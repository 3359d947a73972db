"""FLOPs of aten operators; a multiply-add counts two."""

from collections.abc import Mapping
from math import prod

from bimetal.operators.costs.onnx_flops import (
    MOVE,
    NORM,
    Counter,
    conv,
    conv_transpose,
    counted,
    einsum,
    need,
    reduction,
    scaled_dot_product,
    shape_of,
)
from bimetal.operators.graph import Node

_VIEWS = (
    "alias chunk detach dim expand expand_as flatten lift_fresh narrow numel permute reshape reshape_as select size "
    "slice split split_with_sizes squeeze swapaxes t transpose unbind unflatten unsqueeze view view_as"
)
VIEWS = frozenset(_VIEWS.split())
LOOKUPS = frozenset(["embedding", "gather", "index", "index_select"])
_NORMS = "batch_norm group_norm instance_norm layer_norm log_softmax rms_norm softmax"
_MOVES = (
    "arange cat clone constant_pad_nd contiguous copy embedding empty fill flip full gather index index_select "
    "masked_fill one_hot ones pad pixel_shuffle repeat roll scatter stack to tril triu type_as where zeros zeros_like"
)
_REDUCTIONS = (
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d all amax amin any argmax argmin cumsum logsumexp max "
    "mean min norm prod std sum topk var"
)
PER_ELEMENT: Mapping[str, int] = {**dict.fromkeys(_NORMS.split(), NORM), **dict.fromkeys(_MOVES.split(), MOVE)}


FUSED_ATTENTION = (
    "scaled_dot_product_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
)


def flops(node: Node) -> int | None:
    """With open sizes as they are counted; None where a shape is unknown."""
    return counted(node, COUNTERS.get(node.operator), PER_ELEMENT.get(node.operator, 1))


def _product(first: int) -> Counter:
    """Of the tensors at `first` and after it; either tells the length of the rows that are multiplied."""

    def count(node: Node, elements: int | None) -> int:
        left, right = node.input(first), node.input(first + 1)
        if left is not None and left.assumed:
            return 2 * need(elements) * left.assumed[-1]
        if right is None:
            raise TypeError("a product of one tensor")
        return 2 * need(elements) * shape_of(node, first + 1, lambda shape: shape[-2])

    return count


def _linear(node: Node, elements: int | None) -> int:
    return 2 * need(elements) * shape_of(node, 1, lambda shape: shape[-1])


def _recurrent(node: Node, _: int | None) -> int:
    """Each step of each sequence multiplies every matrix of every layer and direction once."""
    steps = shape_of(node, 0, lambda shape: prod(shape[:-1]))
    # A state is (layers, batch, hidden); among the weights that follow, two axes make a matrix.
    weights = sum(prod(t.assumed) for t in node.inputs[1:] if t is not None and t.assumed and len(t.assumed) == 2)
    return 2 * steps * weights


def _pool(node: Node, elements: int | None) -> int:
    kernel = node.attributes["kernel_size"]
    if isinstance(kernel, tuple):
        return need(elements) * prod(size for size in kernel if isinstance(size, int))
    if not isinstance(kernel, int):
        raise TypeError(f"a kernel of size {kernel}")
    return need(elements) * int(kernel ** int(node.operator[-2]))


COUNTERS: Mapping[str, Counter] = {
    **dict.fromkeys(("bmm", "matmul", "mm", "mv", "_grouped_mm", "_scaled_mm", "_int_mm"), _product(0)),
    **dict.fromkeys(("addbmm", "addmm", "addmv", "baddbmm"), _product(1)),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), conv(1)),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), conv_transpose),
    **dict.fromkeys(("gru", "lstm", "rnn_relu", "rnn_tanh"), _recurrent),
    **{f"{kind}_pool{n}d": _pool for kind in ("avg", "max") for n in (1, 2, 3)},
    **dict.fromkeys(_REDUCTIONS.split(), reduction),
    "einsum": einsum,
    "linear": _linear,
    **dict.fromkeys(FUSED_ATTENTION, scaled_dot_product),
}
