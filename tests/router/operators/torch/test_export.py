"""torch.export files, read without torch: shapes, types, open sizes and what a node waits for."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bimetal.operators.profile import Profile, analyze

FILES = Path(__file__).parent / "files"


def node(target: str, **inputs: str) -> dict[str, Any]:
    arguments = [{"name": name, "arg": {"as_tensor": {"name": tensor}}, "kind": 1} for name, tensor in inputs.items()]
    output = [{"as_tensor": {"name": "y"}}]
    return {"target": f"torch.ops.{target}", "inputs": arguments, "outputs": output, "metadata": {}}


def exported(
    tmp_path: Path,
    nodes: list[dict[str, Any]],
    sizes: Mapping[str, list[int | str]],
    ranges: Mapping[str, Mapping[str, int]] | None = None,
) -> Profile:
    def size(value: int | str) -> dict[str, Any]:
        return {"as_int": value} if isinstance(value, int) else {"as_expr": {"expr_str": value, "hint": {"as_int": 16}}}

    tensors = {name: {"dtype": 7, "sizes": [size(value) for value in values]} for name, values in sizes.items()}
    inputs = [{"as_tensor": {"name": "x"}}]
    graph = {"inputs": inputs, "outputs": [{"as_tensor": {"name": "y"}}], "nodes": nodes, "tensor_values": tensors}
    whole = {"graph_module": {"graph": graph}, "opset_version": {"aten": 10}, "range_constraints": ranges or {}}
    file = tmp_path / "model.pt2"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model/models/model.json", json.dumps(whole))
    return analyze(file)


def test_every_tensor_has_its_shape_and_type_and_every_node_what_it_waits_for() -> None:
    profile = analyze(FILES / "decoder.pt2")
    first, chunk = profile.graph.nodes[:2]
    assert (profile.graph.format, profile.graph.opsets, profile.uncounted) == ("torch.export", {"aten": 10}, 0)
    assert (first.operator, first.name, first.outputs[0].shape) == ("linear", "qkv/linear", (2, 7, 96))  # type: ignore[union-attr]  # there is one
    assert [tensor.constant for tensor in first.inputs if tensor] == [False, True, True]
    assert [tensor.shape for tensor in chunk.outputs if tensor] == [(2, 7, 32)] * 3
    attention = next(node for node in profile.graph.nodes if node.operator == "scaled_dot_product_attention")
    assert len(attention.predecessors) == 3
    # One of the three ways from the projection to the attention is on the longest chain.
    on_path = [profile.graph.nodes[index].operator for index in sorted(profile.critical_path)]
    assert on_path[0] == on_path[-1] == "linear"
    assert len(on_path) < len(profile.graph.nodes)


def test_open_sizes_keep_their_names_and_count_as_in_onnx_files() -> None:
    graph = analyze(FILES / "encoder.pt2").graph
    (tokens,) = graph.inputs
    batch, length = tokens.shape or ()
    assert (tokens.type, tokens.assumed, tokens.dynamic_axes) == ("int64", (1, 128), (0, 1))
    scores = next(node for node in graph.nodes if node.operator == "softmax").outputs[0]
    assert scores is not None
    assert scores.shape == (batch, 4, length, length)


@pytest.mark.parametrize(
    ("expression", "shape", "counted"),
    [
        ("s77", "s77", 128),
        ("2*s77 + 1", "((2*s77)+1)", 257),
        ("(s77 - 1)//2", "((s77-1)//2)", 63),
        ("Mul(Integer(32), Symbol('s27', positive=True, integer=True))", "(32*s27)", 4096),
        ("FloorDiv(Symbol('s27', positive=True, integer=True), Integer(4))", "(s27//4)", 32),
        ("Max(1, s77)", None, 128),
        ("sqrt(s77)", None, 1),
        ("__import__('os').abort()", None, 1),
        ("s77 +", None, 1),
    ],
)
def test_sizes_are_expressions(tmp_path: Path, expression: str, shape: str | None, counted: int) -> None:
    graph = exported(tmp_path, [node("aten.relu.default", self="x")], {"x": [4, expression], "y": [4]}).graph
    assert graph.inputs[0].shape == (4, shape)
    assert graph.inputs[0].assumed == (4, counted)


def test_an_open_size_is_counted_within_the_range_that_the_export_allows(tmp_path: Path) -> None:
    ranges = {"s1": {"min_val": 2, "max_val": 16}}
    graph = exported(tmp_path, [node("aten.relu.default", self="x")], {"x": [4, "s1"], "y": [4]}, ranges).graph
    assert graph.inputs[0].assumed == (4, 16)


def test_branches_are_bodies_of_the_node_that_chooses_and_the_longer_one_is_on_the_path() -> None:
    profile = analyze(FILES / "chosen.pt2")
    graph = profile.graph
    (choice,) = [each for each in graph.nodes if each.operator == "cond"]
    inside = [each for each in graph.nodes if each.parent == choice.index]
    assert [(each.operator, each.inputs[1].shape) for each in inside if each.inputs[1]] == [
        ("linear", (8, 8)), ("linear", (4, 8)), ("linear", (8, 4)),
    ]  # fmt: skip
    assert [len(each.predecessors) for each in inside] == [0, 0, 1]
    assert profile.costs[choice.index].flops == 0
    assert {choice.index, inside[1].index, inside[2].index} <= profile.critical_path
    assert inside[0].index not in profile.critical_path


def test_a_body_waits_for_its_owner_and_not_for_what_the_owner_reads(tmp_path: Path) -> None:
    inner = {"nodes": [node("aten.tanh.default", self="t")], "tensor_values": {}, "inputs": [], "outputs": []}
    first, choose = node("aten.relu.default", self="x"), node("higher_order.cond", pred="t")
    first["outputs"] = [{"as_tensor": {"name": "t"}}]
    choose["inputs"].append({"name": "", "arg": {"as_graph": {"name": "branch", "graph": inner}}})
    graph = exported(tmp_path, [first, choose], {"x": [4], "t": [4], "y": [4]}).graph
    assert [(each.operator, each.predecessors, each.parent) for each in graph.nodes] == [
        ("relu", (), None), ("cond", (0,), None), ("tanh", (), 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "products"),
    [("convolutions_decomposed", {"conv2d", "conv_transpose2d", "addmm"}), ("encoder_decomposed", {"addmm", "bmm"})],
)
def test_decomposed_programs_have_the_operators_and_flops_of_whole_ones(name: str, products: set[str]) -> None:
    """_softmax, native_layer_norm, max_pool2d_with_indices, convolution: the matrix knows them by their plain names."""
    profile = analyze(FILES / f"{name}.pt2")
    found = {each.operator for each in profile.graph.nodes}
    assert products <= found
    assert not {each for each in found if each.startswith(("_", "native"))}
    assert "convolution" not in found
    if name == "encoder_decomposed":
        truth = json.loads((FILES / "expected.json").read_text())["encoder"]
        counted = zip(profile.graph.nodes, profile.costs, strict=True)
        assert sum(cost.flops or 0 for each, cost in counted if each.operator in products) == truth["flops"]


def test_operators_of_other_libraries_keep_their_library(tmp_path: Path) -> None:
    nodes = [node("quantized_decomposed.quantize_per_tensor.default", input="x"), node("aten.relu_.default", self="y")]
    graph = exported(tmp_path, nodes, {"x": [4], "y": [4]}).graph
    assert [(each.domain, each.operator) for each in graph.nodes] == [
        ("quantized_decomposed", "quantize_per_tensor"),
        ("aten", "relu"),
    ]
