"""Where an operator can run: the columns of the operator matrix."""

from enum import StrEnum


class Target(StrEnum):
    """One software stack that executes operators.

    `ROCM` is onnxruntime's ROCm provider, gone since 1.23; on AMD, later versions mean `MIGRAPHX`.
    The two torch targets speak of aten operators, not of ONNX ones.
    """

    CUDA = "cuda"
    TENSORRT = "tensorrt"
    ROCM = "rocm"
    MIGRAPHX = "migraphx"
    CPU = "cpu"
    TORCH_CUDA = "torch_cuda"
    TORCH_ROCM = "torch_rocm"


PROVIDER_TARGETS = {
    "CUDAExecutionProvider": Target.CUDA,
    "TensorrtExecutionProvider": Target.TENSORRT,
    "ROCMExecutionProvider": Target.ROCM,
    "MIGraphXExecutionProvider": Target.MIGRAPHX,
    "CPUExecutionProvider": Target.CPU,
}

TORCH_BUILDS = {"torch_cuda": Target.TORCH_CUDA, "torch_rocm": Target.TORCH_ROCM}
"""What runs the aten operators of a PyTorch file: the builds of PyTorch."""
SPOKEN = {"torch_cuda": "PyTorch for CUDA", "torch_rocm": "PyTorch for ROCm"}
"""Providers by the name that people read, where it is another."""

AMD_TARGETS = frozenset({Target.ROCM, Target.MIGRAPHX, Target.TORCH_ROCM})


def target_of(provider: str) -> Target:
    """The target behind an onnxruntime execution provider or a build of PyTorch.

    Raises:
        ValueError: no matrix column describes that provider.
    """
    columns = PROVIDER_TARGETS | TORCH_BUILDS
    try:
        return columns[provider]
    except KeyError:
        known = ", ".join(columns)
        raise ValueError(
            f"execution provider {provider!r} has no column in the operator matrix; known: {known}"
        ) from None


def torch_build(provider: str) -> str | None:
    """The build of PyTorch on the devices of an execution provider; None on the CPU, of which no source speaks."""
    target = target_of(provider)
    if target is Target.CPU:
        return None
    return "torch_rocm" if target in AMD_TARGETS else "torch_cuda"
