"""Small ONNX models, written as files the way an exporter would."""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.helper import make_node

from bimetal.operators.matrix.matrix import default_matrix
from bimetal.operators.matrix.targets import target_of
from bimetal.operators.onnx.reader import operator_version

Shape = Sequence[int | str | None]
Save = Callable[..., Path]

_TYPES = {
    "fp32": onnx.TensorProto.FLOAT,
    "fp16": onnx.TensorProto.FLOAT16,
    "bf16": onnx.TensorProto.BFLOAT16,
    "int8": onnx.TensorProto.INT8,
    "uint8": onnx.TensorProto.UINT8,
    "int32": onnx.TensorProto.INT32,
    "int64": onnx.TensorProto.INT64,
    "bool": onnx.TensorProto.BOOL,
    "fp8e4m3fn": onnx.TensorProto.FLOAT8E4M3FN,
    "fp8e4m3fnuz": onnx.TensorProto.FLOAT8E4M3FNUZ,
}


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes a model and gives its path.

    `inputs` maps names to shapes, with the type before a colon in the name ("fp16:x"; fp32 without);
    `weights` maps names to arrays, or to shapes of which float zeros are made.
    """

    def write(
        nodes: Sequence[onnx.NodeProto],
        inputs: Mapping[str, Shape],
        outputs: Sequence[str],
        weights: Mapping[str, np.ndarray[Any, Any] | Sequence[int]] | None = None,
        *,
        opset: int = 17,
        functions: Sequence[onnx.FunctionProto] = (),
        name: str = "model.onnx",
        **domains: int,
    ) -> Path:
        graph = helper.make_graph(
            nodes,
            "graph",
            [_input(label, shape) for label, shape in inputs.items()],
            [helper.make_empty_tensor_value_info(output) for output in outputs],
            [_weight(label, value) for label, value in (weights or {}).items()],
        )
        imports = [helper.make_opsetid("", opset)]
        imports += [helper.make_opsetid(domain.replace("_", "."), version) for domain, version in domains.items()]
        model = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)
        file = tmp_path / name
        file.write_bytes(model.SerializeToString())
        return file

    return write


def _input(label: str, shape: Shape) -> onnx.ValueInfoProto:
    kind, _, name = label.rpartition(":")
    return helper.make_tensor_value_info(name, _TYPES[kind or "fp32"], shape)


def _weight(label: str, value: np.ndarray[Any, Any] | Sequence[int]) -> onnx.TensorProto:
    kind, _, name = label.rpartition(":")
    if isinstance(value, np.ndarray):
        return numpy_helper.from_array(value, name)
    dtype = helper.tensor_dtype_to_np_dtype(_TYPES[kind or "fp32"])
    return numpy_helper.from_array(np.zeros(tuple(value), dtype), name)


@pytest.fixture
def transformer(save: Save) -> Callable[..., Path]:
    """A pre-norm transformer block as exporters write it at that opset.

    LayerNormalization exists from opset 17 on, Gelu from 20, RMSNormalization, RotaryEmbedding and
    Attention from 23; before, they come as the primitive operators that stand for them.
    """

    def write(opset: int, hidden: int = 64, sequence: int | str = 32, heads: int = 4) -> Path:
        block = _Block(opset, hidden, heads)
        return save(block.nodes, {"hidden_states": [1, sequence, hidden]}, [block.output], block.weights, opset=opset)

    return write


class _Block:
    def __init__(self, opset: int, hidden: int, heads: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray[Any, Any] | Sequence[int]] = {"one": np.array(1.0, np.float32)}
        self.opset, self.hidden, self.heads = opset, hidden, heads
        normed = self._norm("hidden_states", "/layer.0/attention/norm")
        attended = self._attention(normed)
        summed = self._add("Add", ["hidden_states", attended], "/layer.0/attention/residual")
        normed = self._norm(summed, "/layer.0/mlp/norm")
        self.output = self._add("Add", [summed, self._mlp(normed)], "/layer.0/mlp/residual")

    def _add(self, operator: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        output = f"{name}_output"
        self.nodes.append(make_node(operator, inputs, [output], name=name, **attributes))
        return output

    def _weight(self, name: str, *shape: int) -> str:
        self.weights[name] = shape
        return name

    def _norm(self, x: str, name: str) -> str:
        scale = self._weight(f"{name}.scale", self.hidden)
        if self.opset >= 23:
            return self._add("RMSNormalization", [x, scale], name, axis=-1)
        if self.opset >= 17:
            return self._add("LayerNormalization", [x, scale], name, axis=-1)
        axes = {"axes": [-1]} if self.opset < 18 else {}
        mean = self._add("ReduceMean", [x], f"{name}/mean", **axes)
        centred = self._add("Sub", [x, mean], f"{name}/centre")
        squared = self._add("Mul", [centred, centred], f"{name}/square")
        variance = self._add("ReduceMean", [squared], f"{name}/variance", **axes)
        deviation = self._add("Sqrt", [variance], f"{name}/sqrt")
        return self._add("Mul", [self._add("Div", [centred, deviation], f"{name}/div"), scale], f"{name}/scale_by")

    def _attention(self, x: str) -> str:
        base, size = "/layer.0/attention", self.hidden // self.heads
        self.weights["split"] = np.array([0, -1, self.heads, size], np.int64)
        self.weights["join"] = np.array([0, -1, self.hidden], np.int64)
        parts = []
        for part in ("query", "key", "value"):
            weight = self._weight(f"{base}/{part}.weight", self.hidden, self.hidden)
            projected = self._add("MatMul", [x, weight], f"{base}/{part}")
            split = self._add("Reshape", [projected, "split"], f"{base}/{part}/split")
            parts.append(self._add("Transpose", [split], f"{base}/{part}/heads", perm=[0, 2, 1, 3]))
        if self.opset >= 23:
            mixed = self._add("Attention", parts, f"{base}/sdpa")
        else:
            keys = self._add("Transpose", [parts[1]], f"{base}/keys", perm=[0, 1, 3, 2])
            scores = self._add("MatMul", [parts[0], keys], f"{base}/scores")
            weights = self._add("Softmax", [scores], f"{base}/softmax", axis=-1)
            mixed = self._add("MatMul", [weights, parts[2]], f"{base}/mix")
        merged = self._add("Transpose", [mixed], f"{base}/merge", perm=[0, 2, 1, 3])
        joined = self._add("Reshape", [merged, "join"], f"{base}/join")
        return self._add(
            "MatMul", [joined, self._weight(f"{base}/out.weight", self.hidden, self.hidden)], f"{base}/out"
        )

    def _mlp(self, x: str) -> str:
        base = "/layer.0/mlp"
        up = self._add("MatMul", [x, self._weight(f"{base}/up.weight", self.hidden, 4 * self.hidden)], f"{base}/up")
        if self.opset >= 20:
            active = self._add("Gelu", [up], f"{base}/gelu")
        else:
            erf = self._add("Erf", [up], f"{base}/erf")
            active = self._add("Mul", [up, self._add("Add", [erf, "one"], f"{base}/shift")], f"{base}/gate")
        return self._add(
            "MatMul", [active, self._weight(f"{base}/down.weight", 4 * self.hidden, self.hidden)], f"{base}/down"
        )


@pytest.fixture
def matrix_score() -> Callable[[str, int, str], int]:
    """(operator, opset, provider) -> the score of ONNX's own operator in the shipped matrix."""

    def score(operator: str, opset: int, provider: str) -> int:
        version = operator_version(operator, "ai.onnx", opset)
        judgement = default_matrix().judge("ai.onnx", operator, version, target_of(provider))
        assert judgement is not None
        return judgement.score

    return score


@pytest.fixture
def torch_archive() -> Callable[[Path], Path]:
    """Writes a TorchScript archive of one convolution."""

    def write(file: Path) -> Path:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("model/code/__torch__.py", "    return torch.conv1d(x, w, None, [1], [1], [1], 1)\n")
        return file

    return write
