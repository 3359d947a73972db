"""ONNX's node tests as plain values that travel to a worker process.

Only tests of one operator are taken: those whose names end in "_expanded" run an operator's
function body instead of the operator, and test other operators than their names say.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
from onnx.backend.test.case.node import collect_testcases

from bimetal.operators.onnx.main_type import main_type
from bimetal.operators.onnx.reader import operator_version
from bimetal.operators.onnx.tensors import type_name

Value = Any
"""What ONNX's tests feed and expect: an array, a list of values (a sequence) or None (an empty optional)."""

# Their expected values are one draw of a random generator; only type and shape can be compared.
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
_RANDOM_MODE = "test_training_dropout"


@dataclass(frozen=True, order=True)
class Variant:
    """What one verdict is about: an operator at one version with one element type, such as fp16.

    `type` is the operator's main type (`bimetal.operators.onnx.main_type`), or "none".
    """

    domain: str
    operator: str
    version: int
    type: str


@dataclass(frozen=True)
class Case:
    """One model of one operator, what goes in and what must come out.

    `compare_values` is False where only types and shapes are defined.
    """

    name: str
    model: bytes
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    rtol: float
    atol: float
    compare_values: bool = True

    @cached_property
    def proto(self) -> onnx.ModelProto:
        """`model`, parsed once."""
        return onnx.load_model_from_string(self.model)

    @property
    def node(self) -> onnx.NodeProto:
        """The node that is tested."""
        node: onnx.NodeProto = self.proto.graph.node[0]
        return node

    @property
    def domain(self) -> str:
        """Of the node's operator; ONNX's own is `ai.onnx`."""
        return self.node.domain or "ai.onnx"

    @property
    def opset(self) -> int:
        """The model's import of the operator's domain."""
        wanted = self.node.domain
        return next(int(entry.version) for entry in self.proto.opset_import if entry.domain == wanted)

    @cached_property
    def variant(self) -> Variant:
        """Operator, version and element type that the case is a test of."""
        node, domain = self.node, self.domain
        version = operator_version(node.op_type, domain, self.opset)
        types = {value.name: _element_type(value) for value in (*self.proto.graph.input, *self.proto.graph.output)}
        inputs, outputs = (list(map(types.get, names)) for names in (node.input, node.output))
        return Variant(
            domain, node.op_type, version, main_type(domain, node.op_type, version, inputs, outputs) or "none"
        )

    @property
    def elements(self) -> int:
        """How many values go in."""
        return sum(array.size for array in self._arrays)

    @property
    def bytes(self) -> int:
        """Their size as numpy holds them (a 4-bit number takes a byte)."""
        return sum(array.nbytes for array in self._arrays)

    @property
    def _arrays(self) -> list[np.ndarray[Any, Any]]:
        return [array for value in self.inputs for array in _arrays(value)]


def onnx_cases() -> list[Case]:
    """Every node test of the installed onnx package that tests one operator (about 3 s)."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of the tests' own arithmetic: they divide by zero on purpose
        tests: list[Any] = list(collect_testcases(None))
    return [_case(test) for test in tests if len(test.model.graph.node) == 1 and "_expanded" not in test.name]


def by_variant(cases: Iterable[Case]) -> dict[Variant, list[Case]]:
    """The cases under what they are about, sorted."""
    groups: dict[Variant, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.variant, []).append(case)
    return dict(sorted(groups.items()))


def _case(test: Any) -> Case:
    inputs, outputs = test.data_sets[0]
    random = test.model.graph.node[0].op_type in _RANDOM or test.name.startswith(_RANDOM_MODE)
    return Case(
        name=test.name,
        model=test.model.SerializeToString(),
        inputs=tuple(map(_value, inputs)),
        outputs=tuple(map(_value, outputs)),
        rtol=test.rtol,
        atol=test.atol,
        compare_values=not random,
    )


def _value(value: Value) -> Value:
    """Types that numpy lacks come as protobuf."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _element_type(value: onnx.ValueInfoProto) -> str | None:
    """The element type inside tensors, sequences and optionals."""
    kind = value.type
    while (which := kind.WhichOneof("value")) in {"sequence_type", "optional_type"}:
        kind = getattr(kind, which).elem_type
    return type_name(kind.tensor_type.elem_type) if which == "tensor_type" else None


def _arrays(value: Value) -> list[np.ndarray[Any, Any]]:
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [array for item in value for array in _arrays(item)]
    return [np.asarray(value)]
