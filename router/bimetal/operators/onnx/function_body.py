"""The operators that onnxruntime puts in place of one that nobody has a kernel for: its ONNX function body."""

from functools import lru_cache
from pathlib import Path

import onnx
from onnx import helper, inliner

from bimetal.operators.errors import ModelFileError
from bimetal.operators.graph import AttributeValue, Node, Tensor
from bimetal.operators.onnx.reader import graph_of
from bimetal.operators.onnx.tensors import element_type

_IR_VERSION = 10
_Attributes = tuple[tuple[str, AttributeValue], ...]


def body_of(node: Node) -> tuple[Node, ...]:
    """The nodes of the operator's function body for this node's types, shapes and attributes.

    Empty where the operator has no body, or where the body depends on what is not known (a type, a graph).
    """
    inputs = tuple(
        Tensor(f"input{position}", tensor.type, tensor.shape, tensor.assumed, tensor.constant) if tensor else None
        for position, tensor in enumerate(node.inputs)
    )
    return _body(node.domain, node.operator, node.opset, inputs, tuple(sorted(node.attributes.items())))


@lru_cache(maxsize=1024)
def _body(
    domain: str, operator: str, opset: int, inputs: tuple[Tensor | None, ...], attributes: _Attributes
) -> tuple[Node, ...]:
    known = [tensor for tensor in inputs if tensor is not None]
    if any(tensor.type is None for tensor in known):
        return ()
    ours = "" if domain == "ai.onnx" else domain
    names = [tensor.name if tensor else "" for tensor in inputs]
    proto = helper.make_node(operator, names, ["output"], domain=ours)
    proto.attribute.extend(helper.make_attribute(name, value) for name, value in attributes)
    graph = helper.make_graph(
        [proto],
        operator,
        [helper.make_tensor_value_info(tensor.name, element_type(tensor.type or ""), tensor.shape) for tensor in known],
        [helper.make_empty_tensor_value_info("output")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(ours, opset)], ir_version=_IR_VERSION)
    try:
        inlined = inliner.inline_selected_functions(model, [(ours, operator)], inline_schema_functions=True)
        nodes = graph_of(Path(operator), inlined, [tensor for tensor in known if tensor.constant]).nodes
    except (RuntimeError, ValueError, onnx.checker.ValidationError, ModelFileError):
        return ()
    return () if any((node.domain, node.operator) == (domain, operator) for node in nodes) else nodes
