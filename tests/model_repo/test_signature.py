from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from bimetal.model_repo.errors import SourceError
from bimetal.model_repo.generate import generate
from bimetal.model_repo.signature import check_signature
from bimetal.model_repo.sources import ModelSource, Tensor

HIDDEN = Tensor(name="hidden_states", type="FP32", dims=[-1, 64])
POSITIONS = Tensor(name="position_ids", type="INT64", dims=[-1])
ATTENDED = Tensor(name="attended", type="FP32", dims=[-1, 64])


def rope(**changes: Any) -> ModelSource:
    values: dict[str, Any] = {
        "name": "rope",
        "directory": Path("models/rope"),
        "description": "A model",
        "licence": "MIT",
        "kind": "onnx",
        "max_batch_size": 8,
        "inputs": [HIDDEN, POSITIONS],
        "outputs": [ATTENDED],
        "source": {"generator": "rope_attention", "sha256": "0" * 64},
    }
    return ModelSource(**(values | changes))


def test_what_the_onnx_file_has_is_accepted() -> None:
    check_signature(rope(), generate("rope_attention"))


def test_without_batching_the_batch_dimension_is_declared() -> None:
    inputs = [Tensor(name="hidden_states", type="FP32", dims=[-1, -1, 64])]
    inputs.append(Tensor(name="position_ids", type="INT64", dims=[2, 7]))
    outputs = [Tensor(name="attended", type="FP32", dims=[-1, -1, 64])]
    check_signature(rope(max_batch_size=0, inputs=inputs, outputs=outputs), generate("rope_attention"))


def test_a_scalar_is_declared_as_one_element() -> None:
    scalar = helper.make_tensor_value_info("x", TensorProto.INT64, [])
    graph = helper.make_graph([], "scalar", inputs=[scalar], outputs=[scalar])
    x = Tensor(name="x", type="INT64", dims=[1])
    model = rope(max_batch_size=0, inputs=[x], outputs=[x])
    check_signature(model, helper.make_model(graph).SerializeToString())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"inputs": [HIDDEN]}, "inputs: expected 'position_ids' too, which the ONNX model needs"),
        (
            {"outputs": [ATTENDED.model_copy(update={"name": "attented"})]},
            "outputs.attented: the ONNX model has no such tensor; expected one of attended",
        ),
        (
            {"inputs": [HIDDEN, POSITIONS.model_copy(update={"type": "INT32"})]},
            "inputs.position_ids.type: expected ONNX INT64; found INT32",
        ),
        (
            {"outputs": [ATTENDED.model_copy(update={"dims": [-1, 32]})]},
            "outputs.attended.dims: expected to fit the ONNX shape [-1, -1, 64] (-1: any size); "
            "found [-1, -1, 32] (with the batch dimension)",
        ),
        (
            {"outputs": [ATTENDED.model_copy(update={"dims": [-1, -1, 64]})]},
            "outputs.attended.dims: expected to fit the ONNX shape [-1, -1, 64] (-1: any size); "
            "found [-1, -1, -1, 64] (with the batch dimension)",
        ),
    ],
)
def test_a_difference_from_the_onnx_file_names_the_file_the_tensor_and_what_was_expected(
    changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(SourceError) as error:
        check_signature(rope(**changes), generate("rope_attention"))
    assert str(error.value) == f"models/rope/model.yml: {expected}"
