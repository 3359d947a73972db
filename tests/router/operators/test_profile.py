"""What operators cost, and which of them a model waits for."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.helper import make_node

from bimetal.operators.costs.cost import Cost
from bimetal.operators.profile import Profile, analyze

Save = Callable[..., Path]

COUNTED: list[tuple[str, onnx.NodeProto, Mapping[str, Sequence[int]], Mapping[str, Sequence[int]], int]] = [
    ("MatMul", make_node("MatMul", ["x", "w"], ["y"]), {"x": [2, 5, 8]}, {"w": [8, 16]}, 2 * (2 * 5 * 16) * 8),
    ("Gemm", make_node("Gemm", ["x", "w"], ["y"], transA=1), {"x": [8, 5]}, {"w": [8, 16]}, 2 * (5 * 16) * 8),
    ("Conv", make_node("Conv", ["x", "w"], ["y"]), {"x": [1, 8, 9, 9]}, {"w": [16, 8, 3, 3]}, 2 * (16 * 7 * 7) * 8 * 9),
    (
        "grouped Conv",
        make_node("Conv", ["x", "w"], ["y"], group=8),
        {"x": [1, 8, 9, 9]},
        {"w": [8, 1, 3, 3]},
        2 * (8 * 7 * 7) * 9,
    ),
    (
        "ConvTranspose",
        make_node("ConvTranspose", ["x", "w"], ["y"]),
        {"x": [1, 8, 5, 5]},
        {"w": [8, 4, 3, 3]},
        2 * (8 * 5 * 5) * 4 * 9,
    ),
    (
        "LSTM",
        make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=6),
        {"x": [7, 2, 3]},
        {"w": [1, 24, 3], "r": [1, 24, 6]},
        2 * (7 * 2) * (24 * 3 + 24 * 6),
    ),
    (
        "Einsum",
        make_node("Einsum", ["x", "w"], ["y"], equation="bij,jk->bik"),
        {"x": [2, 3, 4]},
        {"w": [4, 5]},
        2 * 2 * 3 * 4 * 5,
    ),
    (
        "Einsum with an ellipsis",
        make_node("Einsum", ["x", "w"], ["y"], equation="...ij,jk->...ik"),
        {"x": [6, 2, 3, 4]},
        {"w": [4, 5]},
        2 * 6 * 2 * 3 * 4 * 5,
    ),
    (
        "MaxPool",
        make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
        {"x": [1, 3, 8, 8]},
        {},
        3 * 16 * 4,
    ),
    ("Softmax", make_node("Softmax", ["x"], ["y"]), {"x": [4, 10]}, {}, 8 * 40),
    ("ReduceMean", make_node("ReduceMean", ["x"], ["y"], axes=[1]), {"x": [4, 10]}, {}, 40),
    ("Relu", make_node("Relu", ["x"], ["y"]), {"x": [4, 10]}, {}, 40),
    ("Transpose", make_node("Transpose", ["x"], ["y"]), {"x": [4, 10]}, {}, 0),
]


@pytest.mark.parametrize(
    ("node", "inputs", "weights", "flops"), [case[1:] for case in COUNTED], ids=[c[0] for c in COUNTED]
)
def test_flops_follow_from_the_shapes(
    save: Save, node: onnx.NodeProto, inputs: Mapping[str, Any], weights: Mapping[str, Any], flops: int
) -> None:
    profile = analyze(save([node], inputs, ["y"], weights, opset=13))
    assert profile.flops == flops
    assert profile.uncounted == 0


def test_attention_counts_both_products_over_the_keys(save: Save) -> None:
    shapes = {"q": [1, 4, 10, 8], "k": [1, 4, 32, 8], "v": [1, 4, 32, 8]}
    profile = analyze(save([make_node("Attention", ["q", "k", "v"], ["y"])], shapes, ["y"], opset=23))
    assert profile.flops == 2 * (4 * 10 * 32 * 8) * 2


def test_bytes_are_what_is_read_and_written(save: Save) -> None:
    profile = analyze(save([make_node("MatMul", ["x", "w"], ["y"])], {"fp16:x": [2, 8]}, ["y"], {"fp16:w": [8, 16]}))
    assert profile.bytes == 2 * (2 * 8 + 8 * 16 + 2 * 16)


def test_a_lookup_reads_the_rows_it_takes_and_not_the_table(save: Save) -> None:
    node = make_node("Gather", ["table", "ids"], ["y"])
    profile = analyze(save([node], {"int64:ids": [3]}, ["y"], {"table": [30_000, 16]}))
    assert profile.bytes == 2 * 4 * (3 * 16)


def test_views_and_what_is_folded_before_the_run_cost_nothing(save: Save) -> None:
    nodes = [
        make_node("Mul", ["a", "b"], ["folded"]),
        make_node("Reshape", ["x", "shape"], ["viewed"]),
        make_node("Add", ["viewed", "folded"], ["y"]),
    ]
    weights = {"a": [64], "b": [64], "shape": np.array([64], np.int64)}
    profile = analyze(save(nodes, {"x": [8, 8]}, ["y"], weights))
    costs = {node.operator: cost for node, cost in zip(profile.graph.nodes, profile.costs, strict=True)}
    assert (costs["Mul"].bytes, costs["Reshape"].bytes) == (0, 0)
    assert (costs["Add"].bytes or 0) > 0


def test_dynamic_dimensions_are_counted_at_their_assumed_size(save: Save) -> None:
    profile = analyze(save([make_node("Relu", ["x"], ["y"])], {"x": ["batch", "tokens", 8]}, ["y"]))
    assert profile.flops == 1 * 128 * 8
    assert [tensor.dynamic_axes for tensor in profile.dynamic_inputs] == [(0, 1)]


def test_what_has_no_shape_is_left_out_and_counted_as_such(save: Save) -> None:
    nodes = [make_node("NonZero", ["x"], ["where"]), make_node("Cast", ["where"], ["y"], to=onnx.TensorProto.FLOAT)]
    profile = analyze(save(nodes, {"x": ["n"]}, ["y"]))
    assert profile.uncounted > 0


def on_path(profile: Profile) -> set[str]:
    return {profile.graph.nodes[index].name for index in profile.critical_path}


def test_the_critical_path_is_the_longest_chain_by_time(save: Save) -> None:
    nodes = [
        make_node("MatMul", ["x", "w"], ["heavy"], name="heavy"),
        make_node("Relu", ["x"], ["light"], name="light"),
        make_node("Neg", ["light"], ["lighter"], name="lighter"),
        make_node("Add", ["heavy", "lighter"], ["y"], name="join"),
    ]
    profile = analyze(save(nodes, {"x": [2048, 2048]}, ["y"], {"w": [2048, 2048]}))
    assert on_path(profile) == {"heavy", "join"}


def test_a_body_is_on_the_path_with_its_owner_and_lends_it_its_time(save: Save) -> None:
    def branch(name: str, *operators: str) -> onnx.GraphProto:
        names = [f"{name}{i}" for i in range(len(operators))]
        chain = [
            make_node(op, [read], [write], name=write)
            for op, read, write in zip(operators, ["x", *names], names, strict=False)
        ]
        return helper.make_graph(chain, name, [], [helper.make_empty_tensor_value_info(names[-1])])

    choose = make_node(
        "If",
        ["flag"],
        ["chosen"],
        name="choose",
        then_branch=branch("a", "Exp", "Neg", "Exp"),
        else_branch=branch("b", "Neg"),
    )
    nodes = [
        choose,
        make_node("Relu", ["x"], ["r"], name="aside"),
        make_node("Add", ["chosen", "r"], ["y"], name="join"),
    ]
    profile = analyze(save(nodes, {"x": [64], "bool:flag": []}, ["y"]))
    assert on_path(profile) == {"choose", "a0", "a1", "a2", "join"}


@pytest.mark.parametrize("opset", range(13, 25))
def test_a_transformer_block_has_about_the_same_flops_at_every_opset(
    transformer: Callable[[int], Path], opset: int
) -> None:
    profile = analyze(transformer(opset))
    tokens, hidden = 32, 64
    products = 2 * tokens * hidden * hidden * (4 + 8) + 4 * tokens * tokens * hidden
    assert products < profile.flops < 1.3 * products
    assert profile.uncounted == 0


def test_a_conversion_costs_more_than_a_kernel_and_the_cpu_more_than_both() -> None:
    cost = Cost(flops=10**9, bytes=10**8)
    kernel, conversion, cpu = cost.seconds(5), cost.seconds(2), cost.seconds(1)
    assert kernel == cost.seconds(3)
    assert kernel < conversion < cpu
    assert cpu > cost.bytes / 25e9  # type: ignore[operator]  # what the link alone takes
