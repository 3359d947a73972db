"""A model's profile: what its operators cost, which of them it waits for, what is dynamic."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bimetal.operators.costs.cost import Cost, cost_of
from bimetal.operators.graph import Graph, Node, Tensor
from bimetal.operators.input_shapes import InputShapes
from bimetal.operators.onnx.reader import read_graph
from bimetal.operators.torch.archive import is_zip
from bimetal.operators.torch.file import read_torch_graph


@dataclass(frozen=True)
class Profile:
    """The graph with a cost per node (same order) and the longest chain through it.

    `critical_path` holds node indices; a node that owns a body (If, Loop, Scan) costs what the
    longest chain of its body costs, and both are on the path.
    """

    graph: Graph
    costs: tuple[Cost, ...]
    critical_path: frozenset[int]

    @property
    def flops(self) -> int:
        """FLOPs of one inference, at the assumed sizes and without `uncounted` nodes; a multiply-add counts two."""
        return sum(cost.flops or 0 for cost in self.costs)

    @property
    def bytes(self) -> int:
        """Bytes read and written in one inference, at the assumed sizes and without `uncounted` nodes."""
        return sum(cost.bytes or 0 for cost in self.costs)

    @property
    def uncounted(self) -> int:
        """Nodes whose shapes are unknown, so that the sums leave them out."""
        return sum(1 for cost in self.costs if cost.flops is None or cost.bytes is None)

    @property
    def dynamic_inputs(self) -> tuple[Tensor, ...]:
        """The inputs with an open size."""
        return tuple(tensor for tensor in self.graph.inputs if tensor.dynamic_axes)


def analyze(file: Path, inputs: InputShapes | None = None) -> Profile:
    """Reads an ONNX, torch.export or TorchScript file and profiles it.

    Args:
        inputs: shapes that a TorchScript file does not tell.

    Raises:
        ModelFileError: the file is no model, or not a safe one.
    """
    return _profile_of(read_torch_graph(file, inputs) if is_zip(file) else read_graph(file))


def _profile_of(graph: Graph) -> Profile:
    """The profile of a graph that is already read."""
    costs = tuple(cost_of(node) for node in graph.nodes)
    path = critical_path(graph, [cost.native_seconds() for cost in costs])
    return Profile(graph, costs, path)


def critical_path(graph: Graph, seconds: Sequence[float]) -> frozenset[int]:
    """The nodes of the longest chain, by time; bodies of nodes on the chain included."""
    total = list(seconds)
    chains: dict[int | None, list[int]] = {}
    # A body stands after its owner, so going backwards meets every body before its owner's graph.
    owners = sorted((parent for parent in graph.bodies if parent is not None), reverse=True)
    for owner in [*owners, None]:
        chains[owner], length = _longest_chain(graph.bodies.get(owner, ()), total)
        if owner is not None:
            total[owner] += length
    on_path: set[int] = set()
    waiting: list[int | None] = [None]
    while waiting:
        chain = chains[waiting.pop()]
        on_path.update(chain)
        waiting += [index for index in chain if index in chains]
    return frozenset(on_path)


def _longest_chain(nodes: Sequence[Node], seconds: Sequence[float]) -> tuple[list[int], float]:
    finish: dict[int, float] = {}
    before: dict[int, int | None] = {}
    for node in nodes:
        latest = max(node.predecessors, key=finish.__getitem__, default=None)
        before[node.index] = latest
        finish[node.index] = seconds[node.index] + (finish[latest] if latest is not None else 0.0)
    last = max(finish, key=finish.__getitem__, default=None)
    length = finish[last] if last is not None else 0.0
    chain = []
    while last is not None:
        chain.append(last)
        last = before[last]
    return chain[::-1], length
