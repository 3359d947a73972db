"""The operator graph of a model file, whatever its format: nodes, tensors, and what they may hold.

Subgraphs (If, Loop, Scan) come along as nodes of their own with a `parent`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

NODE_LIMIT = 200_000  # with every local function expanded; large language models have about 10,000

Dimension = int | str | None
AttributeValue = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]

BITS = {
    "fp32": 32,
    "uint8": 8,
    "int8": 8,
    "uint16": 16,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "str": 128,  # a guess: a short text with its length
    "bool": 8,
    "fp16": 16,
    "fp64": 64,
    "uint32": 32,
    "uint64": 64,
    "bf16": 16,
    "fp8e4m3fn": 8,
    "fp8e4m3fnuz": 8,
    "fp8e5m2": 8,
    "fp8e5m2fnuz": 8,
    "fp4e2m1": 4,
    "uint4": 4,
    "int4": 4,
    "fp8e8m0": 8,
    "uint2": 2,
    "int2": 2,
}
"""The width in bits of each element type, by the names that the matrix uses."""


@dataclass(frozen=True)
class Tensor:
    """One tensor; `type` and `shape` are None where the file does not tell.

    `shape` holds names (or None) for dynamic dimensions; `assumed` the same shape with the
    assumed sizes in their place. `constant` tensors are known before the model runs.
    """

    name: str
    type: str | None = None
    shape: tuple[Dimension, ...] | None = None
    assumed: tuple[int, ...] | None = None
    constant: bool = False

    @property
    def dynamic_axes(self) -> tuple[int, ...]:
        """The axes whose length the file leaves open."""
        return tuple(axis for axis, size in enumerate(self.shape or ()) if not isinstance(size, int))

    @property
    def elements(self) -> int | None:
        """How many, with open sizes as they are assumed; None where the shape is unknown."""
        return None if self.assumed is None else prod(self.assumed)

    @property
    def bytes(self) -> int | None:
        """Size at the assumed sizes, types under 8 bits packed; None where shape or type is unknown."""
        if self.elements is None or self.type is None:
            return None
        return (self.elements * BITS.get(self.type, 32) + 7) // 8


@dataclass(frozen=True)
class Node:
    """One operator of the graph.

    `version` is the operator version that `opset` (the model's import of `domain`) selects.
    `predecessors` are the nodes it waits for, `parent` the If, Loop or Scan whose body it is in.
    """

    index: int
    name: str
    operator: str
    domain: str
    version: int
    opset: int
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...]
    attributes: Mapping[str, AttributeValue]
    predecessors: tuple[int, ...] = ()
    parent: int | None = None

    @property
    def label(self) -> str:
        """Its name in the file, or operator and index."""
        return self.name or f"{self.operator}_{self.index}"

    def input(self, position: int) -> Tensor | None:
        """The input tensor at that position; None when it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None


@dataclass(frozen=True)
class Graph:
    """A model's operators in topological order, each after those it waits for.

    `timed` is false where so little is known of the shapes that operators cannot be compared by their time.
    """

    file: Path
    opsets: Mapping[str, int]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    notes: tuple[str, ...] = ()
    format: str = "ONNX"
    timed: bool = True

    @cached_property
    def bodies(self) -> Mapping[int | None, tuple[Node, ...]]:
        """The nodes of each (sub)graph, by the index of the node that owns it; None: the main graph."""
        bodies: dict[int | None, list[Node]] = {}
        for node in self.nodes:
            bodies.setdefault(node.parent, []).append(node)
        return {parent: tuple(nodes) for parent, nodes in bodies.items()}
