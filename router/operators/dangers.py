"""Dangers that a model file shows: conditions under which people saw operators fail, hang or crawl.

Each rule looks at one node (or the whole graph) and cites the public reports behind it
(router/data/operator_reports.csv). A rule's `cap` is the best score that the model can have on
the rule's targets: 1 for wrong results, hangs and failures, 2 for what is slower by an order of
magnitude or compiles in the request, None for what is only worth knowing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from router.operators.graph import Graph, Node
from router.operators.matrix import DATA, read_rows
from router.operators.targets import Target
from router.operators.tensors import Tensor

REPORTS_FILE = DATA / "operator_reports.csv"
PRACTITIONERS = "practitioners' findings"

_AMD = frozenset({Target.ROCM, Target.MIGRAPHX})
_HALF = frozenset({"fp16", "bf16"})
_CONVS = frozenset({"Conv", "FusedConv", "NhwcConv", "QLinearConv", "ConvInteger"})


@dataclass(frozen=True)
class Report:
    """A public thread about an operator that misbehaves on one vendor."""

    thread: str
    condition: str
    symptom: str
    status: str


@dataclass(frozen=True)
class Rule:
    """`sees` gets the graph and a node and says whether the condition is there."""

    name: str
    targets: frozenset[Target]
    cap: int | None
    warning: str
    sees: Callable[[Graph, Node], bool]
    operators: frozenset[str] | None = None  # None: every operator
    extra_source: str = ""


@dataclass(frozen=True)
class Danger:
    """A rule that a node has triggered."""

    rule: Rule
    node: Node
    sources: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.rule.warning


def dangers(graph: Graph, target: Target) -> Iterator[Danger]:
    """One danger per rule and target: the first node that shows it."""
    reports = reports_by_rule()
    for rule in RULES:
        if target not in rule.targets:
            continue
        node = next((node for node in graph.nodes if _applies(rule, graph, node)), None)
        if node is not None:
            threads = [f"{report.thread} ({report.status})" for report in reports.get(rule.name, ())]
            yield Danger(rule, node, tuple(filter(None, (*threads, rule.extra_source))))


def _applies(rule: Rule, graph: Graph, node: Node) -> bool:
    return (rule.operators is None or node.operator in rule.operators) and rule.sees(graph, node)


@lru_cache(maxsize=1)
def reports_by_rule() -> dict[str, tuple[Report, ...]]:
    """The reports behind each rule."""
    found: dict[str, tuple[Report, ...]] = {}
    for _, row in read_rows(REPORTS_FILE, ("number", "thread", "condition", "symptom", "status", "rule", "unseen")):
        if row["rule"]:
            report = Report(row["thread"], row["condition"], row["symptom"], row["status"])
            found[row["rule"]] = (*found.get(row["rule"], ()), report)
    return found


# --- what a node shows


def _shape(node: Node, position: int = 0) -> tuple[int | str | None, ...]:
    tensor = node.input(position)
    return (tensor.shape or ()) if tensor is not None else ()


def _half(node: Node) -> bool:
    tensor = node.input(0)
    return tensor is not None and tensor.type in _HALF


def _is_spatial(node: Node, dimensions: int) -> bool:
    """The weights tell the rank even where the input's shape is unknown."""
    weights = _shape(node, 3 if node.operator == "QLinearConv" else 1)
    return len(_shape(node) or weights) == dimensions + 2


def _dynamic_spatial(node: Node) -> bool:
    tensor = node.input(0)
    return tensor is not None and (tensor.shape is None or any(axis >= 2 for axis in tensor.dynamic_axes))


def _kernel(node: Node) -> tuple[int, ...]:
    kernel = node.attributes.get("kernel_shape", _shape(node, 1)[2:])
    return tuple(size for size in kernel if isinstance(size, int)) if isinstance(kernel, tuple) else ()


def _group(node: Node) -> int:
    group = node.attributes.get("group", 1)
    return group if isinstance(group, int) else 1


def _sizes(node: Node) -> tuple[int, ...]:
    """The static spatial sizes of the input; empty when one is dynamic."""
    sizes = _shape(node)[2:]
    return tuple(size for size in sizes if isinstance(size, int)) if not _dynamic_spatial(node) else ()


def _bidirectional_stack(graph: Graph, node: Node) -> bool:
    stack = [n for n in graph.nodes if n.operator == "LSTM" and n.attributes.get("direction") == "bidirectional"]
    batch = _shape(node)[1:2]
    large = not batch or not isinstance(batch[0], int) or batch[0] >= 110
    tensor = node.input(0)
    return node in stack and len(stack) >= 4 and large and tensor is not None and tensor.type == "fp16"


def _inputs(graph: Graph, *, beyond_batch: bool) -> bool:
    axes = [axis for tensor in graph.inputs for axis in tensor.dynamic_axes]
    return any(axis > 0 for axis in axes) if beyond_batch else bool(axes) and all(axis == 0 for axis in axes)


def _types(node: Node) -> set[str]:
    tensors: tuple[Tensor | None, ...] = (*node.inputs, *node.outputs)
    return {tensor.type for tensor in tensors if tensor is not None and tensor.type is not None}


def _mixed_fp8(graph: Graph, _: Node) -> bool:
    return {"fp8e4m3fn", "fp8e4m3fnuz"} <= set().union(*(_types(node) for node in graph.nodes))


def _owns_operators(graph: Graph, node: Node) -> bool:
    return any(child.operator not in {"Identity", "Constant"} for child in graph.bodies.get(node.index, ()))


def _head_size(node: Node) -> int | None:
    heads, shape = node.attributes.get("num_heads"), _shape(node)
    width = shape[-1] if shape else None
    return width // heads if isinstance(heads, int) and heads and isinstance(width, int) else None


def _narrow(node: Node) -> bool:
    tensor, shape = node.input(0), _shape(node)
    return (
        tensor is not None and tensor.type == "fp32" and bool(shape) and isinstance(shape[-1], int) and shape[-1] <= 256
    )


RULES = (
    Rule(
        "conv-1d-dynamic",
        _AMD,
        1,
        "a one-dimensional convolution of dynamic length: each unseen length compiles, and on ROCm 5.6 the driver timed out",
        lambda _, node: _is_spatial(node, 1) and _dynamic_spatial(node),
        _CONVS,
        extra_source=PRACTITIONERS,
    ),
    Rule(
        "lstm-bidirectional-half",
        _AMD,
        1,
        "a stack of four or more bidirectional fp16 LSTM layers: results are silently wrong from batch 110 or so",
        _bidirectional_stack,
        frozenset({"LSTM"}),
    ),
    Rule(
        "gather-two-dynamic",
        frozenset({Target.MIGRAPHX}),
        1,
        "a Gather over more than one dynamic dimension: MIGraphX cannot compile it",
        lambda _, node: any(t is not None and len(t.dynamic_axes) > 1 for t in node.inputs),
        frozenset({"Gather"}),
    ),
    Rule(
        "fp8-mixed",
        _AMD,
        1,
        "both FP8 encodings (e4m3fn and e4m3fnuz) in one model: gfx942 takes only e4m3fnuz and refuses the mix",
        _mixed_fp8,
    ),
    Rule(
        "conv-2d-dynamic",
        _AMD,
        2,
        "a convolution over images of dynamic size: each new size is searched and compiled for minutes",
        lambda _, node: _is_spatial(node, 2) and _dynamic_spatial(node),
        _CONVS,
    ),
    Rule(
        "migraphx-dynamic-shape",
        frozenset({Target.MIGRAPHX}),
        2,
        "inputs with dynamic dimensions beside the batch: MIGraphX compiles inside the request at every new shape",
        lambda graph, _: _inputs(graph, beyond_batch=True),
    ),
    Rule(
        "migraphx-dynamic-batch",
        frozenset({Target.MIGRAPHX}),
        3,
        "a dynamic batch: MIGraphX compiles at every new batch size; serve a few fixed sizes (batch buckets)",
        lambda graph, _: _inputs(graph, beyond_batch=False),
    ),
    Rule(
        "migraphx-if",
        frozenset({Target.MIGRAPHX}),
        2,
        "an If whose branches hold operators of their own: the provider was seen to fail on such subgraphs",
        _owns_operators,
        frozenset({"If"}),
    ),
    Rule(
        "conv-transpose-2d",
        _AMD,
        2,
        "a two-dimensional ConvTranspose: it fails on gfx90a with padding, and was 19.6 times slower than cuDNN on MI355X",
        lambda _, node: _is_spatial(node, 2),
        frozenset({"ConvTranspose"}),
    ),
    Rule(
        "conv-3d-half",
        _AMD,
        2,
        "a three-dimensional convolution in half precision: up to 70 s a call",
        lambda _, node: _is_spatial(node, 3) and _half(node),
        _CONVS,
    ),
    Rule(
        "conv-1d",
        _AMD,
        3,
        "a one-dimensional convolution: MIOpen ran speech models eight times slower than the CPU",
        lambda _, node: _is_spatial(node, 1) and not _dynamic_spatial(node),
        _CONVS,
    ),
    Rule(
        "conv-grouped-half",
        _AMD,
        3,
        "a grouped fp16 convolution: NaN or wrong results on gfx12",
        lambda _, node: _half(node) and _group(node) > 1,
        _CONVS,
    ),
    Rule(
        "conv-large-kernel-half",
        _AMD,
        3,
        "an fp16 convolution with a kernel of 23x23 or more: errors above 1.0 on gfx90a",
        lambda _, node: _half(node) and bool(_kernel(node)) and min(_kernel(node)) >= 23,
        _CONVS,
    ),
    Rule(
        "conv-large-image",
        frozenset({Target.MIGRAPHX}),
        3,
        "a convolution over a large image (960x540 or more): compiling hung or took 35 minutes on gfx1201",
        lambda _, node: len(_sizes(node)) == 2 and _sizes(node)[0] * _sizes(node)[1] >= 960 * 540,
        _CONVS,
    ),
    Rule(
        "tensorrt-nonzero",
        frozenset({Target.TENSORRT}),
        2,
        "a NonZero (an output whose size depends on data) in a model with a dynamic batch: TensorRT cannot build it",
        lambda graph, _: any(tensor.dynamic_axes for tensor in graph.inputs),
        frozenset({"NonZero"}),
    ),
    Rule(
        "bnb4-block",
        _AMD,
        3,
        "4-bit blocks of 64 or fewer values: unavailable or wrong on 64-wide wavefronts until early 2026",
        lambda _, node: node.attributes.get("block_size") in {32, 64},
        frozenset({"MatMulBnb4"}),
    ),
    Rule(
        "paged-head-size",
        _AMD,
        3,
        "paged attention with a head size other than 64 or 128: vLLM's ROCm kernel refused it",
        lambda _, node: _head_size(node) not in {None, 64, 128},
        frozenset({"PagedAttention"}),
    ),
    Rule(
        "rocm-batch-normalization",
        frozenset({Target.ROCM}),
        3,
        "BatchNormalization on the ROCm provider: MIOpen failure 7 was reported",
        lambda _graph, _node: True,
        frozenset({"BatchNormalization"}),
    ),
    Rule(
        "conv-depthwise-half",
        _AMD,
        None,
        "an fp16 depthwise 3x3 convolution: results are two fp16 steps off",
        lambda _, node: (
            _half(node) and _group(node) > 1 and _group(node) == _shape(node, 1)[0] and _kernel(node) == (3, 3)
        ),
        _CONVS,
    ),
    Rule(
        "conv-tiny",
        _AMD,
        None,
        "a convolution over 2x2 pixels or fewer: MIOpen searched 10 s for a kernel",
        lambda _, node: len(_sizes(node)) == 2 and max(_sizes(node)) <= 2,
        _CONVS,
    ),
    Rule(
        "migraphx-einsum",
        frozenset({Target.MIGRAPHX}),
        None,
        "Einsum: ROCm 6.0 did not know it; later MIGraphX does, with limits",
        lambda _graph, _node: True,
        frozenset({"Einsum"}),
    ),
    Rule(
        "topk-narrow",
        _AMD,
        None,
        "an fp32 TopK over 256 values or fewer: slower on MI250 with newer ROCm, and other valid indices",
        lambda _, node: _narrow(node),
        frozenset({"TopK"}),
    ),
    Rule(
        "cuda-conv-transpose",
        frozenset({Target.CUDA}),
        None,
        "ConvTranspose: CPU and CUDA results were seen to differ",
        lambda _graph, _node: True,
        frozenset({"ConvTranspose"}),
    ),
    Rule(
        "cuda-mha-mask",
        frozenset({Target.CUDA}),
        None,
        "fp16 MultiHeadAttention with a mask: inaccurate against PyTorch",
        lambda _, node: _half(node) and node.input(4) is not None,
        frozenset({"MultiHeadAttention"}),
    ),
    Rule(
        "cuda-sparse-attention",
        frozenset({Target.CUDA}),
        None,
        "block-sparse attention: no native kernel on sm100 was found in one library",
        lambda _graph, _node: True,
        frozenset({"SparseAttention"}),
    ),
    Rule(
        "rocm-gone",
        frozenset({Target.ROCM}),
        None,
        "the ROCm provider ends with onnxruntime 1.22; later versions have MIGraphX only",
        lambda _graph, _node: True,
    ),
)
