"""The conditions under which people saw aten operators fail or crawl, as rules over the graph of a PyTorch file.

What the file does not tell (a type, a mask that may be None) counts as if it showed the condition.
"""

from bimetal.operators.costs.torch_flops import FUSED_ATTENTION
from bimetal.operators.dangers.rule import Rule, first
from bimetal.operators.graph import Node
from bimetal.operators.matrix.targets import Target

_ROCM = frozenset({Target.TORCH_ROCM})
_SDPA = frozenset(FUSED_ATTENTION)
_HEADS_WITH_ERRORS = (8, 80)


def _has_mask(node: Node) -> bool:
    return len(node.inputs) > 3


def _head_size(node: Node) -> int | str | None:
    tensor = node.input(0)
    return tensor.shape[-1] if tensor is not None and tensor.shape else None


def _has_head_with_errors(node: Node) -> bool:
    size = _head_size(node)
    return not isinstance(size, int) or size in _HEADS_WITH_ERRORS


def _may_be_bf16(node: Node) -> bool:
    tensor = node.input(0)
    return tensor is None or tensor.type in {None, "bf16"}


def _may_be_open_image(node: Node) -> bool:
    tensor = node.input(0)
    return tensor is None or tensor.shape is None or any(axis >= 2 for axis in tensor.dynamic_axes)


TORCH_RULES = (
    Rule(
        "aten-sdpa-mask",
        _ROCM,
        3,
        "attention with a mask: wrong in fp16 with the memory-efficient kernel, NaN from 1024 keys on (MI300)",
        first(_SDPA, _has_mask),
    ),
    Rule(
        "aten-sdpa-head-size",
        _ROCM,
        3,
        "attention with head size 8 or 80: wrong in half precision, or NaN in fp32 (gfx1150)",
        first(_SDPA, _has_head_with_errors),
    ),
    Rule(
        "aten-sdpa-bf16",
        _ROCM,
        3,
        "bf16 attention: NaN on large inputs (MI300X, gfx1151)",
        first(_SDPA, _may_be_bf16),
    ),
    Rule(
        "aten-sdpa-device",
        _ROCM,
        None,
        "attention has no fused kernel on gfx908",
        first(_SDPA, lambda _: True),
    ),
    Rule(
        "aten-grouped-mm",
        _ROCM,
        None,
        "grouped products were refused before the fallback of late 2025",
        first({"_grouped_mm", "_scaled_grouped_mm"}, lambda _: True),
    ),
    Rule(
        "aten-scaled-mm",
        _ROCM,
        3,
        "scaled FP8 products: a tenth of the H100's rate on MI300X in one report",
        first({"_scaled_mm", "_scaled_mm_v2"}, lambda _: True),
    ),
    Rule(
        "aten-conv-2d-dynamic",
        _ROCM,
        None,
        "a convolution over images of open size: with cudnn.benchmark on, MIOpen searches minutes for each new size",
        first({"conv2d"}, _may_be_open_image),
        extra_source="unslothai/unsloth #11636 (open)",
    ),
    Rule(
        "aten-sparse-int8",
        frozenset({Target.TORCH_CUDA}),
        None,
        "int8 2:4 sparse products are rejected by cuSPARSELt",
        first({"_cslt_sparse_mm"}, lambda _: True),
    ),
)
