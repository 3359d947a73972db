"""Records the operators that followed code calls: each call becomes a node, and gives descriptions of its results."""

from collections.abc import Mapping, Sequence
from typing import Any

from bimetal.operators.sizes import ANY, Sizes
from bimetal.operators.torch_graph import ATEN, Collector, plain_name
from bimetal.operators.torch_scalars import NOT_TOLD
from bimetal.operators.torch_shapes import result_type, shapes
from bimetal.operators.torch_signatures import named
from bimetal.operators.torch_value import Shapes, Value, values

_MAKERS = frozenset(["zeros", "ones", "full", "empty", "rand", "randn", "arange", "tensor", "randint", "linspace"])
_OURS = frozenset(["torch", "ops.aten"])


class Recorder:
    """Records into a collector."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._names = 0
        self._newest: dict[str, Value] = {}

    def latest(self, value: Any) -> Any:
        """After relu_(x), x is what relu_ gave."""
        while isinstance(value, Value) and value.name in self._newest:
            value = self._newest[value.name]
        return value

    def call(
        self, domain: str, operator: str, arguments: Sequence[Any], keywords: Mapping[str, Any], scope: str
    ) -> Any:
        """The results of a call: a tensor, a tuple or a list of them; NOT_TOLD for what is no operator on tensors."""
        if domain == "ops.prim" or (not values([*arguments]) and not values(keywords) and operator not in _MAKERS):
            return NOT_TOLD
        in_place = operator.endswith("_") and not operator.endswith("__")
        by_name = named(operator.rstrip("_") if in_place else operator, arguments, keywords)
        plain, aten = plain_name(operator, by_name), domain in _OURS
        sizes = shapes(plain, by_name) if aten else ANY
        result, flat = self._results(plain, sizes, result_type(plain, by_name) if aten else None)
        ours = ATEN if aten else domain.removeprefix("ops.")
        self._collector.add(plain, by_name, flat, domain=ours, scope=scope)
        if in_place and isinstance(arguments[0], Value) and isinstance(result, Value):
            self._newest[arguments[0].name] = result
        return result

    def _results(self, operator: str, sizes: Shapes, kind: str | None) -> tuple[Any, list[Value]]:
        if isinstance(sizes, Sizes):
            made = self._new(operator, sizes, kind)
            return made, [made]
        kinds = [kind, "int64"] if operator in {"max", "min", "topk"} else [kind] * len(sizes)
        flat = [self._new(operator, each, kind) for each, kind in zip(sizes, kinds, strict=True)]
        return (tuple(flat) if isinstance(sizes, tuple) else flat), flat

    def _new(self, operator: str, sizes: Sizes, kind: str | None) -> Value:
        self._names += 1
        return Value(f"{operator}_{self._names}", sizes, kind)
