"""Operator intelligence: from a model file to which execution provider should run it.

The way of a file: `onnx` reads it safely and makes it a graph of operators (`torch` does so with PyTorch's files),
`profile` says what they cost, `node_judge` asks the `matrix` about each, `verdict` weighs them for one provider and
`placement` compares providers.

Scores, of operators and models: 5 native and fast, 4 native, 3 native with limits, 2 through a
conversion, 1 only on the CPU, 0 not at all. docs/operators.md has the rules in full.
"""

from pathlib import Path

from bimetal.operators.errors import MatrixError, ModelFileError
from bimetal.operators.matrix.matrix import Matrix, default_matrix
from bimetal.operators.matrix.targets import torch_build
from bimetal.operators.placement import Placement, place
from bimetal.operators.profile import Profile, analyze
from bimetal.operators.verdict import Reason, Verdict, verdict

__all__ = [
    "Matrix",
    "MatrixError",
    "ModelFileError",
    "Placement",
    "Profile",
    "Reason",
    "Verdict",
    "analyze",
    "default_matrix",
    "judge",
    "place",
    "verdict",
]


def judge(file: Path, provider: str, matrix: Matrix | None = None) -> Verdict:
    """How well an onnxruntime execution provider runs a model (0-5), and why.

    A PyTorch file is judged for the build of PyTorch on that provider's devices.

    For several providers, `place(analyze(file), default_matrix())` reads the file once.

    Args:
        file: the model; weights are not loaded, external data is only looked for.
        provider: an onnxruntime name, such as `CUDAExecutionProvider`.
        matrix: the facts to judge by, for instance with verified ones laid over; the package's by default.

    Raises:
        ModelFileError: the file is no model, or not a safe one, or nothing is known of PyTorch on that provider.
        ValueError: no matrix column describes that provider.
    """
    profile = analyze(file)
    runs = provider if profile.graph.format == "ONNX" else torch_build(provider)
    if runs is None:
        raise ModelFileError(f"{file}: nothing is known of how well PyTorch runs on {provider}.")
    return verdict(profile, runs, default_matrix() if matrix is None else matrix)
