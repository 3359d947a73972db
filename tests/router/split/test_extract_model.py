"""Why segments are not cut by `onnx.utils.extract_model`: what it cannot cut; what it can, both cut alike."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from onnx.utils import extract_model

from bimetal.operators.matrix.matrix import default_matrix
from bimetal.split.costs import Link
from bimetal.split.cut_model import read_cut_model
from bimetal.split.extract import extract, write_model
from bimetal.split.plan import plan_split

LINK = Link(gbps=100, hop_seconds=1e-3, copy_seconds_per_byte=1e-9)
TARGETS = ("CUDAExecutionProvider", "MIGraphXExecutionProvider")


def value(name: str, kind: int = TensorProto.FLOAT, shape: tuple[int, ...] = (4,)) -> onnx.ValueInfoProto:
    return make_tensor_value_info(name, kind, list(shape))


def written(folder: Path, graph: onnx.GraphProto) -> Path:
    file = folder / "model.onnx"
    onnx.save(make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=10), file)
    return file


def chain() -> onnx.GraphProto:
    """Relu, then an addition of weights, then Neg."""
    nodes = [
        make_node("Relu", ["x"], ["a"]),
        make_node("Add", ["a", "w"], ["b"]),
        make_node("Neg", ["b"], ["y"]),
    ]
    weights = [numpy_helper.from_array(np.ones(4, np.float32), "w")]
    return make_graph(nodes, "g", [value("x")], [value("y")], weights, value_info=[value("a"), value("b")])


def segments(file: Path, count: int) -> list[Path]:
    model = read_cut_model(file)
    plan = plan_split(model, TARGETS, LINK, default_matrix(), force=count)
    files = []
    for index, segment in enumerate(plan.segments):
        files.append(file.parent / f"segment{index}" / "model.onnx")
        write_model(extract(model, segment, f"segment{index}"), file.parent, files[-1])
    return files


def test_a_plain_graph_is_cut_as_onnx_cuts_it(tmp_path: Path) -> None:
    file = written(tmp_path, chain())
    for ours in segments(file, 2):
        graph = onnx.load(ours).graph
        inputs, outputs = ([each.name for each in side] for side in (graph.input, graph.output))
        extract_model(str(file), str(tmp_path / "theirs.onnx"), inputs, outputs)
        theirs = onnx.load(tmp_path / "theirs.onnx").graph
        assert list(graph.node) == list(theirs.node)
        assert [each.name for each in graph.initializer] == [each.name for each in theirs.initializer]


def branching() -> onnx.GraphProto:
    """An If whose branches read a weight and a result from outside."""

    def branch(name: str) -> onnx.GraphProto:
        return make_graph([make_node("Add", ["a", "w"], [name])], name, [], [value(name)])

    choose = make_node("If", ["flag"], ["c"], then_branch=branch("t"), else_branch=branch("e"))
    nodes = [make_node("Relu", ["x"], ["a"]), choose, make_node("Neg", ["c"], ["y"])]
    inputs = [value("x"), value("flag", TensorProto.BOOL, ())]
    weights = [numpy_helper.from_array(np.ones(4, np.float32), "w")]
    return make_graph(nodes, "g", inputs, [value("y")], weights, value_info=[value("a"), value("c")])


def test_onnx_loses_what_branches_take_from_outside(tmp_path: Path) -> None:
    file = written(tmp_path, branching())
    with pytest.raises(onnx.checker.ValidationError, match="'a' of node"):
        extract_model(str(file), str(tmp_path / "theirs.onnx"), ["x", "flag"], ["c"])
    for ours in segments(file, 2):
        onnx.checker.check_model(str(ours))


def annotated() -> onnx.GraphProto:
    graph = chain()
    graph.quantization_annotation.add(tensor_name="a")
    return graph


def sparse() -> onnx.GraphProto:
    graph = chain()
    del graph.initializer[:]
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    positions = numpy_helper.from_array(np.array([1], np.int64), "positions")
    graph.sparse_initializer.add(values=values, indices=positions, dims=[4])
    return graph


@pytest.mark.parametrize(
    ("graph", "words"), [(annotated(), "quantization_annotation"), (sparse(), "sparse_initializer")]
)
def test_onnx_refuses_annotations_and_sparse_weights(tmp_path: Path, graph: onnx.GraphProto, words: str) -> None:
    file = written(tmp_path, graph)
    with pytest.raises(ValueError, match=words):
        extract_model(str(file), str(tmp_path / "theirs.onnx"), ["x"], ["a"])
    assert len(segments(file, 2)) == 2
