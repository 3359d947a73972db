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

AMD_TARGETS = frozenset({Target.ROCM, Target.MIGRAPHX, Target.TORCH_ROCM})


def target_of(provider: str) -> Target:
    """The target behind an onnxruntime execution provider.

    Raises:
        ValueError: no matrix column describes that provider.
    """
    try:
        return PROVIDER_TARGETS[provider]
    except KeyError:
        known = ", ".join(PROVIDER_TARGETS)
        raise ValueError(
            f"execution provider {provider!r} has no column in the operator matrix; known: {known}"
        ) from None
