"""What one node costs: floating-point operations, bytes moved, and time on a reference machine.

The time only serves to compare nodes of one model with each other. It is a roofline: the larger
of arithmetic and memory time, plus the launch of a kernel.
"""

from dataclasses import dataclass

from bimetal.operators.costs import onnx_flops, torch_flops
from bimetal.operators.graph import Node, Tensor

# NVIDIA A100 SXM 80GB: dense fp16 rate and memory bandwidth as its data sheet has them.
PEAK_FLOPS = 312e12
BANDWIDTH = 2.04e12  # bytes/s
LAUNCH = 5e-6  # seconds a kernel launch takes, whatever it computes
# One server socket behind it, for what falls back: fused multiply-add peak and memory bandwidth.
CPU_FLOPS = 2e12
CPU_BANDWIDTH = 200e9
LINK = 25e9  # bytes/s over PCIe 4.0 x16 as copies reach it
SYNC = 20e-6  # seconds to drain the stream, copy, and start again
CONTROL = "higher_order"  # PyTorch's cond and while_loop: only their bodies work
CONVERSION = 3.0  # kernels that a typical function body (LayerNormalization, Gelu, RoPE) needs in place of one


@dataclass(frozen=True)
class Cost:
    """FLOPs (a multiply-add counts two) and bytes read and written; None where shapes are unknown."""

    flops: int | None
    bytes: int | None

    def native_seconds(self) -> float:
        """On the reference accelerator, with a kernel of its own."""
        if self.flops == 0 and self.bytes == 0:
            return 0.0
        return LAUNCH + max((self.flops or 0) / PEAK_FLOPS, (self.bytes or 0) / BANDWIDTH)

    def seconds(self, score: int) -> float:
        """On the reference accelerator, when the operator has this score there."""
        native = self.native_seconds()
        if native == 0.0 or score >= 3:
            return native
        if score == 2:
            return CONVERSION * native
        moved = self.bytes or 0
        return SYNC + moved / LINK + max((self.flops or 0) / CPU_FLOPS, moved / CPU_BANDWIDTH)


def cost_of(node: Node) -> Cost:
    """The node's cost with dynamic dimensions at their assumed sizes.

    What is computed from constants alone costs nothing: it is folded before the model runs.
    """
    outputs = [tensor for tensor in node.outputs if tensor is not None]
    known = torch_flops if node.domain == "aten" else onnx_flops
    if (
        node.operator in known.VIEWS
        or node.domain == CONTROL
        or (outputs and all(tensor.constant for tensor in outputs))
    ):
        return Cost(0, 0)
    if node.operator in known.LOOKUPS:  # they read what they write, not the whole table
        return Cost(known.flops(node), _bytes([*outputs, *outputs]))
    return Cost(known.flops(node), _bytes([tensor for tensor in (*node.inputs, *outputs) if tensor is not None]))


def _bytes(tensors: list[Tensor]) -> int | None:
    """Of those whose size is known; None where none is."""
    known = [size for tensor in tensors if (size := tensor.bytes) is not None]
    return sum(known) if known else None
