"""Operators that nobody has a kernel for: onnxruntime puts their function body in place, and its operators decide."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.backend.test.case.node import collect_testcases
from onnx.helper import make_node

from bimetal.operators import analyze, default_matrix, judge
from bimetal.operators.matrix.matrix import INLINED
from bimetal.operators.matrix.targets import Target
from bimetal.operators.node_judge import NodeJudge
from bimetal.operators.onnx.function_body import body_of
from bimetal.operators.onnx.reader import read_graph

CUDA, MIGRAPHX, CPU = "CUDAExecutionProvider", "MIGraphXExecutionProvider", "CPUExecutionProvider"
Save = Callable[..., Path]


def mish(save: Save, opset: int) -> Path:
    return save([make_node("Mish", ["x"], ["y"])], {"x": [64, 64]}, ["y"], opset=opset)


def test_a_body_of_native_operators_is_a_conversion_and_names_them(save: Save) -> None:
    verdict = judge(mish(save, 18), CUDA)
    assert verdict.score == 2
    assert verdict.reasons[0].text == (
        "Mish at opset 18 runs through a conversion with CUDAExecutionProvider: no CUDA kernel: its function body is "
        "inlined (Softplus, Tanh, Mul: all native) (1 node, 100% of the time)."
    )
    assert "graph partitioner" in verdict.reasons[0].source


def test_a_body_with_an_operator_that_falls_back_falls_back(save: Save) -> None:
    """At opset 22 CUDA's Softplus kernel matches no more, so Mish's body ends on the CPU; MIGraphX takes all of it."""
    file = mish(save, 22)
    verdict = judge(file, CUDA)
    assert (verdict.score, verdict.fallback) == (1, ("Mish(22)",))
    assert "its Softplus(22): CUDA kernels match up to opset 21" in verdict.reasons[0].text
    assert judge(file, MIGRAPHX).score == 2


def test_the_type_of_the_node_reaches_its_body(save: Save) -> None:
    file = save([make_node("Swish", ["x"], ["y"])], {"fp16:x": [4]}, ["y"], opset=24)
    (node,) = read_graph(file).nodes
    kinds = {tensor.type for each in body_of(node) for tensor in each.outputs if tensor and not tensor.constant}
    assert kinds == {"fp16"}


def test_inputs_that_are_constant_stay_constant_in_the_body(save: Save) -> None:
    """MIGraphX refuses a Pad whose widths are computed at run time."""
    node, shape = [make_node("CenterCropPad", ["x", "shape"], ["y"])], {"shape": np.array([2, 2], np.int64)}

    def widths_are_constant(file: Path) -> bool:
        pad = next(each for each in body_of(read_graph(file).nodes[0]) if each.operator == "Pad")
        widths = pad.input(1)
        return widths is not None and widths.constant

    assert widths_are_constant(save(node, {"x": [4, 4]}, ["y"], shape, opset=18))
    assert not widths_are_constant(save(node, {"x": [4, 4], "int64:shape": [2]}, ["y"], opset=18))


def test_a_body_inside_a_body_is_followed(save: Save) -> None:
    node = make_node("SoftmaxCrossEntropyLoss", ["x", "labels"], ["y"])
    file = save([node], {"x": [4, 10], "int64:labels": [4]}, ["y"], opset=13)
    (graph_node,) = read_graph(file).nodes
    assert "NegativeLogLikelihoodLoss" in {each.operator for each in body_of(graph_node)}
    assert "its NegativeLogLikelihoodLoss(13)" in judge(file, CUDA).reasons[0].text


def test_an_unknown_type_has_no_body_to_look_at(save: Save) -> None:
    unknown = make_node("Frobnicate", ["x"], ["t"], domain="vendor")
    file = save([unknown, make_node("Mish", ["t"], ["y"])], {"x": [4]}, ["y"], opset=18, vendor=1)
    node = read_graph(file).nodes[-1]
    assert body_of(node) == ()
    assert "its function body is inlined" in NodeJudge(default_matrix(), Target.CUDA).finding(node).detail


@pytest.fixture(scope="module")
def cases_with_bodies() -> list[tuple[str, onnx.ModelProto]]:
    """ONNX's node tests of operators that the CPU provider inlines, one each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        cases = collect_testcases(None)
    found = {}
    for case in cases:
        if case.model is None or len(case.model.graph.node) != 1 or case.model.functions:
            continue
        node, opsets = case.model.graph.node[0], {entry.domain: entry.version for entry in case.model.opset_import}
        if node.domain or node.op_type == "SequenceMap":  # its body is a graph of the model's own
            continue
        version = onnx.defs.get_schema(node.op_type, opsets[""], "").since_version
        judgement = default_matrix().judge("ai.onnx", node.op_type, version, Target.CPU)
        if judgement and judgement.fact and judgement.fact.limits.endswith(INLINED):
            found[node.op_type] = (case.name, case.model)
    return list(found.values())


def put_in_place(file: Path, saved: Path) -> set[str]:
    """The operators that a session of the CPU provider has after onnxruntime's partitioning."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(saved)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(file), options, providers=[CPU])
    return {each.op_type for each in onnx.load(saved).graph.node}


def test_bodies_hold_the_operators_that_onnxruntime_puts_in_place(
    cases_with_bodies: list[tuple[str, onnx.ModelProto]], tmp_path: Path
) -> None:
    assert len(cases_with_bodies) > 8
    for name, model in cases_with_bodies:
        file = tmp_path / f"{name}.onnx"
        file.write_bytes(model.SerializeToString())
        body = body_of(analyze(file).graph.nodes[0])
        flat = {each.operator for each in body} | {inner.operator for each in body for inner in body_of(each)}
        assert put_in_place(file, tmp_path / "saved.onnx") - {"Constant"} <= flat | {"Identity"}, name
