"""ONNX's node tests, cases made by hand, and verifications of them on the CPU provider."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from bimetal.operators.matrix.targets import Target
from bimetal.verify.cases import Case, onnx_cases
from bimetal.verify.results import Results
from bimetal.verify.verification import Options, chosen, verify

CPU = "CPUExecutionProvider"
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="session")
def every_case() -> list[Case]:
    return onnx_cases()


@pytest.fixture
def cases_of(every_case: list[Case]) -> Callable[..., list[Case]]:
    """ONNX's cases of some operators."""
    return lambda *operators: chosen(every_case, operators)


@pytest.fixture
def verify_on_cpu() -> Callable[..., Results]:
    """Runs cases; options as keywords. Derived variants only where asked for."""

    def run(cases: Sequence[Case], **options: Any) -> Results:
        wanted = replace(Options(deadline_seconds=60, repeats=3, derived=False), **options)
        return verify(Target.CPU, CPU, cases, wanted, lambda _: None)

    return run


def _case(
    node: onnx.NodeProto, inputs: Mapping[str, Array], outputs: Mapping[str, Array], opset: int, name: str
) -> Case:
    graph = helper.make_graph([node], "graph", list(map(_info, inputs.items())), list(map(_info, outputs.items())))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return Case(name, model.SerializeToString(), tuple(inputs.values()), tuple(outputs.values()), 1e-3, 1e-7)


def _info(item: tuple[str, Array]) -> onnx.ValueInfoProto:
    name, array = item
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


@pytest.fixture
def make_case() -> Callable[..., Case]:
    return _case


@pytest.fixture
def endless_loop() -> Case:
    """A Loop without a trip count whose condition stays true: onnxruntime really never comes back."""
    condition = helper.make_tensor_value_info("again", onnx.TensorProto.BOOL, [])
    body = helper.make_graph(
        [helper.make_node("Identity", ["again_in"], ["again"]), helper.make_node("Identity", ["x_in"], ["x_out"])],
        "body",
        [
            helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("again_in", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("x_in", onnx.TensorProto.FLOAT, [1]),
        ],
        [condition, helper.make_tensor_value_info("x_out", onnx.TensorProto.FLOAT, [1])],
    )
    node = helper.make_node("Loop", ["", "go", "x"], ["y"], body=body)
    one = np.ones(1, np.float32)
    return _case(node, {"go": np.array(True), "x": one}, {"y": one}, 13, "endless_loop")


@pytest.fixture
def fake_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """In place of onnxruntime: a runner whose process dies when it is given a Softmax."""
    (tmp_path / "fake_runner.py").write_text(
        "import os\n"
        "from bimetal.verify.execution import run_case\n"
        "def run(case, timed, settings):\n"
        "    if case.node.op_type == 'Softmax':\n"
        "        os.abort()\n"
        "    return run_case(case, timed, settings)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "fake_runner:run"
