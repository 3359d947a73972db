"""The operator graph of a torch.export archive, from its JSON."""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from bimetal.operators.errors import ModelFileError
from bimetal.operators.graph import Graph
from bimetal.operators.sizes import UNKNOWN, Dim, Size, Sizes, assumed, combined, input_size
from bimetal.operators.torch.archive import SAVE_AGAIN, syntax_tree
from bimetal.operators.torch.graph import ATEN, Collector, plain_name
from bimetal.operators.torch.value import Value, of_export

_SYMBOLS = {"Add": "+", "Mul": "*", "FloorDiv": "//", "CleanDiv": "//", "Mod": "%", "PythonMod": "%"}
_SIZE_QUESTIONS = frozenset(["sym_size", "sym_numel", "sym_stride", "sym_storage_offset", "sym_constrain_range"])


def read_exported(file: Path, content: bytes) -> Graph:
    """The graph with every tensor's shape; open sizes are counted as they are in ONNX files.

    Raises:
        ModelFileError: the JSON is no exported program.
    """
    try:
        return _Program(file, json.loads(content)).graph()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as exc:
        raise ModelFileError(
            f"{file}: the exported graph cannot be followed ({type(exc).__name__}: {exc}).", SAVE_AGAIN
        ) from exc


class _Program:
    def __init__(self, file: Path, program: Mapping[str, Any]) -> None:
        self._collector = Collector(file)
        self._graph = program["graph_module"]["graph"]
        self._signature = program["graph_module"].get("signature", {})
        self._opset = int(program.get("opset_version", {}).get("aten", 0))
        self._ranges = program.get("range_constraints", {})
        self._tensors: Mapping[str, Any] = self._graph["tensor_values"]
        self._symbols: dict[str, Size] = {}
        self._constants, self._inputs = self._split_inputs()

    def graph(self) -> Graph:
        inputs = [self._value(name) for name in self._inputs]
        self._add_all(self._graph["nodes"])
        return self._collector.graph(
            "torch.export",
            opset=self._opset,
            inputs=[value.tensor for value in inputs],
            outputs=[self._value(name).tensor for name in _tensor_names(self._graph.get("outputs", []))],
        )

    def _split_inputs(self) -> tuple[frozenset[str], list[str]]:
        """Weights and buffers, and what a caller gives."""
        kinds = {}
        for spec in self._signature.get("input_specs", []):
            for kind, content in spec.items():
                argument = content.get("arg", {}) if isinstance(content, dict) else {}
                name = argument.get("name") or next(iter(_tensor_names([argument])), None)
                kinds[name] = kind
        names = list(_tensor_names(self._graph.get("inputs", [])))
        inputs = [name for name in names if kinds.get(name, "user_input") == "user_input"]
        return frozenset(names) - frozenset(inputs), inputs

    def _add_all(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        for node in nodes:
            self._add(node)

    def _add_body(self, parent: int, graph: Mapping[str, Any]) -> None:
        """A branch or a loop's body, which has tables of its own."""
        outside = self._graph, self._tensors
        self._graph, self._tensors = graph, graph["tensor_values"]
        with self._collector.body_of(parent):
            self._add_all(graph["nodes"])
        self._graph, self._tensors = outside

    def _add(self, node: Mapping[str, Any]) -> None:
        domain, operator = _operator(node["target"])
        if operator is None or operator in _SIZE_QUESTIONS:
            return
        arguments = {each["name"]: self._argument(each["arg"]) for each in node["inputs"]}
        results = [self._value(name) for name in _tensor_names(node["outputs"])]
        index = self._collector.add(
            plain_name(operator, arguments) if domain == ATEN else operator,
            arguments,
            results,
            domain=domain,
            scope=_scope(node.get("metadata", {})),
            opset=self._opset,
        )
        for each in node["inputs"]:
            if "as_graph" in each["arg"]:
                self._add_body(index, each["arg"]["as_graph"]["graph"])

    def _argument(self, argument: Mapping[str, Any]) -> Any:
        (kind, value), *_ = argument.items()
        if kind in {"as_tensor", "as_tensors", "as_optional_tensors", "as_optional_tensor"}:
            tensors = [self._value(name) for name in _tensor_names([argument])]
            return tensors[0] if kind in {"as_tensor", "as_optional_tensor"} and tensors else tensors or None
        if kind in {"as_int", "as_ints", "as_float", "as_floats", "as_string", "as_bool", "as_bools"}:
            return value
        if kind == "as_sym_int":
            return self._size(value)
        if kind == "as_sym_ints":
            return [self._size(each) for each in value]
        return None

    def _value(self, name: str) -> Value:
        meta = self._tensors.get(name)
        if meta is None:
            return Value(name)
        sizes = [self._size(size, axis) for axis, size in enumerate(meta["sizes"])]
        return Value(name, Sizes(tuple(sizes)), of_export(meta.get("dtype")), constant=name in self._constants)

    def _size(self, size: Mapping[str, Any], axis: int = 1) -> Size:
        if "as_int" in size:
            return int(size["as_int"])
        if "as_name" in size:
            expression = self._graph.get("sym_int_values", {}).get(size["as_name"])
            return self._size(expression, axis) if expression and "as_name" not in expression else UNKNOWN
        text = str(size["as_expr"]["expr_str"])
        try:
            return self._evaluated(syntax_tree(text, "eval").body, axis)
        except (SyntaxError, MemoryError):
            return Dim(text if text.isidentifier() else None)

    def _evaluated(self, expression: ast.expr, axis: int) -> Size:
        """An expression of sympy's, as text ("2*s77") or as calls ("Mul(Integer(2), Symbol('s77', ...))")."""
        match expression:
            case ast.Constant(value=int() as value):
                return value
            case ast.Name(id=name):
                return self._symbol(name, axis)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._called(name, arguments, axis)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return combined("-", 0, self._evaluated(operand, axis))
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
                return combined(_BINARY[type(operator)], self._evaluated(left, axis), self._evaluated(right, axis))
        return UNKNOWN

    def _called(self, name: str, arguments: Sequence[ast.expr], axis: int) -> Size:
        if name == "Symbol" and isinstance(arguments[0], ast.Constant):
            return self._symbol(str(arguments[0].value), axis)
        found = [self._evaluated(each, axis) for each in arguments]
        if name in _SYMBOLS:
            return reduce(lambda left, right: combined(_SYMBOLS[name], left, right), found)
        if name in {"Max", "Min"}:
            return Dim(None, (max if name == "Max" else min)(assumed(size) for size in found))
        return found[0] if name in {"Integer", "Identity", "TruncToInt"} else UNKNOWN

    def _symbol(self, name: str, axis: int) -> Size:
        """A symbol is counted by the axis where it is first met, within the range that the export was made for."""
        if name not in self._symbols:
            size = input_size(name, axis)
            bounds = self._ranges.get(name, {})
            low, high = bounds.get("min_val"), bounds.get("max_val")
            counted = max(size.assumed, low) if isinstance(low, int) else size.assumed
            counted = min(counted, high) if isinstance(high, int) else counted
            self._symbols[name] = Dim(name, counted)
        return self._symbols[name]


_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}


def _tensor_names(arguments: Any) -> Iterator[str]:
    for argument in arguments:
        for kind, value in argument.items():
            if kind in {"as_tensor", "as_optional_tensor"} and isinstance(value, dict):
                yield from _name(value)
            elif kind in {"as_tensors", "as_optional_tensors"}:
                for each in value:
                    yield from _name(each)


def _name(value: Mapping[str, Any]) -> Iterator[str]:
    inner = value.get("as_tensor", value)
    if isinstance(inner, dict) and "name" in inner:
        yield str(inner["name"])


def _operator(target: str) -> tuple[str, str | None]:
    """torch.ops.aten.conv1d.default -> (aten, conv1d); None for what is no operator of a library."""
    parts = target.split(".")
    return (parts[2], parts[3]) if parts[:2] == ["torch", "ops"] and len(parts) >= 4 else ("", None)


def _scope(metadata: Mapping[str, str]) -> str:
    """The innermost module's path, from "NAME,PATH,CLASS;NAME,PATH,CLASS"."""
    innermost = str(metadata.get("nn_module_stack", "")).rpartition(";")[2].split(",")
    return innermost[1] if len(innermost) == 3 and not innermost[1].startswith("_empty") else ""
