"""Operator intelligence: from a model file to which execution provider should run it."""

from pathlib import Path

from router.operators.errors import MatrixError, ModelFileError
from router.operators.graph import read_graph
from router.operators.matrix import default_matrix
from router.operators.verdict import Reason, Verdict, verdict

__all__ = ["MatrixError", "ModelFileError", "Reason", "Verdict", "judge"]


def judge(onnx_file: Path, provider: str) -> Verdict:
    """How well an onnxruntime execution provider runs a model (0-5), and why.

    Args:
        onnx_file: the model; weights are not loaded, external data is only looked for.
        provider: an onnxruntime name, such as `CUDAExecutionProvider`.

    Raises:
        ModelFileError: the file is no ONNX model, or not a safe one.
        ValueError: no matrix column describes that provider.
    """
    return verdict(read_graph(onnx_file), provider, default_matrix())
