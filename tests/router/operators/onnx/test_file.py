"""Files that are not what they seem: each gets a clear error, in bounded memory."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.helper import make_node

from bimetal.operators.errors import ModelFileError
from bimetal.operators.onnx.file import PROTOBUF_LIMIT, load_structure
from bimetal.operators.onnx.reader import read_graph

Save = Callable[..., Path]


@pytest.fixture
def large(save: Save) -> Path:
    """A model with 8 MB of weights in the file, beside a constant that shapes depend on."""
    weights = {"w": np.ones((1024, 2048), np.float32), "shape": np.array([2, -1], np.int64)}
    nodes = [make_node("MatMul", ["x", "w"], ["y"]), make_node("Reshape", ["y", "shape"], ["z"])]
    return save(nodes, {"x": [4, 1024]}, ["z"], weights)


def test_weights_are_left_out_and_what_shapes_depend_on_stays(large: Path) -> None:
    model = load_structure(large)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    assert (list(tensors["w"].dims), tensors["w"].raw_data) == ([1024, 2048], b"")
    assert onnx.numpy_helper.to_array(tensors["shape"]).tolist() == [2, -1]
    assert read_graph(large).nodes[-1].outputs[0].shape == (2, 4096)  # type: ignore[union-attr]  # there is one


def test_memory_does_not_grow_with_the_weights(large: Path) -> None:
    tracemalloc.start()
    try:
        load_structure(large)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_large_constants_inside_branches_and_functions_are_left_out(save: Save) -> None:
    heavy = make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(np.ones(500_000, np.float32)))
    branch = helper.make_graph([heavy], "branch", [], [helper.make_empty_tensor_value_info("c")])
    choose = make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)
    file = save([choose], {"bool:flag": []}, ["y"])
    assert file.stat().st_size > 4_000_000
    assert load_structure(file).ByteSize() < 10_000


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"PK\x03\x04" + bytes(100), b"\xff" * 64, bytes(64)])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"model\.onnx .*expected"):
        load_structure(file)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
def test_a_model_that_is_cut_short_is_refused(large: Path, kept: float) -> None:
    content = large.read_bytes()
    large.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(ModelFileError, match="cut short"):
        load_structure(large)


def test_every_flipped_byte_gives_a_graph_or_a_model_file_error(transformer: Callable[[int], Path]) -> None:
    file = transformer(17)
    content = file.read_bytes()
    refused = 0
    for position in [*range(0, 300, 7), *range(len(content) - 300, len(content), 7)]:
        file.write_bytes(bytes([*content[:position], content[position] ^ 0xA5, *content[position + 1 :]]))
        try:
            read_graph(file)
        except ModelFileError:
            refused += 1
    assert 0 < refused < 87


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(ModelFileError, match="cannot be read"):
            load_structure(path)


def test_a_file_beyond_protobufs_limit_is_refused_without_reading_it(tmp_path: Path) -> None:
    file = tmp_path / "huge.onnx"
    with file.open("wb") as stream:
        stream.truncate(PROTOBUF_LIMIT + 1)  # sparse: takes no disk
    with pytest.raises(ModelFileError, match="external data"):
        load_structure(file)


def test_a_file_of_countless_tiny_fields_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bimetal.operators.onnx.file.FIELD_LIMIT", 10_000)
    nodes = b"\x0a\x00" * 10_000
    file = tmp_path / "dust.onnx"
    file.write_bytes(b"\x3a" + _varint(len(nodes)) + nodes)
    with pytest.raises(ModelFileError, match="more than 10,000 fields"):
        load_structure(file)


def test_graphs_nested_too_deep_are_refused(tmp_path: Path) -> None:
    nested = bytes(5000)
    for _ in range(60):  # each round: attribute.g, node.attribute, graph.node
        for tag in (0x32, 0x2A, 0x0A):
            nested = bytes([tag]) + _varint(len(nested)) + nested
    file = tmp_path / "deep.onnx"
    file.write_bytes(b"\x3a" + _varint(len(nested)) + nested)
    with pytest.raises(ModelFileError, match="deep"):
        load_structure(file)


def _varint(value: int) -> bytes:
    encoded = b""
    while value > 0x7F:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])


def external(save: Save, location: str, offset: int = 0, length: int = 16) -> Path:
    file = save([make_node("Add", ["x", "w"], ["y"])], {"x": [4]}, ["y"], {"w": np.ones(4, np.float32)})
    model = onnx.load(file)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": str(offset), "length": str(length)}.items():
        tensor.external_data.add(key=key, value=value)
    file.write_bytes(model.SerializeToString())
    return file


def test_external_data_is_looked_for_and_not_read(save: Save) -> None:
    file = external(save, "weights.bin")
    with (file.parent / "weights.bin").open("wb") as stream:
        stream.truncate(16)
    assert len(read_graph(file).nodes) == 1


def test_missing_external_data_is_named(save: Save) -> None:
    with pytest.raises(ModelFileError, match=r"tensor 'w' has its data in 'weights\.bin', which is missing"):
        read_graph(external(save, "weights.bin"))


def test_external_data_that_is_too_short_is_refused(save: Save) -> None:
    file = external(save, "weights.bin", offset=8)
    (file.parent / "weights.bin").write_bytes(bytes(16))
    with pytest.raises(ModelFileError, match="bytes 8-24, but that file has 16 bytes"):
        read_graph(file)


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret", ""])
def test_external_data_outside_the_models_folder_is_refused(save: Save, location: str) -> None:
    with pytest.raises(ModelFileError, match="inside the model's folder"):
        read_graph(external(save, location))


def test_external_data_through_a_link_out_of_the_folder_is_refused(
    save: Save, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = external(save, "weights.bin")
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_bytes(bytes(16))
    (file.parent / "weights.bin").symlink_to(outside)
    with pytest.raises(ModelFileError, match="inside the model's folder"):
        read_graph(file)
