"""From a model to its score for a provider, and to who should run it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.helper import make_node

from bimetal.operators import Placement, analyze, default_matrix, judge, place

CUDA, TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"
ROCM, MIGRAPHX, CPU = "ROCMExecutionProvider", "MIGraphXExecutionProvider", "CPUExecutionProvider"

Save = Callable[..., Path]


def placed(file: Path) -> Placement:
    return place(analyze(file), default_matrix())


def test_an_expensive_operator_that_falls_back_sinks_the_model(save: Save) -> None:
    node = make_node("QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"])
    weights = {"s": np.array(1, np.float32), "z": np.array(0, np.uint8), "w": np.zeros((64, 64, 3, 3), np.uint8)}
    verdict = judge(save([node], {"uint8:x": [1, 64, 56, 56]}, ["y"], weights, opset=13), CUDA)
    assert verdict.score == 1
    assert verdict.fallback == ("QLinearConv(10)",)


def heavy_with_a_cheap_branch(save: Save, operator: str, opset: int) -> Path:
    """Three large products in a chain, and the operator on a few numbers beside them."""
    nodes = [
        make_node("MatMul", ["x", "w"], ["a"]),
        make_node("MatMul", ["a", "w"], ["b"]),
        make_node("MatMul", ["b", "w"], ["y"]),
        make_node(operator, ["small"], ["z"]),
    ]
    return save(nodes, {"x": [65536, 1024], "small": [4]}, ["y", "z"], {"w": [1024, 1024]}, opset=opset)


def test_a_cheap_operator_off_the_critical_path_does_not_sink_a_model(save: Save) -> None:
    verdict = judge(heavy_with_a_cheap_branch(save, "Softplus", 22), CUDA)
    assert verdict.score == 4
    assert verdict.fallback == ("Softplus(22)",)
    fallen = next(reason for reason in verdict.reasons if reason.operator == "Softplus")
    assert fallen.score == 1
    assert 0 < fallen.share < 0.05


def test_an_operator_that_nothing_can_run_makes_the_model_0_however_cheap(save: Save) -> None:
    node = make_node("RandomUniformLike", ["small"], ["z"])
    nodes = [make_node("MatMul", ["x", "w"], ["y"]), node]
    file = save(nodes, {"x": [65536, 1024], "small": [4]}, ["y", "z"], {"w": [1024, 1024]}, opset=22)
    verdict = judge(file, CPU)
    assert verdict.score == 0
    assert verdict.reasons[0].operator == "RandomUniformLike"
    assert verdict.reasons[0].share < 0.1


def test_the_first_reason_names_operator_opset_provider_and_source(save: Save) -> None:
    file = save([make_node("Softplus", ["x"], ["y"])], {"x": [1, 1000]}, ["y"], opset=22)
    verdict = judge(file, CUDA)
    first = verdict.reasons[0]
    assert (verdict.score, first.score, first.operator, first.version, first.opset) == (1, 1, "Softplus", 22, 22)
    assert first.text == (
        "Softplus at opset 22 runs only on the CPU with CUDAExecutionProvider: CUDA kernels match up to opset 21: "
        "the node runs on the CPU (1 node, 100% of the time)."
    )
    assert "onnxruntime CUDA kernels" in first.source


def test_reasons_are_sorted_worst_first(transformer: Callable[[int], Path]) -> None:
    for provider in (CUDA, MIGRAPHX, CPU):
        verdict = judge(transformer(23), provider)
        effects = [reason.effect for reason in verdict.reasons]
        assert effects == sorted(effects)
        assert verdict.value == effects[0]


def test_an_operator_that_no_source_knows_scores_0_and_says_so(save: Save) -> None:
    node = make_node("Frobnicate", ["x"], ["y"], domain="com.example")
    verdict = judge(save([node], {"x": [4]}, ["y"], com_example=1), CUDA)
    assert verdict.score == 0
    assert "com.example.Frobnicate at opset 1 does not run" in verdict.reasons[0].text


@pytest.mark.parametrize(("kind", "score"), [("fp16", 5), ("fp32", 1)])
def test_a_type_without_a_kernel_falls_back(save: Save, kind: str, score: int) -> None:
    """GroupQueryAttention on CUDA has fp16 and bf16 kernels only."""
    shapes = {f"{kind}:q": [1, 8, 64], f"{kind}:k": [1, 8, 64], f"{kind}:v": [1, 8, 64]}
    node = make_node("GroupQueryAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=4, kv_num_heads=4)
    verdict = judge(save([node], shapes, ["y"], com_microsoft=1), CUDA)
    assert verdict.score == score
    assert ("no kernel for fp32" in verdict.reasons[0].text) == (kind == "fp32")


def test_rope_goes_to_nvidia_and_the_practitioners_are_heard(save: Save) -> None:
    node = make_node("RotaryEmbedding", ["x", "cos", "sin"], ["y"])
    file = save([node], {"x": [1, 4, 8, 16]}, ["y"], {"cos": [1, 8, 8], "sin": [1, 8, 8]}, opset=23)
    assert judge(file, CUDA).score == 5
    amd = judge(file, MIGRAPHX)
    assert amd.score == 2
    assert "practitioners agree (RoPE runs through a conversion on ROCm 5.6)" in amd.reasons[0].text


def test_a_contradicted_finding_is_shown_beside_the_fact(save: Save) -> None:
    shapes = {"fp16:q": [1, 8, 64], "fp16:k": [1, 8, 64], "fp16:v": [1, 8, 64]}
    node = make_node("SparseAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=4, kv_num_heads=4)
    verdict = judge(save([node], shapes, ["y"], com_microsoft=1), MIGRAPHX)
    assert verdict.score == 1
    assert "practitioners say otherwise (Block Sparse Attention is strong on AMD)" in verdict.reasons[0].text


def test_must_may_and_fallback_tell_who_can_run_each_operator(save: Save) -> None:
    nodes = [
        make_node("Tan", ["x"], ["t"]),  # MIGraphX only
        make_node("MoE", ["t", "r", "f", "", "g"], ["m"], domain="com.microsoft"),  # CUDA only
        make_node("Relu", ["m"], ["u"]),  # both
        make_node("Det", ["u"], ["y"]),  # neither
    ]
    weights = {"r": [4, 2], "f": [2, 4, 8], "g": [2, 8, 4]}
    placement = placed(save(nodes, {"x": [4, 4]}, ["y"], weights, opset=13, com_microsoft=1))
    assert placement.must == {"Tan(7)": MIGRAPHX, "com.microsoft.MoE(1)": CUDA}
    assert placement.may == {"Relu(13)": (CUDA, MIGRAPHX)}
    assert placement.fallback == ("Det(11)",)


def test_the_preference_sums_to_1_and_leaves_out_who_cannot_run_the_model(save: Save) -> None:
    shapes = {"fp16:q": [1, 8, 64], "fp16:k": [1, 8, 64], "fp16:v": [1, 8, 64]}
    node = make_node("PackedAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=4)
    preference = placed(save([node], shapes, ["y"], com_microsoft=1)).preference
    assert preference == {CUDA: 1.0, MIGRAPHX: 0.0, CPU: 0.0}


def test_a_model_of_views_only_is_judged_like_any_other(save: Save) -> None:
    assert judge(save([make_node("Identity", ["x"], ["y"])], {"x": [4]}, ["y"]), CPU).score == 4


def test_an_unknown_provider_is_refused_with_those_that_are_known(save: Save) -> None:
    file = save([make_node("Relu", ["x"], ["y"])], {"x": [4]}, ["y"])
    with pytest.raises(ValueError, match=r"'VitisAI' has no column .* CUDAExecutionProvider"):
        judge(file, "VitisAI")


LIMITS: list[tuple[str, str, onnx.NodeProto, int, str]] = [
    ("Slice with constant ends", MIGRAPHX, make_node("Slice", ["x", "zero", "one"], ["y"]), 4, ""),
    (
        "Slice with computed ends",
        MIGRAPHX,
        make_node("Slice", ["x", "zero", "n"], ["y"]),
        1,
        "'n' is computed at run time",
    ),
    ("Expand to a computed shape", MIGRAPHX, make_node("Expand", ["x", "n"], ["y"]), 1, "must be constant"),
    ("plain MaxPool", MIGRAPHX, make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2]), 4, ""),
    (
        "dilated MaxPool",
        MIGRAPHX,
        make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2]),
        1,
        "dilations is (2, 2)",
    ),
    (
        "MaxPool with indices",
        MIGRAPHX,
        make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2]),
        1,
        "second output",
    ),
    (
        "ArgMax of the last index",
        MIGRAPHX,
        make_node("ArgMax", ["x"], ["y"], select_last_index=1),
        1,
        "select_last_index is 1",
    ),
    ("ArgMax", MIGRAPHX, make_node("ArgMax", ["x"], ["y"]), 4, ""),
    ("ReduceSum with constant axes", MIGRAPHX, make_node("ReduceSum", ["x", "zero"], ["y"]), 4, ""),
    ("ReduceSum with computed axes", MIGRAPHX, make_node("ReduceSum", ["x", "n"], ["y"]), 1, "must be constant"),
    (
        "ReduceSum with computed axes",
        TENSORRT,
        make_node("ReduceSum", ["x", "n"], ["y"]),
        3,
        "the CUDA provider behind it",
    ),
    ("plain MaxPool", TENSORRT, make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2]), 4, ""),
]


@pytest.mark.parametrize(
    ("provider", "node", "score", "words"), [case[1:] for case in LIMITS], ids=[f"{c[0]} on {c[1][:8]}" for c in LIMITS]
)
def test_a_documented_limit_counts_only_where_the_node_breaks_it(
    save: Save, provider: str, node: onnx.NodeProto, score: int, words: str
) -> None:
    weights = {"zero": np.array([0], np.int64), "one": np.array([1], np.int64)}
    inputs = {"x": [1, 3, 8, 8], "int64:n": [1]} if "n" in node.input else {"x": [1, 3, 8, 8]}
    reason = next(
        r for r in judge(save([node], inputs, ["y"], weights, opset=17), provider).reasons if r.operator != "*"
    )
    assert reason.score == score
    assert words in reason.text


def scores(file: Path) -> dict[str, int]:
    return {provider: judge(file, provider).score for provider in (CUDA, MIGRAPHX, ROCM, TENSORRT, CPU)}


@pytest.mark.parametrize("opset", range(13, 23))
def test_a_transformer_block_of_primitive_operators_runs_natively_on_both_vendors(
    transformer: Callable[[int], Path], opset: int
) -> None:
    by_provider = scores(transformer(opset))
    assert min(by_provider[provider] for provider in (CUDA, MIGRAPHX, TENSORRT, CPU)) >= 4
    # The ROCm provider's Transpose and Reshape end at opset 20.
    assert (by_provider[ROCM] >= 4) == (opset <= 20)


def test_a_transformer_block_at_opset_23_runs_natively_on_nvidia_only(transformer: Callable[[int], Path]) -> None:
    by_provider = scores(transformer(23))
    assert by_provider[CUDA] == 5
    assert by_provider[MIGRAPHX] == 1  # RMSNormalization is not there


def test_a_transformer_block_at_opset_24_loses_its_transposes_on_cuda_to_the_cpu(
    transformer: Callable[[int], Path],
) -> None:
    verdict = judge(transformer(24), CUDA)
    assert verdict.score == 1
    assert "Transpose(24)" in verdict.fallback
