"""What a segment costs: the time of its operators on a target, its tensors over the link, its call.

    segment = sum of operator times + (bytes in + bytes out) / link + hop

The numbers are estimates that compare ways of running one model; docs/split.md says where they come
from and what they leave out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from bimetal.operators.costs.cost import CONVERSION, CPU_BANDWIDTH, CPU_FLOPS, LAUNCH, Cost

LINK_GBPS = 100.0
# Measured through the gateway to a Python model on two cores, everything on one host: 0.85 ms (median of
# 300 calls) with one number, 243 ms with 32 MB each way.
HOP_SECONDS = 1e-3
COPY_SECONDS_PER_BYTE = 3.5e-9


@dataclass(frozen=True)
class Device:
    """A reference machine: dense fp16 rate (FLOP/s) and memory bandwidth (bytes/s)."""

    name: str
    flops: float
    bandwidth: float


_H100 = Device("NVIDIA H100 SXM5 80GB", 989e12, 3.36e12)
_MI300X = Device("AMD Instinct MI300X", 1307.4e12, 5.3e12)
_CPU = Device("one server socket", CPU_FLOPS, CPU_BANDWIDTH)

# Accelerators of one generation, as their vendors' data sheets have them. The ROCm provider ended with
# onnxruntime 1.22; it gets the same device, so that the comparison is one of software.
DEVICES: Mapping[str, Device] = {
    "CUDAExecutionProvider": _H100,
    "TensorrtExecutionProvider": _H100,
    "MIGraphXExecutionProvider": _MI300X,
    "ROCMExecutionProvider": _MI300X,
    "CPUExecutionProvider": _CPU,
}


def node_seconds(cost: Cost, score: int, device: Device) -> float:
    """The time of one operator on a device where it has this score; infinite where it cannot run.

    The same roofline as `Cost.seconds`, with the device's rates in place of the reference's. A score
    of 1 is the CPU's time behind any accelerator, so that comes from there.
    """
    if score == 0:
        return inf
    if cost.flops == 0 and cost.bytes == 0:
        return 0.0
    if score == 1:
        return cost.seconds(1)
    native = LAUNCH + max((cost.flops or 0) / device.flops, (cost.bytes or 0) / device.bandwidth)
    return CONVERSION * native if score == 2 else native


@dataclass(frozen=True)
class Link:
    """How tensors travel between the pipeline and a segment.

    Attributes:
        gbps: rate of the network in Gbit/s.
        hop_seconds: one call through the gateway, whatever it carries.
        copy_seconds_per_byte: what clients and servers do with each byte beside the network:
            serialise, parse and copy it.
    """

    gbps: float
    hop_seconds: float
    copy_seconds_per_byte: float

    @property
    def seconds_per_byte(self) -> float:
        """Seconds for a byte over the network (`gbps` in 10^9 bits) and through the copies at its ends."""
        return 8 / (self.gbps * 1e9) + self.copy_seconds_per_byte
