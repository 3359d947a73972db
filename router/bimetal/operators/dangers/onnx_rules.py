"""The conditions under which people saw operators fail, hang or crawl, as rules over a graph.

Every rule but the practitioners' is named by rows of router/bimetal/operators/data/operator_reports.csv, which hold
the public threads behind it. Rules about aten operators alone are in `torch_rules`.
"""

from bimetal.operators.dangers import conditions as c
from bimetal.operators.dangers.rule import PRACTITIONERS, Rule, first, model
from bimetal.operators.dangers.torch_rules import TORCH_RULES
from bimetal.operators.matrix.targets import Target

_AMD = frozenset({Target.ROCM, Target.MIGRAPHX, Target.TORCH_ROCM})
_ORT_ON_AMD = _AMD - {Target.TORCH_ROCM}
_CONVS = frozenset({"Conv", "FusedConv", "NhwcConv", "QLinearConv", "ConvInteger", "conv1d", "conv2d", "conv3d"})

RULES = (
    Rule(
        "conv-1d-dynamic",
        _AMD,
        1,
        "a one-dimensional convolution of dynamic length: every new length compiles; on ROCm 5.6 the driver timed out",
        first(_CONVS, lambda node: c.is_spatial(node, 1) and c.dynamic_spatial(node)),
        extra_source=PRACTITIONERS,
    ),
    Rule(
        "lstm-bidirectional-half",
        _AMD,
        1,
        "a stack of four or more bidirectional fp16 LSTM layers: results are silently wrong from batch 110 or so",
        c.bidirectional_stack,
    ),
    Rule(
        "gather-two-dynamic",
        frozenset({Target.MIGRAPHX}),
        1,
        "a Gather over more than one dynamic dimension: MIGraphX cannot compile it",
        first({"Gather"}, lambda node: any(t is not None and len(t.dynamic_axes) > 1 for t in node.inputs)),
    ),
    Rule(
        "fp8-mixed",
        _AMD,
        1,
        "both FP8 encodings (e4m3fn and e4m3fnuz) in one model: gfx942 takes only e4m3fnuz and refuses the mix",
        model(c.mixed_fp8),
        whole_model=True,
    ),
    Rule(
        "conv-2d-dynamic",
        _ORT_ON_AMD,
        2,
        "a convolution over images of dynamic size: each new size is searched and compiled for minutes",
        first(_CONVS, lambda node: c.is_spatial(node, 2) and c.dynamic_spatial(node)),
    ),
    Rule(
        "migraphx-dynamic-shape",
        frozenset({Target.MIGRAPHX}),
        2,
        "inputs with dynamic dimensions beside the batch: MIGraphX compiles inside the request at every new shape",
        model(lambda graph: c.dynamic_inputs(graph, beyond_batch=True)),
        whole_model=True,
    ),
    Rule(
        "migraphx-dynamic-batch",
        frozenset({Target.MIGRAPHX}),
        3,
        "a dynamic batch: MIGraphX compiles at every new batch size; serve a few fixed sizes (batch buckets)",
        model(lambda graph: c.dynamic_inputs(graph, beyond_batch=False)),
        whole_model=True,
    ),
    Rule(
        "migraphx-if",
        frozenset({Target.MIGRAPHX}),
        2,
        "an If whose branches hold operators of their own: the provider was seen to fail on such subgraphs",
        c.branch_with_operators,
    ),
    Rule(
        "conv-transpose-2d",
        _AMD,
        2,
        "a two-dimensional ConvTranspose: fails on gfx90a with padding; 19.6 times slower on MI355X than cuDNN on B300",
        first({"ConvTranspose", "conv_transpose2d"}, lambda node: c.is_spatial(node, 2)),
    ),
    Rule(
        "conv-3d-half",
        _AMD,
        2,
        "a three-dimensional convolution in half precision: up to 70 s a call",
        first(_CONVS, lambda node: c.is_spatial(node, 3) and c.half(node)),
    ),
    Rule(
        "conv-1d",
        _AMD,
        3,
        "a one-dimensional convolution: MIOpen ran speech models eight times slower than the CPU",
        first(_CONVS, lambda node: c.is_spatial(node, 1) and not c.dynamic_spatial(node)),
    ),
    Rule(
        "conv-grouped-half",
        _AMD,
        3,
        "a grouped fp16 convolution: NaN or wrong results on gfx12",
        first(_CONVS, lambda node: c.half(node) and c.group(node) > 1),
    ),
    Rule(
        "conv-large-kernel-half",
        _AMD,
        3,
        "an fp16 convolution with a kernel of 23x23 or more: errors above 1.0 on gfx90a",
        first(_CONVS, lambda node: c.half(node) and bool(c.kernel(node)) and min(c.kernel(node)) >= 23),
    ),
    Rule(
        "conv-large-image",
        frozenset({Target.MIGRAPHX}),
        3,
        "a convolution over a large image (960x540 or more): compiling hung or took 35 minutes on gfx1201",
        first(_CONVS, lambda node: len(c.sizes(node)) == 2 and c.sizes(node)[0] * c.sizes(node)[1] >= 960 * 540),
    ),
    Rule(
        "tensorrt-nonzero",
        frozenset({Target.TENSORRT}),
        2,
        "a NonZero (an output whose size depends on data) in a model with a dynamic batch: TensorRT cannot build it",
        c.nonzero_of_dynamic_input,
    ),
    Rule(
        "bnb4-block",
        _AMD,
        3,
        "4-bit blocks of 64 or fewer values: unavailable or wrong on 64-wide wavefronts until early 2026",
        first({"MatMulBnb4"}, lambda node: node.attributes.get("block_size") in {32, 64}),
    ),
    Rule(
        "paged-head-size",
        _AMD,
        3,
        "paged attention with a head size other than 64 or 128: vLLM's ROCm kernel refused it",
        first({"PagedAttention"}, c.unusual_head_size),
    ),
    Rule(
        "rocm-batch-normalization",
        frozenset({Target.ROCM}),
        3,
        "BatchNormalization on the ROCm provider: MIOpen failure 7 was reported",
        first({"BatchNormalization"}, lambda _: True),
    ),
    Rule(
        "conv-depthwise-half",
        _AMD,
        None,
        "an fp16 depthwise 3x3 convolution: results are two fp16 steps off",
        first(_CONVS, c.depthwise_3x3_half),
    ),
    Rule(
        "conv-tiny",
        _AMD,
        None,
        "a convolution over 2x2 pixels or fewer: MIOpen searched 10 s for a kernel",
        first(_CONVS, lambda node: len(c.sizes(node)) == 2 and max(c.sizes(node)) <= 2),
    ),
    Rule(
        "migraphx-einsum",
        frozenset({Target.MIGRAPHX}),
        None,
        "Einsum: ROCm 6.0 did not know it; later MIGraphX does, with limits",
        first({"Einsum"}, lambda _: True),
    ),
    Rule(
        "topk-narrow",
        _AMD,
        None,
        "an fp32 TopK over 256 values or fewer: slower on MI250 with newer ROCm, and other valid indices",
        first({"TopK", "topk"}, c.narrow_fp32),
    ),
    Rule(
        "cuda-conv-transpose",
        frozenset({Target.CUDA}),
        None,
        "ConvTranspose: CPU and CUDA results were seen to differ",
        first({"ConvTranspose"}, lambda _: True),
    ),
    Rule(
        "cuda-mha-mask",
        frozenset({Target.CUDA}),
        None,
        "fp16 MultiHeadAttention with a mask: inaccurate against PyTorch",
        first({"MultiHeadAttention"}, lambda node: c.half(node) and node.input(4) is not None),
    ),
    Rule(
        "cuda-sparse-attention",
        frozenset({Target.CUDA}),
        None,
        "block-sparse attention: no native kernel on sm100 was found in one library",
        first({"SparseAttention"}, lambda _: True),
    ),
    Rule(
        "rocm-gone",
        frozenset({Target.ROCM}),
        None,
        "the ROCm provider ends with onnxruntime 1.22; later versions have MIGraphX only",
        model(lambda _: True),
        whole_model=True,
    ),
    *TORCH_RULES,
)
