"""The runner over real ONNX Runtime sessions; only Triton's own module is a fake."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bimetal.model_repo.build import RUNNER

Graph = tuple[list[onnx.NodeProto], int, int]  # nodes from x to y, element types of x and y
TRITON_TYPES: dict[int, str] = {
    TensorProto.FLOAT: "TYPE_FP32",
    TensorProto.INT64: "TYPE_INT64",
    TensorProto.STRING: "TYPE_STRING",
}


def node(operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, list(inputs), list(outputs), **attributes)


# y = x + the number of rows in the run, so a response shows what it was batched with.
ADD_BATCH_SIZE: Graph = (
    [
        node("Shape", ["x"], ["rows"], start=0, end=1),
        node("Cast", ["rows"], ["rows_float"], to=TensorProto.FLOAT),
        node("Add", ["x", "rows_float"], ["y"]),
    ],
    TensorProto.FLOAT,
    TensorProto.FLOAT,
)
# y = 10, 11 or 12 for x = 0, 1 or 2; ONNX Runtime refuses any other x.
LOOK_UP: Graph = (
    [
        node("Constant", [], ["table"], value=helper.make_tensor("table", TensorProto.INT64, [3], [10, 11, 12])),
        node("Gather", ["table", "x"], ["y"]),
    ],
    TensorProto.INT64,
    TensorProto.INT64,
)
SUM_OF_ALL: Graph = ([node("ReduceSum", ["x"], ["y"], keepdims=0)], TensorProto.FLOAT, TensorProto.FLOAT)
TWICE: Graph = ([node("StringConcat", ["x", "x"], ["y"])], TensorProto.STRING, TensorProto.STRING)

Start = Callable[..., Any]


@pytest.fixture
def start(load_model: Callable[..., Any], tmp_path: Path) -> Start:
    """Initialises a runner over a graph."""

    def start(
        graph: Graph, dims: Sequence[int | str] = ("batch", "size"), *, max_batch_size: int = 8, **parameters: str
    ) -> Any:
        nodes, x_type, y_type = graph
        (tmp_path / "1").mkdir()
        onnx.save(_model(nodes, x_type, y_type, dims), str(tmp_path / "1" / "model.onnx"))
        values = {"provider": "CPUExecutionProvider", "compute": "cpu", "intra_op_threads": "1"} | parameters
        config = {
            "name": "under_test",
            "max_batch_size": max_batch_size,
            "input": [{"name": "x", "data_type": TRITON_TYPES[x_type], "dims": [-1]}],
            "output": [{"name": "y", "data_type": TRITON_TYPES[y_type], "dims": [-1]}],
            "parameters": {key: {"string_value": value} for key, value in values.items()},
        }
        arguments = {"model_repository": str(tmp_path), "model_version": "1", "model_instance_device_id": "0"}
        return load_model(RUNNER, **arguments, model_config=json.dumps(config))

    return start


def _model(nodes: list[onnx.NodeProto], x_type: int, y_type: int, dims: Sequence[int | str]) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", x_type, list(dims))
    y = helper.make_tensor_value_info("y", y_type, None)
    graph = helper.make_graph(nodes, "under_test", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def floats(*rows: Sequence[float]) -> dict[str, Any]:
    return {"x": np.array(rows, dtype=np.float32)}


def outputs(responses: Sequence[Any]) -> list[Any]:
    assert [response.error for response in responses] == [None] * len(responses)
    return [response.tensors["y"].tolist() for response in responses]


def test_requests_of_one_shape_are_one_run_and_each_gets_its_own_rows(start: Start) -> None:
    runner = start(ADD_BATCH_SIZE)
    responses = runner.execute([floats([10, 20]), floats([30, 40], [50, 60]), floats([70, 80])])
    assert outputs(responses) == [[[14, 24]], [[34, 44], [54, 64]], [[74, 84]]]


def test_requests_of_other_shapes_are_other_runs_and_answers_keep_their_order(start: Start) -> None:
    runner = start(ADD_BATCH_SIZE)
    responses = runner.execute([floats([10]), floats([20, 30]), floats([40]), floats([50, 60, 70])])
    assert outputs(responses) == [[[12]], [[21, 31]], [[42]], [[51, 61, 71]]]


def test_a_model_without_a_batch_dimension_runs_requests_one_by_one(start: Start) -> None:
    runner = start(ADD_BATCH_SIZE, max_batch_size=0)
    assert outputs(runner.execute([floats([10]), floats([20])])) == [[[11]], [[21]]]


def test_a_model_whose_output_is_not_per_row_runs_requests_one_by_one(start: Start) -> None:
    runner = start(SUM_OF_ALL)
    assert outputs(runner.execute([floats([1, 2]), floats([3, 4])])) == [3, 7]


def test_a_bad_request_fails_alone_with_the_model_and_its_inputs_named(start: Start) -> None:
    runner = start(LOOK_UP)
    good, bad, other = runner.execute([{"x": np.array([[index]])} for index in (2, 3, 0)])
    assert outputs([good, other]) == [[[12]], [[10]]]
    assert bad.error.message.startswith("model 'under_test' with inputs x int64[1, 1]: ")
    assert "out of data bounds" in bad.error.message
    assert bad.error.code == "invalid argument"


def test_an_input_of_another_type_is_the_clients_error(start: Start) -> None:
    (response,) = start(LOOK_UP).execute([floats([1])])
    assert "x float32[1, 1]" in response.error.message
    assert response.error.code == "invalid argument"


def test_a_missing_input_is_named_with_what_was_expected(start: Start) -> None:
    answered, missing = start(ADD_BATCH_SIZE).execute([floats([10]), {}])
    assert outputs([answered]) == [[[11]]]
    assert missing.error.message == "model 'under_test': input 'x' is missing; expected TYPE_FP32 with dims [-1]"
    assert missing.error.code == "invalid argument"


def test_bytes_are_text_for_the_model_and_bytes_again_for_the_client(start: Start) -> None:
    runner = start(TWICE)
    requests = [{"x": np.array([[text.encode()]], dtype=object)} for text in ("ab", "é")]
    assert outputs(runner.execute(requests)) == [[[b"abab"]], [["éé".encode()]]]


def test_bytes_that_are_no_text_are_the_clients_error(start: Start) -> None:
    (response,) = start(TWICE).execute([{"x": np.array([[b"\xff"]], dtype=object)}])
    assert response.error.message.startswith("model 'under_test': input 'x': expected UTF-8 text: ")
    assert response.error.code == "invalid argument"


def test_a_scalar_input_comes_as_one_element(start: Start) -> None:
    runner = start(LOOK_UP, dims=[], max_batch_size=0)
    assert outputs(runner.execute([{"x": np.array([1])}])) == [11]


@pytest.mark.parametrize(
    ("provider", "compute", "level"),
    [
        ("CPUExecutionProvider", "cpu", "info"),
        ("CUDAExecutionProvider", "cpu", "info"),
        ("MIGraphXExecutionProvider", "gpu", "warning"),
    ],
)
def test_the_log_says_which_provider_was_asked_for_and_which_computes(
    start: Start, fake_pb_utils: Any, provider: str, compute: str, level: str
) -> None:
    start(ADD_BATCH_SIZE, provider=provider, compute=compute)
    ((logged_level, message),) = fake_pb_utils.log
    assert logged_level == level
    assert message.startswith(
        f"model 'under_test': asked for {provider} (compute: {compute}), got CPUExecutionProvider"
    )
