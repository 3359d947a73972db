"""The analysis of a large model: a graph of BERT-Large's size in a file of more than 1 GB."""

import tempfile
import time
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import BinaryIO

import onnx
from onnx import TensorProto, helper
from onnx.helper import make_node

from bimetal.operators import analyze, default_matrix, place

LAYERS, HIDDEN, HEADS, VOCABULARY = 24, 1024, 16, 30522
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # field numbers of onnx.proto
Weights = dict[str, list[int]]


def analysis_seconds() -> tuple[float, int]:
    """Seconds from the file to the verdict of every provider, and the file's bytes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        write_bert_large(file)
        start = time.perf_counter()
        place(analyze(file), default_matrix())
        return time.perf_counter() - start, file.stat().st_size


def write_bert_large(file: Path, layers: int = LAYERS) -> None:
    """Writes a BERT with fp32 weights inside; the weights are holes in the file, which take no room on a disk."""
    weights: Weights = {"word_embeddings": [VOCABULARY, HIDDEN]}
    nodes = [make_node("Gather", ["word_embeddings", "tokens"], ["h0"], name="/bert/embeddings/gather")]
    for layer in range(layers):
        nodes += _layer(f"/bert/encoder/layer.{layer}", f"h{layer}", f"h{layer + 1}", weights)
    graph = helper.make_graph(
        nodes,
        "bert",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "sequence"])],
        [helper.make_tensor_value_info(f"h{layers}", TensorProto.FLOAT, ["batch", "sequence", HIDDEN])],
        [
            helper.make_tensor("heads", TensorProto.INT64, [4], [0, 0, HEADS, HIDDEN // HEADS]),
            helper.make_tensor("joined", TensorProto.INT64, [3], [0, 0, HIDDEN]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    with file.open("wb") as stream:
        _write(stream, model, weights)


def _layer(name: str, x: str, y: str, weights: Weights) -> Iterator[onnx.NodeProto]:
    def weight(of: str, *shape: int) -> str:
        weights[f"{name}{of}"] = list(shape)
        return f"{name}{of}"

    def linear(of: str, source: str, inner: int = HIDDEN, outer: int = HIDDEN) -> Iterator[onnx.NodeProto]:
        yield make_node("MatMul", [source, weight(f"{of}.weight", inner, outer)], [f"{name}{of}/p"], name=f"{name}{of}")
        yield make_node("Add", [f"{name}{of}/p", weight(f"{of}.bias", outer)], [f"{name}{of}/y"], name=f"{name}{of}/b")

    def norm(of: str, sources: list[str], result: str) -> Iterator[onnx.NodeProto]:
        scale, shift = weight(f"{of}.weight", HIDDEN), weight(f"{of}.bias", HIDDEN)
        yield make_node("Add", sources, [f"{name}{of}/sum"], name=f"{name}{of}/add")
        yield make_node("LayerNormalization", [f"{name}{of}/sum", scale, shift], [result], name=f"{name}{of}")

    base = f"{name}/attention"
    for part, order in {"query": [0, 2, 1, 3], "key": [0, 2, 3, 1], "value": [0, 2, 1, 3]}.items():
        of = f"/attention/{part}"
        yield from linear(of, x)
        yield make_node("Reshape", [f"{name}{of}/y", "heads"], [f"{name}{of}/r"], name=f"{name}{of}/split")
        yield make_node("Transpose", [f"{name}{of}/r"], [f"{name}{of}/h"], name=f"{name}{of}/turn", perm=order)
    yield make_node("MatMul", [f"{base}/query/h", f"{base}/key/h"], [f"{base}/scores"], name=f"{base}/scores")
    yield make_node("Softmax", [f"{base}/scores"], [f"{base}/weights"], name=f"{base}/softmax")
    yield make_node("MatMul", [f"{base}/weights", f"{base}/value/h"], [f"{base}/mixed"], name=f"{base}/mix")
    yield make_node("Transpose", [f"{base}/mixed"], [f"{base}/turned"], name=f"{base}/turn", perm=[0, 2, 1, 3])
    yield make_node("Reshape", [f"{base}/turned", "joined"], [f"{base}/joined"], name=f"{base}/join")
    yield from linear("/attention/output", f"{base}/joined")
    yield from norm("/attention/norm", [x, f"{base}/output/y"], f"{base}/normed")
    yield from linear("/intermediate", f"{base}/normed", outer=4 * HIDDEN)
    yield make_node("Gelu", [f"{name}/intermediate/y"], [f"{name}/gelu"], name=f"{name}/intermediate/gelu")
    yield from linear("/output", f"{name}/gelu", inner=4 * HIDDEN)
    yield from norm("/norm", [f"{base}/normed", f"{name}/output/y"], y)


def _write(stream: BinaryIO, model: onnx.ModelProto, weights: Weights) -> None:
    """The model's message by hand: protobuf would need the weights in memory."""
    graph = model.graph.SerializeToString()
    model.ClearField("graph")
    heads = []
    for name, shape in weights.items():
        size = 4 * prod(shape)
        tensor = onnx.TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT).SerializeToString()
        tensor += _length_field(_RAW_DATA, size)
        heads.append((_length_field(_INITIALIZER, len(tensor) + size) + tensor, size))
    stream.write(model.SerializeToString())
    stream.write(_length_field(_GRAPH, len(graph) + sum(len(head) + size for head, size in heads)))
    stream.write(graph)
    for head, size in heads:
        stream.write(head)
        stream.seek(size, 1)
    stream.truncate()


def _length_field(number: int, length: int) -> bytes:
    """The head of a field of that many bytes: tag and length."""
    return _varint(number << 3 | 2) + _varint(length)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
