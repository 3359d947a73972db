"""The pools that a repository is rendered for, and what differs between their stacks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Compute = Literal["cpu", "gpu"]


@dataclass(frozen=True)
class Pool:
    """One stack of Tritons.

    ``batch_multiple`` is the batch granularity that fills the vendor's matrix units: 8 for NVIDIA
    Tensor Cores (fp16 dimensions in multiples of 8, NVIDIA "Matrix Multiplication Background" guide),
    32 for AMD CDNA (MFMA instructions of 32x32 tiles, AMD "Matrix Instruction Calculator").
    None where no batch size is better than its neighbour.
    """

    name: str
    provider: str
    batch_multiple: int | None
    default_compute: Compute


POOLS: Mapping[str, Pool] = {
    pool.name: pool
    for pool in (
        Pool("cuda", "CUDAExecutionProvider", batch_multiple=8, default_compute="gpu"),
        Pool("rocm", "MIGraphXExecutionProvider", batch_multiple=32, default_compute="gpu"),
        Pool("cpu", "CPUExecutionProvider", batch_multiple=None, default_compute="cpu"),
    )
}


def preferred_batch_sizes(pool: Pool, max_batch_size: int) -> list[int]:
    """Doublings of the pool's batch multiple, up to ``max_batch_size`` requests; empty if none fits.

    Doublings rather than every multiple: MIGraphX compiles a program per shape, and each preferred
    size is one more shape.
    """
    sizes = []
    size = pool.batch_multiple
    while size is not None and size <= max_batch_size:
        sizes.append(size)
        size *= 2
    return sizes
