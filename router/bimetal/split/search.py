"""The cheapest way to cut a chain into parts and to give each to a target.

Dynamic programming over (parts so far, target of the last part, where it stops):

    best(k, t, p) = min over q < p and targets u of the part before
                    best(k - 1, u, q) + cost of the part [q, p) on t

Neighbouring parts have different targets whenever there are several: joined, they would cost less.
A part must take and give at least one byte, because an ONNX graph and a Triton model have inputs
and outputs. Within that the result is optimal for the chain's order of atoms; over all orders the
problem is NP-hard (it contains graph partitioning), and orders are not searched.

The bytes that enter and leave [q, p) for every q are kept as two vectors that one step from p to
p + 1 updates, so n atoms, t targets and k parts take O(k t n^2) time in NumPy and O(k t n) memory:
a few seconds at the MAX_ATOMS that a chain has at most.
"""

from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from bimetal.split.chain import Chain, CutTensor, Part
from bimetal.split.costs import Link

Bytes = npt.NDArray[np.int64]
MAX_ATOMS = 10_000
MAX_PARTS = 16  # each is one more call in a row; nothing real gains from so many


class _Traffic:
    """The bytes into and out of [q, p) for every q, as p grows by one atom at a time."""

    def __init__(self, chain: Chain) -> None:
        self._made: list[list[CutTensor]] = [[] for _ in range(chain.length)]
        self._read: list[list[tuple[CutTensor, int]]] = [[] for _ in range(chain.length)]
        self._into: Bytes = np.zeros(chain.length, dtype=np.int64)
        self._alive: Bytes = np.zeros(chain.length, dtype=np.int64)  # by maker: bytes still wanted after p
        for tensor in chain.tensors:
            if tensor.maker >= 0:
                self._made[tensor.maker].append(tensor)
            before = tensor.maker
            for reader in tensor.readers:
                self._read[reader].append((tensor, before))
                before = reader

    def add(self, atom: int) -> tuple[Bytes, Bytes]:
        """Takes the next atom in; (into, out of) the parts [q, atom + 1) for q from 0 to `atom`."""
        for tensor in self._made[atom]:
            if tensor.output or tensor.readers:
                self._alive[atom] += tensor.bytes
        for tensor, before in self._read[atom]:
            # Parts that begin after the maker and after the reader before this one take it in from now on.
            self._into[before + 1 : atom + 1] += tensor.bytes
            if tensor.maker >= 0 and not tensor.output and tensor.readers[-1] == atom:
                self._alive[tensor.maker] -= tensor.bytes
        out_of = np.cumsum(self._alive[atom::-1])[::-1]
        return self._into[: atom + 1], out_of


@dataclass
class _Best:
    """best(k, t, p) for k parts (index k), and where each came from; more than `exact` parts share the last k."""

    seconds: npt.NDArray[np.float64]
    start: npt.NDArray[np.int32]
    before: npt.NDArray[np.int8]  # target of the part before
    layer: npt.NDArray[np.int8]  # parts before


def best_split(chain: Chain, link: Link, parts: int | None = None) -> list[Part] | None:
    """The cheapest split into exactly that many parts (None: into two or more); None when there is none."""
    layers = 2 if parts is None else parts
    shape = (layers + 1, chain.targets, chain.length + 1)
    best = _Best(np.full(shape, inf), np.zeros(shape, np.int32), np.zeros(shape, np.int8), np.zeros(shape, np.int8))
    traffic = _Traffic(chain)
    runnable = np.isfinite(chain.seconds)
    prefix = np.concatenate([np.zeros((chain.targets, 1)), np.cumsum(np.where(runnable, chain.seconds, 0), 1)], 1)
    first = np.zeros(chain.targets, dtype=np.int64)  # where a part that stops here can begin at the earliest
    for stop in range(1, chain.length + 1):
        into, out_of = traffic.add(stop - 1)
        moved = (into + out_of) * link.seconds_per_byte + link.hop_seconds
        moved[(into == 0) | (out_of == 0)] = inf
        first[~runnable[:, stop - 1]] = stop
        for target in range(chain.targets):
            whole = moved - prefix[target, :stop] + prefix[target, stop]
            whole[: first[target]] = inf
            _extend(best, whole, target, open_ended=parts is None)
    return _walk_back(best, layers)


def _extend(best: _Best, cost: npt.NDArray[np.float64], target: int, *, open_ended: bool) -> None:
    """Tries every part on `target` that stops at `len(cost)`, behind every best split before it."""
    stop, layers = len(cost), best.seconds.shape[0] - 1
    best.seconds[1, target, stop] = cost[0]
    others = [other for other in range(best.seconds.shape[1]) if other != target] or [target]
    for layer in range(2, layers + 1):
        for earlier in (layer - 1, layer) if open_ended else (layer - 1,):
            for other in others:
                total = best.seconds[earlier, other, :stop] + cost
                start = int(np.argmin(total))
                if total[start] < best.seconds[layer, target, stop]:
                    best.seconds[layer, target, stop] = total[start]
                    best.start[layer, target, stop] = start
                    best.before[layer, target, stop] = other
                    best.layer[layer, target, stop] = earlier


def _walk_back(best: _Best, layers: int) -> list[Part] | None:
    layer, stop = layers, best.seconds.shape[2] - 1
    target = int(np.argmin(best.seconds[layer, :, stop]))
    if best.seconds[layer, target, stop] == inf:
        return None
    found = []
    while stop > 0:
        start = int(best.start[layer, target, stop]) if layer > 1 else 0
        found.append(Part(start, stop, target))
        state = (layer, target, stop)
        layer, target, stop = int(best.layer[state]), int(best.before[state]), start
    return found[::-1]
