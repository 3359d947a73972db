"""Operator intelligence: from a model file to which execution provider should run it.

The way of a file: `onnx_file` reads its structure safely, `preparation` and `graph` make it a graph
of operators, `profile` says what they cost, `node_judge` asks the `matrix` about each, `verdict`
weighs them for one provider and `placement` compares providers.

Scores, of operators and models: 5 native and fast, 4 native, 3 native with limits, 2 through a
conversion, 1 only on the CPU, 0 not at all. docs/operators.md has the rules in full.
"""

from pathlib import Path

from router.operators.errors import MatrixError, ModelFileError
from router.operators.matrix import Matrix, default_matrix
from router.operators.placement import Placement, place
from router.operators.profile import Profile, analyze
from router.operators.verdict import Reason, Verdict, verdict

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


def judge(onnx_file: Path, provider: str, matrix: Matrix | None = None) -> Verdict:
    """How well an onnxruntime execution provider runs a model (0-5), and why.

    For several providers, `place(analyze(file), default_matrix())` reads the file once.

    Args:
        onnx_file: the model; weights are not loaded, external data is only looked for.
        provider: an onnxruntime name, such as `CUDAExecutionProvider`.
        matrix: the facts to judge by, for instance with verified ones laid over; the package's by default.

    Raises:
        ModelFileError: the file is no ONNX model, or not a safe one.
        ValueError: no matrix column describes that provider.
    """
    return verdict(analyze(onnx_file), provider, default_matrix() if matrix is None else matrix)
