"""What a node or a graph shows of the conditions that the danger rules ask for."""

from bimetal.operators.graph import Graph, Node

HALF = frozenset({"fp16", "bf16"})


def shape(node: Node, position: int = 0) -> tuple[int | str | None, ...]:
    """The sizes of an input, open ones by name or None; empty where the shape is unknown."""
    tensor = node.input(position)
    return (tensor.shape or ()) if tensor is not None else ()


def half(node: Node) -> bool:
    """A PyTorch file may not tell the type of its input; the weights' is the same."""
    types = [tensor.type for tensor in node.inputs[:2] if tensor is not None and tensor.type is not None]
    return bool(types) and types[0] in HALF


def is_spatial(node: Node, dimensions: int) -> bool:
    """The weights tell the rank even where the input's shape is unknown."""
    weights = shape(node, 3 if node.operator == "QLinearConv" else 1)
    return len(shape(node) or weights) == dimensions + 2


def dynamic_spatial(node: Node) -> bool:
    """Whether an axis from 2 on (an image's height, width or depth) is open, or the whole shape is."""
    tensor = node.input(0)
    return tensor is not None and (tensor.shape is None or any(axis >= 2 for axis in tensor.dynamic_axes))


def kernel(node: Node) -> tuple[int, ...]:
    """Sizes of the window, from the attribute or from the weights [out, in, ...]; empty where they are unknown."""
    kernel = node.attributes.get("kernel_shape", shape(node, 1)[2:])
    return tuple(size for size in kernel if isinstance(size, int)) if isinstance(kernel, tuple) else ()


def group(node: Node) -> int:
    """Groups of a convolution; 1 where nothing is said."""
    group = node.attributes.get("groups" if node.domain == "aten" else "group", 1)
    return group if isinstance(group, int) else 1


def sizes(node: Node) -> tuple[int, ...]:
    """The static spatial sizes of the input; empty when one is dynamic."""
    sizes = shape(node)[2:]
    return tuple(size for size in sizes if isinstance(size, int)) if not dynamic_spatial(node) else ()


def bidirectional_stack(graph: Graph) -> Node | None:
    """The first of four or more bidirectional fp16 LSTM layers, for a batch that is large or open."""
    for node in graph.nodes:
        if node.operator == "lstm" and _is_deep_and_bidirectional(node) and half(node) and _large_batch(node):
            return node
    stack = [n for n in graph.nodes if n.operator == "LSTM" and n.attributes.get("direction") == "bidirectional"]
    if len(stack) < 4 or not half(stack[0]):
        return None
    return stack[0] if _large_batch(stack[0]) else None


def _is_deep_and_bidirectional(node: Node) -> bool:
    """What the file does not tell counts as if it were so."""
    layers = node.attributes.get("num_layers", 4)
    return isinstance(layers, int) and layers >= 4 and bool(node.attributes.get("bidirectional", 1))


def _large_batch(node: Node) -> bool:
    batch = shape(node)[0 if node.attributes.get("batch_first") else 1 :][:1]
    return not batch or not isinstance(batch[0], int) or batch[0] >= 110


def dynamic_inputs(graph: Graph, *, beyond_batch: bool) -> bool:
    """Whether inputs have open sizes: beyond the first axis, or in the first axis alone."""
    axes = [axis for tensor in graph.inputs for axis in tensor.dynamic_axes]
    return any(axis > 0 for axis in axes) if beyond_batch else bool(axes) and all(axis == 0 for axis in axes)


def mixed_fp8(graph: Graph) -> bool:
    """Whether both 8-bit formats with 4 exponent bits occur, which the vendors' hardware tells apart."""
    tensors = (tensor for node in graph.nodes for tensor in (*node.inputs, *node.outputs) if tensor is not None)
    return {"fp8e4m3fn", "fp8e4m3fnuz"} <= {tensor.type for tensor in tensors}


def branch_with_operators(graph: Graph) -> Node | None:
    """The first If whose branches compute something."""
    trivial = {"Identity", "Constant"}
    owners = {node.parent for node in graph.nodes if node.parent is not None and node.operator not in trivial}
    return next((node for node in graph.nodes if node.operator == "If" and node.index in owners), None)


def nonzero_of_dynamic_input(graph: Graph) -> Node | None:
    """The first NonZero of a model with open sizes: its result has a size that nobody knows before."""
    if not any(tensor.dynamic_axes for tensor in graph.inputs):
        return None
    return next((node for node in graph.nodes if node.operator == "NonZero"), None)


def unusual_head_size(node: Node) -> bool:
    """Whether attention heads have another width than 64 or 128, which fused kernels are made for."""
    heads, sizes_ = node.attributes.get("num_heads"), shape(node)
    width = sizes_[-1] if sizes_ else None
    return isinstance(heads, int) and heads > 0 and isinstance(width, int) and width // heads not in {64, 128}


def depthwise_3x3_half(node: Node) -> bool:
    """A 3x3 convolution in half precision with a group for each channel."""
    return half(node) and group(node) > 1 and shape(node, 1)[:1] == (group(node),) and kernel(node) == (3, 3)


def narrow_fp32(node: Node) -> bool:
    """Whether the last axis is known to have at most 256 elements of fp32."""
    tensor, sizes_ = node.input(0), shape(node)
    width = sizes_[-1] if sizes_ else None
    return tensor is not None and tensor.type == "fp32" and isinstance(width, int) and width <= 256
