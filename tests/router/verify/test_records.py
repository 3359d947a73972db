"""What the profile's nodes say of an operator, on providers that this host lacks too."""

import pytest

from bimetal.verify.records import execution
from bimetal.verify.results import Execution

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
MIGRAPHX, TENSORRT = "MIGraphXExecutionProvider", "TensorrtExecutionProvider"


@pytest.mark.parametrize(
    ("provider", "nodes", "expected"),
    [
        (CPU, [("Relu", CPU)], Execution.NATIVE),
        (CPU, [("Cast", CPU), ("Relu", CPU), ("Cast", CPU)], Execution.CAST),
        (CPU, [("Exp", CPU), ("Tanh", CPU)], Execution.INLINED),
        (CPU, [], Execution.FOLDED),
        (CUDA, [("Relu", CUDA)], Execution.NATIVE),
        (CUDA, [("Relu", CPU)], Execution.FALLBACK),
        (CUDA, [("MemcpyToHost", CUDA), ("Relu", CPU), ("MemcpyFromHost", CUDA)], Execution.FALLBACK),
        (CUDA, [("Exp", CUDA), ("Tanh", CPU)], Execution.FALLBACK),
        (CUDA, [("Exp", CUDA), ("Tanh", CUDA)], Execution.INLINED),
        (MIGRAPHX, [("MGXKernel_graph_0", MIGRAPHX)], Execution.NATIVE),
        (MIGRAPHX, [("Relu", CPU)], Execution.FALLBACK),
        (TENSORRT, [("TRTKernel_graph_0", TENSORRT)], Execution.NATIVE),
        (TENSORRT, [("Relu", CUDA)], Execution.BEHIND),
        (TENSORRT, [("Relu", CPU)], Execution.FALLBACK),
    ],
)
def test_the_nodes_that_ran_tell_how(provider: str, nodes: list[tuple[str, str]], expected: Execution) -> None:
    assert execution("Relu", tuple(nodes), provider) is expected


def test_a_cast_is_not_a_cast_around_itself() -> None:
    assert execution("Cast", (("Cast", CPU),), CPU) is Execution.NATIVE
