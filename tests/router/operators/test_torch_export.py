"""torch.export files, read without torch: shapes, types, open sizes and what a node waits for."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from router.operators.profile import Profile, analyze

FILES = Path(__file__).parent / "torch_files"


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
    assert (first.operator, first.name, first.outputs[0].shape) == ("linear", "qkv/linear", (2, 7, 96))  # type: ignore[union-attr]
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


def test_operators_of_other_libraries_keep_their_library(tmp_path: Path) -> None:
    nodes = [node("quantized_decomposed.quantize_per_tensor.default", input="x"), node("aten.relu_.default", self="y")]
    graph = exported(tmp_path, nodes, {"x": [4], "y": [4]}).graph
    assert [(each.domain, each.operator) for each in graph.nodes] == [
        ("quantized_decomposed", "quantize_per_tensor"),
        ("aten", "relu"),
    ]
