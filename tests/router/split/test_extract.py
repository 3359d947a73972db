"""Segments in a row compute what the model computes, and hold each of its nodes once."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx.helper import make_function, make_graph, make_node, make_opsetid, make_tensor_value_info

from bimetal.operators.matrix.matrix import default_matrix
from bimetal.split.costs import Link
from bimetal.split.cut_model import CutModel, read_cut_model
from bimetal.split.cut_points import cut_points, uses_of
from bimetal.split.errors import SplitError
from bimetal.split.extract import extract, write_model
from bimetal.split.plan import plan_split

TARGETS = ("CUDAExecutionProvider", "MIGraphXExecutionProvider")
LINK = Link(gbps=100, hop_seconds=1e-3, copy_seconds_per_byte=1e-9)
SIZE = 4
X = np.random.RandomState(3).uniform(-1, 1, (2, SIZE)).astype(np.float32)
Build = Callable[..., Path]


def build(folder: Path, nodes: list[Any], outputs: list[str], **options: Any) -> Path:
    """Writes a model of the input x [batch, 4]; `weights` are square matrices by name."""
    weights = options.pop("weights", {})
    values = [onnx.numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    graph = make_graph(
        nodes,
        "graph",
        [make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", SIZE])],
        [make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", SIZE]) for name in outputs],
        values,
    )
    functions = options.pop("functions", [])
    imports = [make_opsetid("", 17), *(make_opsetid(function.domain, 1) for function in functions)]
    model = onnx.helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)
    onnx.save_model(model, folder / "model.onnx", **options)
    return folder / "model.onnx"


def run(file: Path, feed: Mapping[str, Any]) -> dict[str, Any]:
    session = ort.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(
        zip(names, session.run(names, {value.name: feed[value.name] for value in session.get_inputs()}), strict=True)
    )


def segments_of(model: CutModel, count: int, folder: Path) -> list[Path]:
    plan = plan_split(model, TARGETS, LINK, default_matrix(), force=count)
    files = []
    for index, segment in enumerate(plan.segments):
        files.append(folder / str(index) / "model.onnx")
        write_model(extract(model, segment, f"segment_{index}"), model.file.parent, files[-1])
    return files


def assert_same(file: Path, segments: list[Path], x: Any = X) -> None:
    values: dict[str, Any] = {"x": x}
    for segment in segments:
        values |= run(segment, values)
    for name, expected in run(file, {"x": x}).items():
        np.testing.assert_allclose(values[name], expected, rtol=0, atol=1e-5)


def outputs_of(nodes: Any) -> Counter[str]:
    return Counter(name for node in nodes if node.op_type != "Constant" for name in node.output)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Any], list[str]]:
    """Two to ten nodes over x, two shared weights and a Constant, in an order that need not be topological."""
    made = ["x"]
    nodes = [make_node("Constant", [], ["constant"], value_floats=[0.5, -1.0, 0.25, 2.0])]
    for index in range(draw(st.integers(2, 10))):
        operator = draw(st.sampled_from(["Add", "Mul", "MatMul", "Relu", "Tanh"]))
        first, second = draw(st.sampled_from(made)), draw(st.sampled_from([*made, "constant"]))
        inputs = {"MatMul": [first, draw(st.sampled_from(["w", "v"]))], "Relu": [first], "Tanh": [first]}
        nodes.append(make_node(operator, inputs.get(operator, [first, second]), [f"t{index}"]))
        made.append(f"t{index}")
    ends = sorted(set(made[1:]) - {name for node in nodes for name in node.input})
    return draw(st.permutations(nodes)), ends


WEIGHTS = {name: np.random.RandomState(seed).uniform(-1, 1, (SIZE, SIZE)) for seed, name in enumerate("wv")}


@settings(max_examples=40, deadline=None)
@given(graphs(), st.integers(2, 4))
def test_segments_hold_every_node_once_and_compute_what_the_model_computes(
    graph: tuple[list[Any], list[str]], count: int
) -> None:
    nodes, outputs = graph
    with TemporaryDirectory() as name:
        file = build(Path(name), nodes, outputs, weights=WEIGHTS)
        model = read_cut_model(file)
        assume(len(cut_points(model, uses_of(model))) >= count - 1)
        segments = segments_of(model, count, Path(name))
        assert len(segments) == count
        assert outputs_of(node for part in segments for node in onnx.load(part).graph.node) == outputs_of(nodes)
        assert_same(file, segments)


def test_a_weight_that_two_segments_read_is_in_both(tmp_path: Path) -> None:
    nodes = [make_node("MatMul", ["x", "w"], ["h"]), make_node("MatMul", ["h", "w"], ["y"])]
    file = build(tmp_path, nodes, ["y"], weights={"w": WEIGHTS["w"]})
    segments = segments_of(read_cut_model(file), 2, tmp_path)
    assert [[tensor.name for tensor in onnx.load(part).graph.initializer] for part in segments] == [["w"], ["w"]]
    assert_same(file, segments)


def branch(name: str, operator: str, *inputs: str) -> onnx.GraphProto:
    output = make_tensor_value_info(f"{name}_out", onnx.TensorProto.FLOAT, None)
    return make_graph([make_node(operator, list(inputs), [f"{name}_out"])], name, [], [output])


@pytest.fixture
def with_if(tmp_path: Path) -> Path:
    """Six nodes before an If that takes h from outside, with a weight, and two after it."""
    nodes = [
        make_node("Relu", ["x"], ["a"]),
        make_node("Tanh", ["a"], ["h"]),
        make_node("Sigmoid", ["h"], ["b"]),
        make_node("ReduceSum", ["b"], ["sum"], keepdims=0),
        make_node("Greater", ["sum", "zero"], ["positive"]),
        make_node(
            "If",
            ["positive"],
            ["c"],
            then_branch=branch("then", "MatMul", "h", "w"),
            else_branch=branch("else", "Neg", "h"),
        ),
        make_node("Add", ["c", "b"], ["d"]),
        make_node("Relu", ["d"], ["y"]),
    ]
    return build(tmp_path, nodes, ["y"], weights={"w": WEIGHTS["w"], "zero": np.array(0.0)})


def test_no_cut_parts_a_body_from_what_it_captures(with_if: Path) -> None:
    model = read_cut_model(with_if)
    operators = [proto.op_type for proto in model.protos]
    before = [operators[position] for position in cut_points(model, uses_of(model))]
    assert operators == ["Relu", "Tanh", "Sigmoid", "ReduceSum", "Greater", "If", "Add", "Relu"]
    assert before == ["Tanh", "Add", "Relu"]  # never before Sigmoid ... If, where h is on its way into the branches


@pytest.mark.parametrize("x", [X, -X - 2])
def test_a_body_and_the_weights_that_it_captures_stay_with_its_node(with_if: Path, tmp_path: Path, x: Any) -> None:
    segments = segments_of(read_cut_model(with_if), 4, tmp_path)
    assert_same(with_if, segments, x)


def test_weights_in_other_files_come_along_with_the_segment_that_reads_them(tmp_path: Path) -> None:
    nodes = [make_node("MatMul", ["x", "w"], ["h"]), make_node("MatMul", ["h", "v"], ["y"])]
    weights = {"w": np.random.RandomState(1).uniform(-1, 1, (SIZE, 300)), "v": np.ones((300, SIZE))}
    (tmp_path / "source").mkdir()
    file = build(tmp_path / "source", nodes, ["y"], weights=weights, save_as_external_data=True)
    segments = segments_of(read_cut_model(file), 2, tmp_path)
    for segment, weight in zip(segments, "wv", strict=True):
        (tensor,) = onnx.load(segment, load_external_data=False).graph.initializer
        assert (tensor.name, tensor.data_location) == (weight, onnx.TensorProto.EXTERNAL)
        assert (segment.parent / "model.onnx.data").stat().st_size == SIZE * 300 * 4
    assert_same(file, segments)


def test_a_local_function_is_put_in_place_and_may_be_cut(tmp_path: Path) -> None:
    function = make_function(
        "local",
        "Twice",
        ["i"],
        ["o"],
        [make_node("Relu", ["i"], ["m"]), make_node("Tanh", ["m"], ["o"])],
        [make_opsetid("", 17)],
    )
    nodes = [make_node("Twice", ["x"], ["h"], domain="local"), make_node("Twice", ["h"], ["y"], domain="local")]
    file = build(tmp_path, nodes, ["y"], functions=[function])
    model = read_cut_model(file)
    assert [proto.op_type for proto in model.protos] == ["Relu", "Tanh", "Relu", "Tanh"]
    assert_same(file, segments_of(model, 4, tmp_path))


def test_a_constant_never_crosses_a_cut(tmp_path: Path) -> None:
    """Neg of a weight is a constant to MIGraphX only where both ends are in one graph."""
    nodes = [
        make_node("Neg", ["w"], ["negated"]),
        make_node("MatMul", ["x", "negated"], ["h"]),
        make_node("Relu", ["h"], ["k"]),
        make_node("MatMul", ["k", "negated"], ["y"]),
    ]
    model = read_cut_model(build(tmp_path, nodes, ["y"], weights={"w": WEIGHTS["w"]}))
    assert list(cut_points(model, uses_of(model))) == []


def test_an_output_that_no_node_makes_is_refused_by_name(tmp_path: Path) -> None:
    file = build(tmp_path, [make_node("Relu", ["x"], ["y"])], ["y", "x"])
    with pytest.raises(SplitError, match="no node makes the output 'x'"):
        read_cut_model(file)


def test_a_constant_that_the_model_gives_stays_a_node(tmp_path: Path) -> None:
    nodes = [
        make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(X)),
        make_node("Relu", ["x"], ["h"]),
        make_node("Tanh", ["h"], ["y"]),
    ]
    file = build(tmp_path, nodes, ["c", "y"])
    assert_same(file, segments_of(read_cut_model(file), 2, tmp_path))


def test_shapes_and_quantization_notes_of_a_segments_tensors_come_along(tmp_path: Path) -> None:
    nodes = [make_node("Relu", [before], [after]) for before, after in ("xa", "ab", "bc", "cy")]
    model = onnx.load(build(tmp_path, nodes, ["y"]))
    model.graph.value_info.append(make_tensor_value_info("a", onnx.TensorProto.FLOAT, ["batch", SIZE]))
    model.graph.quantization_annotation.add(tensor_name="a")
    onnx.save_model(model, tmp_path / "model.onnx")
    first, second = (
        onnx.load(part).graph for part in segments_of(read_cut_model(tmp_path / "model.onnx"), 2, tmp_path)
    )
    kept = [graph for graph in (first, second) if "a" in {value.name for value in graph.value_info}]
    assert [note.tensor_name for graph in kept for note in graph.quantization_annotation] == ["a"]
    assert len(first.quantization_annotation) + len(second.quantization_annotation) == 1
