"""How a check can end, other than well."""


class Failed(Exception):  # noqa: N818 - a verdict, as unittest.SkipTest is
    """The image is wrong; the message says what was found and what was expected."""


class Skipped(Exception):  # noqa: N818 - a verdict
    """The check does not apply here; the message says why."""
