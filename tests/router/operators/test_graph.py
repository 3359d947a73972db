"""From a file to a graph of operators: versions, shapes, bodies, functions, and what cannot be followed."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.helper import make_node

from bimetal.operators.errors import ModelFileError
from bimetal.operators.onnx.reader import read_graph

Save = Callable[..., Path]


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_empty_tensor_value_info(name)


@pytest.mark.parametrize(("opset", "version"), [(7, 1), (21, 1), (22, 22), (24, 22)])
def test_the_opset_selects_the_operator_version(save: Save, opset: int, version: int) -> None:
    (node,) = read_graph(save([make_node("Softplus", ["x"], ["y"])], {"x": [2]}, ["y"], opset=opset)).nodes
    assert (node.operator, node.version, node.opset) == ("Softplus", version, opset)


def test_each_domain_has_its_own_opset(save: Save) -> None:
    nodes = [make_node("Gelu", ["x"], ["y"], domain="com.microsoft"), make_node("Gelu", ["y"], ["z"])]
    graph = read_graph(save(nodes, {"x": [2]}, ["z"], opset=20, com_microsoft=1))
    assert [(node.domain, node.version, node.opset) for node in graph.nodes] == [
        ("com.microsoft", 1, 1),
        ("ai.onnx", 20, 20),
    ]


def test_shapes_are_inferred_and_dynamic_dimensions_keep_their_names(save: Save) -> None:
    nodes = [make_node("MatMul", ["x", "w"], ["y"]), make_node("Relu", ["y"], ["z"])]
    graph = read_graph(save(nodes, {"fp16:x": ["batch", 7, 8]}, ["z"], {"fp16:w": [8, 16]}))
    result = graph.nodes[-1].outputs[0]
    assert result is not None
    assert (result.type, result.shape, result.assumed) == ("fp16", ("batch", 7, 16), (1, 7, 16))
    assert result.dynamic_axes == (0,)


def test_what_follows_from_constants_and_static_shapes_is_constant(save: Save) -> None:
    nodes = [
        make_node("Shape", ["static"], ["known"]),
        make_node("Shape", ["open"], ["unknown"]),
        make_node("Mul", ["known", "two"], ["twice"]),
        make_node("Concat", ["twice", "unknown"], ["both"], axis=0),
    ]
    graph = read_graph(save(nodes, {"static": [2, 3], "open": ["n"]}, ["both"], {"two": np.array(2, np.int64)}))
    constant = {node.outputs[0].name: node.outputs[0].constant for node in graph.nodes if node.outputs[0]}
    assert constant == {"known": True, "unknown": False, "twice": True, "both": False}


def test_random_numbers_are_not_constants(save: Save) -> None:
    nodes = [make_node("RandomNormalLike", ["w"], ["noise"]), make_node("Add", ["x", "noise"], ["y"])]
    graph = read_graph(save(nodes, {"x": [4]}, ["y"], {"w": [4]}))
    assert not graph.nodes[0].outputs[0].constant  # type: ignore[union-attr]  # there is one


def test_nodes_of_branches_and_loops_belong_to_their_owner(save: Save) -> None:
    then = helper.make_graph([make_node("Exp", ["x"], ["a"])], "then", [], [value("a")])
    other = helper.make_graph([make_node("Neg", ["x"], ["b"])], "else", [], [value("b")])
    nodes = [make_node("Relu", ["x"], ["r"]), make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other)]
    graph = read_graph(save(nodes, {"x": [4], "bool:flag": []}, ["y"]))
    owner = next(node for node in graph.nodes if node.operator == "If")
    assert {node.operator for node in graph.bodies[owner.index]} == {"Exp", "Neg"}
    assert {node.operator for node in graph.bodies[None]} == {"Relu", "If"}
    inside = next(node for node in graph.nodes if node.operator == "Exp")
    assert inside.inputs[0].shape == (4,)  # type: ignore[union-attr]  # there is one


def test_a_branch_that_reads_from_outside_makes_its_owner_wait(save: Save) -> None:
    then = helper.make_graph([make_node("Exp", ["r"], ["a"])], "then", [], [value("a")])
    other = helper.make_graph([make_node("Identity", ["x"], ["b"])], "else", [], [value("b")])
    nodes = [make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other), make_node("Relu", ["x"], ["r"])]
    graph = read_graph(save(nodes, {"x": [4], "bool:flag": []}, ["y"]))
    relu = next(node for node in graph.nodes if node.operator == "Relu")
    assert next(node for node in graph.nodes if node.operator == "If").predecessors == (relu.index,)


def function(name: str, nodes: Sequence[onnx.NodeProto]) -> onnx.FunctionProto:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, ["a"], ["b"], nodes, imports)


def test_local_functions_are_put_in_place_of_their_calls(save: Save) -> None:
    twice = function("Twice", [make_node("Relu", ["a"], ["m"]), make_node("Exp", ["m"], ["b"])])
    call = make_node("Twice", ["x"], ["y"], domain="local")
    graph = read_graph(save([call], {"x": [4]}, ["y"], functions=[twice], local=1))
    assert [node.operator for node in graph.nodes] == ["Relu", "Exp"]
    assert graph.nodes[-1].outputs[0].shape == (4,)  # type: ignore[union-attr]  # there is one


def test_functions_that_double_at_every_level_are_refused_before_they_grow(save: Save) -> None:
    levels = [function("F0", [make_node("Relu", ["a"], ["b"])])]
    for level in range(1, 40):
        calls = [make_node(f"F{level - 1}", [x], [y], domain="local") for x, y in (("a", "m"), ("m", "b"))]
        levels.append(function(f"F{level}", calls))
    file = save([make_node("F39", ["x"], ["y"], domain="local")], {"x": [4]}, ["y"], functions=levels, local=1)
    with pytest.raises(ModelFileError, match=r"549,755,813,888 nodes; at most 200,000"):
        read_graph(file)


def test_functions_that_call_themselves_are_refused(save: Save) -> None:
    endless = function("Endless", [make_node("Endless", ["a"], ["b"], domain="local")])
    file = save([make_node("Endless", ["x"], ["y"], domain="local")], {"x": [4]}, ["y"], functions=[endless], local=1)
    with pytest.raises(ModelFileError, match="'Endless' calls itself"):
        read_graph(file)


def test_nodes_that_wait_for_each_other_are_refused(save: Save) -> None:
    nodes = [make_node("Add", ["x", "b"], ["a"], name="first"), make_node("Relu", ["a"], ["b"], name="second")]
    with pytest.raises(ModelFileError, match=r"'first' waits for its own result \(a cycle\)"):
        read_graph(save(nodes, {"x": [4]}, ["b"]))


def test_a_tensor_that_is_produced_twice_is_refused(save: Save) -> None:
    nodes = [make_node("Relu", ["x"], ["y"]), make_node("Exp", ["x"], ["y"])]
    with pytest.raises(ModelFileError, match="'y' is produced twice"):
        read_graph(save(nodes, {"x": [4]}, ["y"]))


def test_a_domain_that_is_not_imported_is_refused(save: Save) -> None:
    node = make_node("Frobnicate", ["x"], ["y"], domain="com.example", name="odd")
    with pytest.raises(ModelFileError, match=r"'odd' uses domain 'com\.example', which the model does not import"):
        read_graph(save([node], {"x": [4]}, ["y"]))


def test_nodes_in_any_order_come_out_after_those_they_wait_for(save: Save) -> None:
    nodes = [make_node("Exp", ["b"], ["c"]), make_node("Relu", ["a"], ["b"]), make_node("Neg", ["x"], ["a"])]
    graph = read_graph(save(nodes, {"x": [4]}, ["c"]))
    assert [node.operator for node in graph.nodes] == ["Neg", "Relu", "Exp"]


def test_shapes_that_contradict_each_other_leave_a_note_instead_of_an_error(save: Save) -> None:
    nodes = [make_node("MatMul", ["x", "w"], ["y"])]
    graph = read_graph(save(nodes, {"x": [2, 3]}, ["y"], {"w": [5, 7]}))
    assert graph.nodes[0].operator == "MatMul"
    assert graph.nodes[0].outputs[0].shape is None  # type: ignore[union-attr]  # there is one
