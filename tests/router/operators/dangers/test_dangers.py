"""Public reports of operators that fail, hang or crawl on one vendor: a file that shows the condition is warned of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.helper import make_node

from bimetal.operators import Verdict, judge
from bimetal.operators.dangers.dangers import REPORTS_FILE
from bimetal.operators.dangers.onnx_rules import RULES
from bimetal.operators.matrix.matrix import read_rows

CUDA, TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"
ROCM, MIGRAPHX, CPU = "ROCMExecutionProvider", "MIGraphXExecutionProvider", "CPUExecutionProvider"

Save = Callable[..., Path]


@dataclass(frozen=True)
class Case:
    """The reports (by number), the rule that must see the model, and the score that it is left with at most.

    `harmless_...` make the same model without the condition: other inputs, nodes or weights.
    """

    reports: tuple[int, ...]
    rule: str
    provider: str
    nodes: Sequence[onnx.NodeProto]
    inputs: Mapping[str, Sequence[int | str | None]]
    weights: Mapping[str, Any] = field(default_factory=dict)
    at_most: int = 5
    opset: int = 17
    domains: Mapping[str, int] = field(default_factory=dict)
    harmless_inputs: Mapping[str, Sequence[int | str | None]] | None = None
    harmless_nodes: Sequence[onnx.NodeProto] | None = None
    harmless_weights: Mapping[str, Any] | None = None


def conv(**attributes: Any) -> list[onnx.NodeProto]:
    return [make_node("Conv", ["x", "w"], ["y"], **attributes)]


def layers(count: int) -> list[onnx.NodeProto]:
    nodes = []
    for layer in range(count):
        lstm = make_node(
            "LSTM", [f"x{layer}" if layer else "x", "w", "r"], [f"h{layer}"], hidden_size=3, direction="bidirectional"
        )
        nodes += [lstm, make_node("ReduceSum", [f"h{layer}", "axis"], [f"x{layer + 1}"], keepdims=0)]
    return [*nodes, make_node("Identity", [f"x{count}"], ["y"])]


def choice(*operators: str) -> list[onnx.NodeProto]:
    branches = [
        helper.make_graph([make_node(op, ["x"], [op])], op, [], [helper.make_empty_tensor_value_info(op)])
        for op in operators
    ]
    return [make_node("If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[-1])]


def bnb4(block_size: int) -> list[onnx.NodeProto]:
    return [make_node("MatMulBnb4", ["x", "w"], ["y"], domain="com.microsoft", K=64, N=64, block_size=block_size)]


def attention(*inputs: str) -> list[onnx.NodeProto]:
    return [make_node("MultiHeadAttention", inputs, ["y"], domain="com.microsoft", num_heads=12)]


LSTM_WEIGHTS = {"fp16:w": [2, 12, 3], "fp16:r": [2, 12, 3], "axis": np.array([1], np.int64)}
FP8_PAIR = [
    make_node("Cast", ["x"], ["a"], to=onnx.TensorProto.FLOAT8E4M3FN),
    make_node("Cast", ["x"], ["b"], to=onnx.TensorProto.FLOAT8E4M3FNUZ),
    make_node("Cast", ["a"], ["c"], to=onnx.TensorProto.FLOAT),
    make_node("Cast", ["b"], ["d"], to=onnx.TensorProto.FLOAT),
    make_node("Add", ["c", "d"], ["y"]),
]
FP8_ALONE = [
    make_node("Cast", ["x"], ["a"], to=onnx.TensorProto.FLOAT8E4M3FNUZ),
    make_node("Cast", ["a"], ["y"], to=onnx.TensorProto.FLOAT),
]

CASES = [
    # pytorch/pytorch #177834: four bidirectional fp16 layers are silently wrong from batch 110 on
    Case((1,), "lstm-bidirectional-half", MIGRAPHX, layers(4), {"fp16:x": [5, 128, 3]}, LSTM_WEIGHTS, 1,
         harmless_inputs={"fp16:x": [5, 64, 3]}),
    # ROCm/rocm-libraries #7024: fp16 Winograd with a 23x23 kernel
    Case((8,), "conv-large-kernel-half", MIGRAPHX, conv(), {"fp16:x": [1, 1, 48, 50]}, {"fp16:w": [1, 1, 23, 23]}, 3,
         harmless_weights={"fp16:w": [1, 1, 7, 7]}),
    # ROCm/rocm-libraries #12334: fp16 depthwise 3x3
    Case((9,), "conv-depthwise-half", MIGRAPHX, conv(group=8), {"fp16:x": [1, 8, 9, 9]}, {"fp16:w": [8, 1, 3, 3]},
         harmless_weights={"fp16:w": [8, 1, 5, 5]}),
    # ROCm/rocm-libraries #4998: grouped fp16 convolution
    Case((10,), "conv-grouped-half", ROCM, conv(group=2), {"fp16:x": [1, 8, 9, 9]}, {"fp16:w": [8, 4, 3, 3]}, 3,
         harmless_inputs={"x": [1, 8, 9, 9]}),
    # ROCm/TheRock #7621 and ROCm/MIOpen #3952: ConvTranspose2d fails on gfx90a and crawls on MI355X
    Case((11, 12), "conv-transpose-2d", MIGRAPHX, [make_node("ConvTranspose", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
         {"x": [1, 4, 5, 5]}, {"w": [4, 8, 3, 3]}, 2, harmless_nodes=[make_node("Relu", ["x"], ["y"])]),
    # pytorch/pytorch #146998: 70 s a call for a three-dimensional convolution
    Case((13,), "conv-3d-half", MIGRAPHX, conv(), {"fp16:x": [1, 4, 5, 9, 9]}, {"fp16:w": [4, 4, 3, 3, 3]}, 2,
         harmless_inputs={"x": [1, 4, 5, 9, 9]}),
    # remsky/Kokoro-FastAPI PR #518, and the practitioners' time-out on ROCm 5.6
    Case((14,), "conv-1d-dynamic", MIGRAPHX, conv(), {"x": [1, 4, "length"]}, {"w": [4, 4, 3]}, 1,
         harmless_inputs={"x": [1, 4, 100]}),
    # ROCm/MIOpen #3650: one-dimensional convolutions slower than the CPU
    Case((15,), "conv-1d", ROCM, conv(), {"x": [1, 4, 100]}, {"w": [4, 4, 3]}, 3,
         harmless_nodes=[make_node("Relu", ["x"], ["y"])]),
    # ROCm/MIOpen #717: ten seconds of kernel search for a 2x2 image
    Case((16,), "conv-tiny", MIGRAPHX, conv(), {"x": [1, 3, 2, 2]}, {"w": [4, 3, 1, 1]},
         harmless_inputs={"x": [1, 3, 32, 32]}),
    # unslothai/unsloth #11636 and immich-app/immich #29559: images of dynamic size
    Case((17, 19), "conv-2d-dynamic", ROCM, conv(), {"x": [1, 3, "height", "width"]}, {"w": [4, 3, 3, 3]}, 2,
         harmless_inputs={"x": ["batch", 3, 32, 32]}),
    # ROCm/AMDMIGraphX #4618 and #4846: a compile in the request for every new shape
    Case((18, 21), "migraphx-dynamic-shape", MIGRAPHX, [make_node("Relu", ["x"], ["y"])],
         {"x": ["batch", "tokens"]}, {}, 2, harmless_inputs={"x": ["batch", 16]}),
    # lightvector/KataGo PR #1235: the batch changes from call to call
    Case((20,), "migraphx-dynamic-batch", MIGRAPHX, [make_node("Relu", ["x"], ["y"])], {"x": ["batch", 16]}, {}, 3,
         harmless_inputs={"x": [8, 16]}),
    # ROCm/AMDMIGraphX #4844: a lookup over two dynamic dimensions does not compile
    Case((22,), "gather-two-dynamic", MIGRAPHX, [make_node("Gather", ["table", "x"], ["y"])],
         {"int64:x": ["batch", "tokens"]}, {"table": [100, 8]}, 1, harmless_inputs={"int64:x": ["batch", 16]}),
    # ROCm/AMDMIGraphX #4029: compiling for a 1280x720 image hangs or takes 35 minutes
    Case((23,), "conv-large-image", MIGRAPHX, conv(), {"x": [1, 1, 720, 1280]}, {"w": [8, 1, 3, 3]}, 3,
         harmless_inputs={"x": [1, 1, 224, 224]}),
    # ROCm/AMDMIGraphX #1641: If with a subgraph of its own
    Case((26,), "migraphx-if", MIGRAPHX, choice("Exp", "Neg"), {"x": [4], "bool:flag": []}, {}, 2,
         harmless_nodes=choice("Identity")),
    # ROCm/AMDMIGraphX #2755: Einsum was unknown
    Case((27,), "migraphx-einsum", MIGRAPHX, [make_node("Einsum", ["x", "x"], ["y"], equation="ij,jk->ik")],
         {"x": [4, 4]}, {}, 3, harmless_nodes=[make_node("MatMul", ["x", "x"], ["y"])]),
    # microsoft/onnxruntime #20203: MIOpen failure 7 in BatchNormalization
    Case((28,), "rocm-batch-normalization", ROCM, [make_node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y"])],
         {"x": [1, 4, 8, 8]}, {"s": [4]}, 3, harmless_nodes=[make_node("Relu", ["x"], ["y"])]),
    # sgl-project/sglang #28889: the two FP8 encodings do not mix
    Case((31,), "fp8-mixed", MIGRAPHX, FP8_PAIR, {"x": [4]}, {}, 1, 19, harmless_nodes=FP8_ALONE),
    # ROCm/TheRock #6281: fp32 TopK over 256 values
    Case((32,), "topk-narrow", ROCM, [make_node("TopK", ["x", "k"], ["v", "y"])], {"x": [64, 256]},
         {"k": np.array([8], np.int64)}, harmless_inputs={"x": [64, 4096]}),
    # vllm-project/vllm PR #53177: paged attention with a head size other than 64 and 128
    Case((34,), "paged-head-size", ROCM,
         [make_node("PagedAttention", ["x"], ["y"], domain="com.microsoft", num_heads=4)],
         {"fp16:x": [8, 4 * 80]}, {}, 3, domains={"com_microsoft": 1}, harmless_inputs={"fp16:x": [8, 4 * 128]}),
    # bitsandbytes PR #1856: 4-bit blocks of 64 values
    Case((35,), "bnb4-block", MIGRAPHX, bnb4(64), {"x": [2, 64]}, {"uint8:w": [2048]}, 3, domains={"com_microsoft": 1},
         harmless_nodes=bnb4(128)),
    # microsoft/onnxruntime #25210: CPU and CUDA results of ConvTranspose differ
    Case((38,), "cuda-conv-transpose", CUDA, [make_node("ConvTranspose", ["x", "w"], ["y"])], {"x": [1, 4, 5, 5]},
         {"w": [4, 8, 3, 3]}, harmless_nodes=[make_node("Relu", ["x"], ["y"])]),
    # microsoft/onnxruntime #26246: fp16 MultiHeadAttention with a mask
    Case((39,), "cuda-mha-mask", CUDA, attention("x", "x", "x", "", "m"),
         {"fp16:x": [4, 512, 768], "int32:m": [4, 512]}, domains={"com_microsoft": 1},
         harmless_nodes=attention("x", "x", "x")),
    # NVIDIA/TensorRT #3372: a result whose size depends on data, in a model with a dynamic batch
    Case((41,), "tensorrt-nonzero", TENSORRT, [make_node("NonZero", ["x"], ["y"])], {"x": ["batch", 4]}, {}, 2,
         harmless_inputs={"x": [2, 4]}),
    # flashinfer-ai/flashinfer #3587: no native block-sparse kernel on sm100
    Case((42,), "cuda-sparse-attention", CUDA,
         [make_node("SparseAttention", ["x", "x", "x"], ["y"], domain="com.microsoft", num_heads=4, kv_num_heads=4)],
         {"fp16:x": [1, 8, 64]}, {}, domains={"com_microsoft": 1}, harmless_nodes=[make_node("Relu", ["x"], ["y"])]),
]  # fmt: skip


def warned(verdict: Verdict, rule: str) -> bool:
    warning = next(known.warning for known in RULES if known.name == rule)
    return any(warning in reason.text for reason in verdict.warnings)


def written(save: Save, case: Case, *, harmless: bool = False) -> Path:
    nodes = case.harmless_nodes if harmless and case.harmless_nodes is not None else case.nodes
    inputs = case.harmless_inputs if harmless and case.harmless_inputs is not None else case.inputs
    half = any(name.startswith("fp16:") for name in inputs)
    chosen = case.harmless_weights if harmless and case.harmless_weights is not None else case.weights
    weights = {name if half else name.removeprefix("fp16:"): value for name, value in chosen.items()}
    return save(nodes, inputs, ["y"], weights, opset=case.opset, name=f"{harmless}.onnx", **case.domains)


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_a_condition_that_a_report_names_is_warned_of_with_its_thread(save: Save, case: Case) -> None:
    verdict = judge(written(save, case), case.provider)
    assert warned(verdict, case.rule)
    assert verdict.score <= case.at_most
    threads = {row["thread"] for _, row in read_rows(REPORTS_FILE, ("thread",)) if int(row["number"]) in case.reports}
    sources = "; ".join(warning.source for warning in verdict.warnings)
    assert all(thread in sources for thread in threads)


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_without_the_condition_there_is_no_warning(save: Save, case: Case) -> None:
    assert not warned(judge(written(save, case, harmless=True), case.provider), case.rule)


@pytest.mark.parametrize("case", CASES, ids=[case.rule for case in CASES])
def test_the_cpu_is_not_warned_of(save: Save, case: Case) -> None:
    assert judge(written(save, case), CPU).warnings == ()


@pytest.mark.parametrize(
    ("operator", "opset"),
    [
        ("Pad", 19), ("ConvTranspose", 22), ("MaxPool", 22), ("GlobalAveragePool", 22), ("TopK", 24), ("Flatten", 21),
        ("Identity", 21), ("If", 21), ("Loop", 21), ("Scan", 21), ("ConstantOfShape", 20), ("Size", 19),
    ],
)  # fmt: skip
def test_an_opset_newer_than_the_cuda_kernel_means_the_cpu(
    operator: str, opset: int, matrix_score: Callable[..., int]
) -> None:
    """microsoft/onnxruntime #26393 and its relatives (report 36)."""
    assert matrix_score(operator, opset, CUDA) == 1
    assert matrix_score(operator, opset - 1, CUDA) >= 4


@pytest.mark.parametrize("operator", ["Shape", "Transpose", "Squeeze", "Unsqueeze"])
def test_what_was_fixed_for_opset_21_is_native_there(operator: str, matrix_score: Callable[..., int]) -> None:
    """microsoft/onnxruntime #26065 (report 37), fixed by #26075."""
    assert matrix_score(operator, 21, CUDA) >= 4


def test_any_model_on_the_rocm_provider_is_told_that_the_provider_is_gone(save: Save) -> None:
    """microsoft/onnxruntime PR #25181 (report 43)."""
    verdict = judge(save([make_node("Relu", ["x"], ["y"])], {"x": [4]}, ["y"]), ROCM)
    assert warned(verdict, "rocm-gone")
    assert verdict.score == 5
