"""A model of BERT-Large's size: read without its weights, so the time and memory are those of its structure."""

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from bench.analysis import write_bert_large
from bimetal.operators import analyze

_MEASURE = """
import resource, sys
from pathlib import Path
from bimetal.operators import analyze, default_matrix, place
default_matrix()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
place(analyze(Path(sys.argv[1])), default_matrix())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.fixture
def bert_large(tmp_path: Path) -> Path:
    file = tmp_path / "bert.onnx"
    write_bert_large(file)
    return file


def test_the_file_is_a_model_that_onnx_itself_reads(tmp_path: Path) -> None:
    file = tmp_path / "small.onnx"
    write_bert_large(file, layers=1)
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    assert len(model.graph.initializer) == 19


def test_its_products_are_counted_as_the_sum_over_its_weights(bert_large: Path) -> None:
    profile = analyze(bert_large)
    assert bert_large.stat().st_size > 1_300_000_000
    assert len(profile.graph.nodes) == 673
    weights = sum(
        tensor.elements or 0
        for node in profile.graph.nodes
        if node.operator == "MatMul" and (tensor := node.input(1)) is not None and tensor.constant
    )
    products = sum(
        cost.flops or 0
        for node, cost in zip(profile.graph.nodes, profile.costs, strict=True)
        if node.operator == "MatMul" and (tensor := node.input(1)) is not None and tensor.constant
    )
    assert products == 2 * 128 * weights


def test_memory_is_a_twentieth_of_the_file_at_most(bert_large: Path) -> None:
    """Measured in a process of its own: what protobuf and numpy hold is in no count of Python's."""
    command = [sys.executable, "-c", _MEASURE, str(bert_large)]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert grown * 1024 < bert_large.stat().st_size / 20


def test_work_does_not_grow_with_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of the fields that one file may have is enough for all of this one."""
    file = tmp_path / "bert.onnx"
    write_bert_large(file)
    monkeypatch.setattr("bimetal.operators.onnx.file.FIELD_LIMIT", 20_000)
    assert len(analyze(file).graph.nodes) == 673
