"""A model as a row of atoms between which it may be cut, and what a cut there would cost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bimetal.split.costs import Link

Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CutTensor:
    """A tensor that more than one atom touches, or that the model takes or gives.

    Attributes:
        bytes: its size.
        maker: the atom that makes it; -1 for an input of the model.
        readers: the other atoms that read it, ascending.
        output: whether the model gives it.
    """

    bytes: int
    maker: int
    readers: tuple[int, ...]
    output: bool = False


@dataclass(frozen=True)
class Part:
    """The atoms from `start` to before `stop`, run by the target at that position."""

    start: int
    stop: int
    target: int


@dataclass(frozen=True)
class PartCost:
    """Seconds of a part: operators, bytes on the link, the call; and the bytes themselves."""

    compute: float
    transfer: float
    hop: float
    bytes_in: int
    bytes_out: int

    @property
    def total(self) -> float:
        """Seconds of computing, transfer and call."""
        return self.compute + self.transfer + self.hop


@dataclass(frozen=True)
class Chain:
    """Atoms in topological order with their seconds per target [targets, atoms] (inf: cannot run)."""

    seconds: Seconds
    tensors: Sequence[CutTensor]

    @property
    def length(self) -> int:
        """Atoms, the second axis of `seconds`."""
        return int(self.seconds.shape[1])

    @property
    def targets(self) -> int:
        """Targets, the first axis of `seconds`."""
        return int(self.seconds.shape[0])

    def cost(self, part: Part, link: Link) -> PartCost:
        """What one part costs. The pipeline sends what the part reads and did not make, and takes back
        what others read or the model gives."""
        bytes_in = bytes_out = 0
        for tensor in self.tensors:
            if part.start <= tensor.maker < part.stop:
                if tensor.output or any(reader >= part.stop for reader in tensor.readers):
                    bytes_out += tensor.bytes
            elif any(part.start <= reader < part.stop for reader in tensor.readers):
                bytes_in += tensor.bytes
        return PartCost(
            compute=float(self.seconds[part.target, part.start : part.stop].sum()),
            transfer=(bytes_in + bytes_out) * link.seconds_per_byte,
            hop=link.hop_seconds,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
        )

    def whole_seconds(self, target: int) -> float:
        """The operators of the whole model on one target; inf when it cannot run all of them.

        Its call and its tensors are left out: the pipeline's own call costs the same.
        """
        return float(self.seconds[target].sum())
