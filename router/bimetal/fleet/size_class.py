"""Size classes: what the batch dimension of a request says about where it runs best."""

from enum import StrEnum


class SizeClass(StrEnum):
    """Of a request, by the first dimension of its first input."""

    SMALL = "small"
    LARGE = "large"
