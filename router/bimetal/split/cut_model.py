"""A model file ready to be cut: whole protos in topological order beside what the profile says of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import inliner

from bimetal.operators.graph import Node, Tensor
from bimetal.operators.onnx.reader import read_names, topological
from bimetal.operators.profile import Profile, analyze
from bimetal.split.errors import SplitError


@dataclass(frozen=True)
class CutModel:
    """The nodes of the main graph; a body of If, Loop or Scan belongs to its node and stays inside.

    Local functions stand in place of their calls, as onnxruntime puts them, and Constant nodes are
    initializers, so that each segment can hold those that it reads.

    Attributes:
        model: with its weights; external data stays in its files.
        protos: in topological order.
        nodes: the profile's view of each of them.
        reads: the tensors that each reads, captures of its bodies included; no weights.
        captures: the ones among `reads` that only its bodies read.
    """

    file: Path
    model: onnx.ModelProto
    profile: Profile
    protos: Sequence[onnx.NodeProto]
    nodes: Sequence[Node]
    reads: Sequence[tuple[str, ...]]
    captures: Sequence[frozenset[str]]
    weights: frozenset[str]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What a request sends, in the file's order; weights are none of them."""
        return self.profile.graph.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """What a request gets back, in the file's order."""
        return self.profile.graph.outputs

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The model's inputs and what its nodes make, by name."""
        made = (tensor for node in self.nodes for tensor in node.outputs if tensor is not None)
        return {tensor.name: tensor for tensor in (*self.inputs, *made)}


def read_cut_model(file: Path) -> CutModel:
    """Reads a model with its weights (external data is not read).

    Raises:
        ModelFileError: the file is no ONNX model, or not a safe one.
        SplitError: the model gives a tensor that none of its nodes makes.
    """
    profile = analyze(file)  # refuses what is hostile before all of it is loaded
    model = onnx.load(file, load_external_data=False)
    if model.functions:
        model = inliner.inline_local_functions(model, convert_version=True)
    protos = topological(file, model.graph)
    nodes = profile.graph.bodies[None] if protos else ()
    pairs = [
        (proto, node) for proto, node in zip(protos, nodes, strict=True) if not _becomes_weight(proto, model.graph)
    ]
    weights = _weights(model.graph)
    reads = [tuple(name for name in dict.fromkeys(read_names(proto)) if name not in weights) for proto, _ in pairs]
    _check_outputs(file, model.graph, {name for proto, _ in pairs for name in proto.output})
    return CutModel(
        file=file,
        model=model,
        profile=profile,
        protos=[proto for proto, _ in pairs],
        nodes=[node for _, node in pairs],
        reads=reads,
        captures=[frozenset(names) - set(proto.input) for names, (proto, _) in zip(reads, pairs, strict=True)],
        weights=weights,
    )


def _becomes_weight(node: onnx.NodeProto, graph: onnx.GraphProto) -> bool:
    """Whether this is a Constant node; it is then among the graph's initializers afterwards."""
    if node.op_type != "Constant" or node.domain not in {"", "ai.onnx"}:
        return False
    if node.output[0] in {value.name for value in graph.output}:
        return False  # a tensor that the model gives has to be made by a node
    tensor = _constant(node)
    if tensor is None:
        return False
    graph.initializer.append(tensor)
    return True


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor that a Constant node makes; None for a sparse one."""
    attribute = node.attribute[0]
    match attribute.name:
        case "value":
            tensor = onnx.TensorProto()
            tensor.CopyFrom(attribute.t)
            tensor.name = node.output[0]
            return tensor
        case "sparse_value":
            return None
        case _:
            return _from_plain_attribute(node.output[0], attribute)


def _from_plain_attribute(name: str, attribute: onnx.AttributeProto) -> onnx.TensorProto:
    """value_int(s), value_float(s) and value_string(s) are a scalar or a vector of one fixed type."""
    types = {"value_int": onnx.TensorProto.INT64, "value_float": onnx.TensorProto.FLOAT}
    value = onnx.helper.get_attribute_value(attribute)
    many = attribute.name.endswith("s")
    kind = types.get(attribute.name.removesuffix("s"), onnx.TensorProto.STRING)
    return onnx.helper.make_tensor(name, kind, [len(value)] if many else [], value if many else [value])


def _weights(graph: onnx.GraphProto) -> frozenset[str]:
    sparse = (tensor.values.name for tensor in graph.sparse_initializer)
    return frozenset([*(tensor.name for tensor in graph.initializer), *sparse])


def _check_outputs(file: Path, graph: onnx.GraphProto, made: set[str]) -> None:
    for value in graph.output:
        if value.name not in made:
            raise SplitError(
                f"{file}: no node makes the output {value.name!r}; expected every output from a node.",
                "Remove that output from the model, or serve the model whole.",
            )
