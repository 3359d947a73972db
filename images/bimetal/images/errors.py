"""The error that a person sees: one line with the thing, what was expected and the next step."""

from bimetal.errors import BimetalError


class ImageError(BimetalError):
    """An image cannot be planned, built, tested or pushed; nothing was tagged.

    Args:
        what: one sentence that names the thing and what is wrong with it.
        next_step: what the reader can do about it.
    """

    def __init__(self, what: str, next_step: str) -> None:
        super().__init__(what, f"Next: {next_step}")


class MatrixError(ImageError):
    """matrix.yml, or a name that should be in it, is wrong."""


class EngineError(ImageError):
    """The Docker engine is missing, refused something, or is out of space."""


class RegistryError(ImageError):
    """A registry is unreachable, refused, or gave something else than what the matrix pins."""


class SelfTestError(ImageError):
    """A built image does not do what it is for."""
