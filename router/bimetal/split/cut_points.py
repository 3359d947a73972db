"""Where a model may be cut, and the chain of atoms that this gives.

A model is never cut between a node and the body that captures its result (the body would no longer
stand in the graph that it was exported with), where a tensor cannot travel, or between a constant
and its reader (MIGraphX wants constants for axes, pads and shapes, and folds them).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from bimetal.operators.dangers.dangers import dangers
from bimetal.operators.matrix.matrix import Matrix
from bimetal.operators.matrix.targets import target_of
from bimetal.operators.node_judge import NodeJudge
from bimetal.split.chain import Chain, CutTensor, Seconds
from bimetal.split.costs import DEVICES, node_seconds
from bimetal.split.cut_model import CutModel
from bimetal.split.search import MAX_ATOMS
from bimetal.split.wire import can_travel

Positions = npt.NDArray[np.int64]
_FAILS = 1  # the cap of a danger under which people saw an operator fail, hang or compute wrongly


@dataclass(frozen=True)
class Use:
    """One tensor of the main graph by the positions of its nodes; maker -1: an input of the model."""

    name: str
    maker: int
    readers: tuple[int, ...]
    captured_by: tuple[int, ...]
    output: bool


def uses_of(model: CutModel) -> list[Use]:
    """Every tensor that travels between nodes, or into or out of the model."""
    makers = dict.fromkeys((tensor.name for tensor in model.inputs), -1)
    makers |= {name: index for index, proto in enumerate(model.protos) for name in proto.output if name}
    readers: dict[str, list[int]] = {name: [] for name in makers}
    capturers: dict[str, list[int]] = {name: [] for name in makers}
    for index, names in enumerate(model.reads):
        for name in names:
            readers[name].append(index)
            if name in model.captures[index]:
                capturers[name].append(index)
    outputs = {tensor.name for tensor in model.outputs}
    return [
        Use(name, maker, tuple(readers[name]), tuple(capturers[name]), name in outputs)
        for name, maker in makers.items()
    ]


def cut_points(model: CutModel, uses: Sequence[Use]) -> Positions:
    """The positions where the model may be cut, ascending: a cut at p is before the node at p.

    Beyond MAX_ATOMS - 1 of them the ones that the fewest bytes cross are kept.
    """
    tensors = model.tensors
    closed = np.zeros(len(model.protos) + 1, dtype=np.int64)
    crossing = np.zeros(len(model.protos) + 1, dtype=np.int64)
    for use in uses:
        tensor, last = tensors[use.name], max(use.readers, default=use.maker)
        if use.maker >= 0 and (tensor.constant or not can_travel(tensor)):
            _mark(closed, use.maker, last)
        if use.maker >= 0 and use.captured_by:
            _mark(closed, use.maker, use.captured_by[-1])
        _mark(crossing, use.maker, last, tensor.bytes or 0)
    open_ = np.flatnonzero(np.cumsum(closed)[:-1] == 0)
    points = open_[open_ > 0]
    if len(points) >= MAX_ATOMS:
        cheapest = np.argsort(np.cumsum(crossing)[points], kind="stable")[: MAX_ATOMS - 1]
        points = np.sort(points[cheapest])
    return points


def _mark(steps: Positions, maker: int, last: int, amount: int = 1) -> None:
    """Adds to every cut that would part the maker from its last reader, as steps up and down."""
    steps[maker + 1] += amount
    steps[last + 1] -= amount


def chain_of(model: CutModel, uses: Sequence[Use], points: Positions, targets: Sequence[str], matrix: Matrix) -> Chain:
    """The atoms between the cut points, with their seconds per target."""
    seconds = np.array([_node_times(model, target, matrix) for target in targets]).reshape(len(targets), -1)
    starts = np.concatenate([[0], points])
    atom_of = np.searchsorted(points, np.arange(len(model.protos)), side="right")
    tensors = model.tensors
    cut = []
    for use in uses:
        maker = int(atom_of[use.maker]) if use.maker >= 0 else -1
        readers = tuple(sorted({int(atom_of[reader]) for reader in use.readers} - {maker}))
        if readers or use.output:
            # What the model takes or gives may be of unknown size; it is something all the same.
            size = max(1, tensors[use.name].bytes or 0)
            cut.append(CutTensor(size, maker, readers, use.output))
    return Chain(np.add.reduceat(seconds, starts, axis=1), cut)


def _node_times(model: CutModel, provider: str, matrix: Matrix) -> Seconds:
    """Seconds of each node of the main graph, its bodies included (a loop's body once)."""
    profile, target, device = model.profile, target_of(provider), DEVICES[provider]
    judge = NodeJudge(matrix, target)
    unsafe = {
        (danger.node.domain, danger.node.operator)
        for danger in dangers(profile.graph, target)
        if danger.rule.cap == _FAILS and not danger.rule.whole_model
    }
    owners = _owners(model)
    times: dict[int, float] = dict.fromkeys((node.index for node in model.nodes), 0.0)
    for node, cost in zip(profile.graph.nodes, profile.costs, strict=True):
        owner = owners.get(node.index)
        if owner is not None:
            safe = (node.domain, node.operator) not in unsafe
            times[owner] += node_seconds(cost, judge.finding(node).score, device) if safe else inf
    return np.array([times[node.index] for node in model.nodes])


def _owners(model: CutModel) -> Mapping[int, int]:
    """Each node's node of the main graph, by index in the profile; Constant nodes have none any more."""
    owners = {node.index: node.index for node in model.nodes}
    for node in model.profile.graph.nodes:
        if node.parent is not None and node.parent in owners:
            owners[node.index] = owners[node.parent]
    return owners
