"""`bimetal model analyze`: the tree for people, JSON for programs, one line for what went wrong."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from onnx.helper import make_node
from typer.testing import CliRunner

from bimetal.cli.model import model_app
from bimetal.model_repo.generate import generate
from bimetal.operators.blocks import Block, blocks
from bimetal.operators.onnx.reader import read_graph

Save = Callable[..., Path]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(model_app, ["analyze", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def rope(tmp_path: Path) -> Path:
    file = tmp_path / "rope.onnx"
    file.write_bytes(generate("rope_attention"))
    return file


def test_the_tree_shows_blocks_operators_and_each_vendors_score(rope: Path) -> None:
    lines = run(str(rope)).splitlines()
    assert lines[0].startswith("rope.onnx: 18 nodes")
    assert any("attention" in line and "of the FLOPs" in line for line in lines)
    (embedding,) = [line.split() for line in lines if "RotaryEmbedding(23)" in line and "CUDA" in line]
    assert embedding[-6:] == ["CUDA", "5", "MIGraphX", "2", "CPU", "4"]
    assert "MIGraphX: 2" in lines


def test_json_holds_the_graph_the_costs_and_every_verdict(rope: Path) -> None:
    values = json.loads(run(str(rope), "--json"))
    assert values["opsets"]["ai.onnx"] == 23
    assert {provider: verdict["score"] for provider, verdict in values["verdicts"].items()} == {
        "CUDAExecutionProvider": 5,
        "MIGraphXExecutionProvider": 2,
        "CPUExecutionProvider": 4,
    }
    reason = values["verdicts"]["MIGraphXExecutionProvider"]["reasons"][0]
    assert (reason["operator"], reason["opset"], reason["score"]) == ("RotaryEmbedding", 23, 2)
    assert reason["source"]
    product = next(node for node in values["nodes"] if node["operator"] == "MatMul")
    assert product["flops"] > 0
    assert product["outputs"][0]["type"] == "fp32"
    assert sum(values["preference"].values()) == pytest.approx(1)


def test_a_torch_file_is_recognised_by_its_content(tmp_path: Path, torch_archive: Callable[[Path], Path]) -> None:
    values = json.loads(run(str(torch_archive(tmp_path / "model.bin")), "--json"))
    assert values["format"] == "TorchScript"
    assert set(values["verdicts"]) == {"torch_cuda", "torch_rocm"}
    assert "conv1d x1" in run(str(tmp_path / "model.bin"))


def test_a_file_that_is_no_model_gives_one_line_and_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("hello")
    result = CliRunner().invoke(model_app, ["analyze", str(tmp_path / "text.onnx")])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "text.onnx is no ONNX model" in result.stderr


def found(file: Path) -> dict[str, set[Block]]:
    graph = read_graph(file)
    by_operator: dict[str, set[Block]] = {}
    for node, block in zip(graph.nodes, blocks(graph), strict=True):
        by_operator.setdefault(node.operator, set()).add(block)
    return by_operator


@pytest.mark.parametrize("opset", [13, 17, 20, 23])
def test_module_scopes_in_names_tell_the_blocks(transformer: Callable[[int], Path], opset: int) -> None:
    assert found(transformer(opset))["MatMul"] == {Block.ATTENTION, Block.FFN}


def chain(*operators: str) -> Sequence[tuple[str, str, str]]:
    names = ["x", *(f"t{i}" for i in range(len(operators) - 1)), "y"]
    return [(operator, names[i], names[i + 1]) for i, operator in enumerate(operators)]


@pytest.mark.parametrize(
    ("operators", "block"),
    [
        (("MatMul", "Mul", "Add", "Softmax", "MatMul"), Block.ATTENTION),
        (("MatMul", "Add", "Gelu", "MatMul"), Block.FFN),
        (("MatMul", "Relu", "MatMul"), Block.FFN),
        (("MatMul", "Sqrt", "MatMul"), Block.OTHER),
    ],
)
def test_without_names_the_neighbours_tell_the_block(save: Save, operators: Sequence[str], block: Block) -> None:
    binary = {"MatMul", "Mul", "Add"}
    nodes = [make_node(op, [a, "w"] if op in binary else [a], [b]) for op, a, b in chain(*operators)]
    assert found(save(nodes, {"x": [8, 8]}, ["y"], {"w": [8, 8]}, opset=20))["MatMul"] == {block}
