"""What becomes of the body of a load or an unload."""

import base64
import json
from typing import Any

import pytest
from tritonclient.grpc import service_pb2 as pb

from bimetal.control.model_control import request


def body(**parameters: Any) -> bytes:
    return json.dumps({"parameters": parameters}).encode()


@pytest.mark.parametrize("empty", [b"", b"{}", b'{"parameters": {}}'])
def test_a_load_without_parameters_names_the_model(empty: bytes) -> None:
    assert request("load", "m", empty) == pb.RepositoryModelLoadRequest(model_name="m")


def test_a_configuration_goes_on_as_text_and_a_file_as_its_bytes() -> None:
    files = {"config": "{}", "file:1/model.onnx": base64.b64encode(b"\0onnx").decode()}
    found = request("load", "m", body(**files)).parameters
    assert found["config"].string_param == "{}"
    assert found["file:1/model.onnx"].bytes_param == b"\0onnx"


def test_an_unload_goes_on_with_its_dependents() -> None:
    assert request("unload", "m", body(unload_dependents=True)).parameters["unload_dependents"].bool_param
    assert request("unload", "m", b"") == pb.RepositoryModelUnloadRequest(model_name="m")


def test_a_name_is_read_as_triton_reads_it() -> None:
    assert request("load", "modèle".encode().decode("latin-1"), b"").model_name == "modèle"
    assert request("load", "\xff", b"") is None


@pytest.mark.parametrize(
    ("action", "wrong"),
    [
        ("load", b"{"),
        ("load", b"[]"),
        ("load", b'{"parameters": []}'),
        ("load", body(nope="x")),
        ("load", body(config=1)),
        ("load", body(**{"file:1/model.onnx": "no base 64"})),
        ("unload", b"\xff"),
        ("unload", body(unload_dependents="yes")),
    ],
)
def test_what_triton_itself_would_complain_of_is_left_to_it(action: str, wrong: bytes) -> None:
    assert request(action, "m", wrong) is None
