"""Which part of a network a node belongs to, for people: embedding, attention, FFN, ...

Names tell where an exporter kept the module scopes; where it did not, what stands around a node:
products next to a Softmax are attention, products next to an activation are a feed-forward network.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from bimetal.operators.graph import Graph, Node


class Block(StrEnum):
    """The parts in the order in which they are shown."""

    EMBEDDING = "embedding"
    ATTENTION = "attention"
    FFN = "FFN"
    NORMALIZATION = "normalization"
    CONVOLUTION = "convolution"
    RECURRENT = "recurrent"
    OTHER = "other"


_SCOPES = (
    (Block.EMBEDDING, re.compile(r"embed|wte|wpe", re.IGNORECASE)),
    (Block.ATTENTION, re.compile(r"attn|attention|rotary", re.IGNORECASE)),
    (Block.FFN, re.compile(r"mlp|ffn|feed_?forward|intermediate|experts?\b", re.IGNORECASE)),
)
_OPERATORS = {
    "Attention": Block.ATTENTION,
    "GroupQueryAttention": Block.ATTENTION,
    "LinearAttention": Block.ATTENTION,
    "MultiHeadAttention": Block.ATTENTION,
    "PackedAttention": Block.ATTENTION,
    "PackedMultiHeadAttention": Block.ATTENTION,
    "PagedAttention": Block.ATTENTION,
    "RotaryEmbedding": Block.ATTENTION,
    "Softmax": Block.ATTENTION,
    "SparseAttention": Block.ATTENTION,
    "MoE": Block.FFN,
    "QMoE": Block.FFN,
    "SwiGLU": Block.FFN,
    "BatchNormalization": Block.NORMALIZATION,
    "GroupNormalization": Block.NORMALIZATION,
    "InstanceNormalization": Block.NORMALIZATION,
    "LayerNormalization": Block.NORMALIZATION,
    "RMSNormalization": Block.NORMALIZATION,
    "SimplifiedLayerNormalization": Block.NORMALIZATION,
    "SkipLayerNormalization": Block.NORMALIZATION,
    "SkipSimplifiedLayerNormalization": Block.NORMALIZATION,
    "AveragePool": Block.CONVOLUTION,
    "Conv": Block.CONVOLUTION,
    "ConvInteger": Block.CONVOLUTION,
    "ConvTranspose": Block.CONVOLUTION,
    "DeformConv": Block.CONVOLUTION,
    "FusedConv": Block.CONVOLUTION,
    "MaxPool": Block.CONVOLUTION,
    "QLinearConv": Block.CONVOLUTION,
    "GRU": Block.RECURRENT,
    "LSTM": Block.RECURRENT,
    "RNN": Block.RECURRENT,
    # aten
    "embedding": Block.EMBEDDING,
    "scaled_dot_product_attention": Block.ATTENTION,
    "softmax": Block.ATTENTION,
    **dict.fromkeys(("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"), Block.NORMALIZATION),
    **{
        f"{kind}{n}d": Block.CONVOLUTION
        for kind in ("avg_pool", "conv", "conv_transpose", "max_pool")
        for n in (1, 2, 3)
    },
    **dict.fromkeys(("gru", "lstm", "rnn_relu", "rnn_tanh"), Block.RECURRENT),
}
_ONNX_PRODUCTS = ("MatMul", "Gemm", "MatMulInteger", "MatMulNBits", "QLinearMatMul", "FusedMatMul")
_PRODUCTS = frozenset([*_ONNX_PRODUCTS, "addmm", "baddbmm", "bmm", "linear", "matmul", "mm"])
_ONNX_ACTIVATIONS = ("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "Erf", "Relu", "Swish")
_ACTIVATIONS = frozenset([*_ONNX_ACTIVATIONS, "gelu", "relu", "silu"])
_REACH = 4  # nodes between a product and the Softmax or activation that explains it: scale, mask, bias


def blocks(graph: Graph) -> tuple[Block, ...]:
    """The block of every node, in the graph's order."""
    found = [_by_name_or_operator(node) for node in graph.nodes]
    readers = _readers(graph)
    for node in graph.nodes:
        if node.operator in {"Softmax", "softmax"}:
            _claim(graph, readers, found, node, Block.ATTENTION)
    for node in graph.nodes:
        if node.operator in _ACTIVATIONS:
            _claim(graph, readers, found, node, Block.FFN)
    return tuple(block or Block.OTHER for block in found)


def _by_name_or_operator(node: Node) -> Block | None:
    scope = node.name or next((tensor.name for tensor in node.outputs if tensor), "")
    for block, pattern in _SCOPES:
        if pattern.search(scope):
            return block
    if (
        node.operator == "Gather"
        and (table := node.input(0)) is not None
        and table.constant
        and len(table.shape or ()) == 2
    ):
        return Block.EMBEDDING
    return _OPERATORS.get(node.operator)


def _readers(graph: Graph) -> Mapping[int, list[int]]:
    readers: dict[int, list[int]] = {node.index: [] for node in graph.nodes}
    for node in graph.nodes:
        for maker in node.predecessors:
            readers[maker].append(node.index)
    return readers


def _claim(graph: Graph, readers: Mapping[int, list[int]], found: list[Block | None], node: Node, block: Block) -> None:
    """Gives the nearest products before and after the node, and what lies between, to the block."""
    for neighbours in (lambda index: graph.nodes[index].predecessors, lambda index: readers[index]):
        path: list[int] = [node.index]
        for _ in range(_REACH):
            following: Iterable[int] = neighbours(path[-1])
            step = next((index for index in following if found[index] in {None, block}), None)
            if step is None:
                break
            path.append(step)
            if graph.nodes[step].operator in _PRODUCTS:
                for index in path:
                    found[index] = block
                break
