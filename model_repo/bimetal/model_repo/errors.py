"""The errors a build can end with; each message names the thing, what was expected and the next step."""

from bimetal.errors import BimetalError


class BuildError(BimetalError):
    """A model repository could not be built."""


class SourceError(BuildError):
    """A ``model.yml``, or the files beside it, does not say what the builder needs."""


class WeightsError(BuildError):
    """Weights could not be obtained, or are not the ones that ``model.yml`` pins."""


class OutputError(BuildError):
    """The output folder holds something that the builder did not make."""
