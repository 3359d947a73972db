"""What can be wrong with a model file or with the operator matrix."""

from bimetal.errors import BimetalError


class ModelFileError(BimetalError, ValueError):
    """A model file cannot be read safely; names the file, what was expected and the next step."""


class MatrixError(BimetalError, ValueError):
    """The matrix (or a file it is built from) has a bad row; names file, line and column."""


class NotFollowedError(Exception):
    """A TorchScript file's code holds something that is not understood; who follows it has another way."""
