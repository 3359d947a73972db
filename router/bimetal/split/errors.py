"""What can be wrong with a wish to split a model."""

from bimetal.errors import BimetalError


class SplitError(BimetalError):
    """A model cannot be split as asked; names the model, what was expected and the next step."""
