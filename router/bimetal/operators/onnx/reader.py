"""Reads the operator graph of an ONNX file; local functions are put in place of their calls, as onnxruntime does."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx

from bimetal.operators.errors import ModelFileError
from bimetal.operators.graph import Graph, Node, Tensor
from bimetal.operators.onnx.file import load_structure
from bimetal.operators.onnx.preparation import prepare
from bimetal.operators.onnx.tensors import TensorTable, attribute_values


def read_graph(file: Path) -> Graph:
    """Reads a model's operator graph; weights are not loaded.

    Raises:
        ModelFileError: the file is no ONNX model, or its graph cannot be followed.
    """
    return graph_of(file, load_structure(file))


def graph_of(file: Path, model: onnx.ModelProto, constants: Iterable[Tensor] = ()) -> Graph:
    """The operator graph of a model's structure.

    Args:
        file: what an error names.
        constants: inputs that are known before the model runs.

    Raises:
        ModelFileError: its graph cannot be followed.
    """
    prepared = prepare(file, model)
    builder = _Builder(file, prepared.opsets)
    table = TensorTable.of_model(prepared.symbolic.graph, prepared.assumed.graph)
    table.know(constants)
    builder.add(prepared.symbolic.graph, table, None)
    return Graph(
        file=file,
        opsets=builder.opsets,
        inputs=tuple(
            table.tensor(value.name) for value in prepared.symbolic.graph.input if not table.is_constant(value.name)
        ),
        outputs=tuple(table.tensor(value.name) for value in prepared.symbolic.graph.output),
        nodes=tuple(builder.nodes),
        notes=prepared.notes,
    )


def operator_version(operator: str, domain: str, opset: int) -> int:
    """The version of the operator that an opset selects; 1 where ONNX does not define the operator."""
    try:
        return int(onnx.defs.get_schema(operator, opset, "" if domain == "ai.onnx" else domain).since_version)
    except onnx.defs.SchemaError:
        return 1


class _Builder:
    """Collects nodes depth first, so a body stands after the node that owns it."""

    def __init__(self, file: Path, opsets: Mapping[str, int]) -> None:
        self.file = file
        self.opsets = opsets
        self.nodes: list[Node] = []

    def add(self, graph: onnx.GraphProto, table: TensorTable, parent: int | None) -> None:
        makers: dict[str, int] = {}
        for proto in topological(self.file, graph):
            index = len(self.nodes)
            table.note_constants(proto)
            reads = [makers[name] for name in read_names(proto) if name in makers]
            self.nodes.append(self._node(proto, index, table, tuple(dict.fromkeys(reads)), parent))
            makers.update(dict.fromkeys(filter(None, proto.output), index))
            for body in subgraphs(proto):
                self.add(body, table.inner(body), index)

    def _node(
        self, proto: onnx.NodeProto, index: int, table: TensorTable, predecessors: tuple[int, ...], parent: int | None
    ) -> Node:
        domain = proto.domain or "ai.onnx"
        opset = self.opsets[domain]
        return Node(
            index=index,
            name=proto.name,
            operator=proto.op_type,
            domain=domain,
            version=operator_version(proto.op_type, domain, opset),
            opset=opset,
            inputs=tuple(table.tensor(name) if name else None for name in proto.input),
            outputs=tuple(table.tensor(name) if name else None for name in proto.output),
            attributes=attribute_values(proto),
            predecessors=predecessors,
            parent=parent,
        )


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The bodies of an If, Loop, Scan or SequenceMap."""
    found: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            found.append(attribute.g)
        found += attribute.graphs
    return found


def read_names(node: onnx.NodeProto) -> list[str]:
    """The tensors that a node reads, those that its bodies take from outside included."""
    names = [name for name in node.input if name]
    for body in subgraphs(node):
        inside = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
        for child in body.node:
            names += [name for name in read_names(child) if name not in inside]
            inside |= set(child.output)
    return names


def topological(file: Path, graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes of one graph, each after those it reads from (files are not always sorted).

    Raises:
        ModelFileError: nodes wait for each other in a cycle, or two produce one tensor.
    """
    makers: dict[str, int] = {}
    for index, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in makers:
                raise ModelFileError(
                    f"{file}: tensor {name!r} is produced twice; expected every name once.", "Export the model again."
                )
            makers[name] = index
    waits = [{makers[name] for name in read_names(node) if name in makers} for node in graph.node]
    readers: list[list[int]] = [[] for _ in graph.node]
    for index, makers_of in enumerate(waits):
        for maker in makers_of:
            readers[maker].append(index)
    missing = [len(makers_of) for makers_of in waits]
    ready = [index for index in range(len(missing) - 1, -1, -1) if missing[index] == 0]
    order = []
    while ready:
        index = ready.pop()
        order.append(graph.node[index])
        for reader in reversed(readers[index]):
            missing[reader] -= 1
            if missing[reader] == 0:
                ready.append(reader)
    if len(order) < len(missing):
        stuck = next(graph.node[i] for i, count in enumerate(missing) if count)
        raise ModelFileError(
            f"{file}: node {stuck.name or stuck.op_type!r} waits for its own result (a cycle).",
            "Export the model again.",
        )
    return order
