"""The errors that a person sees: each names the thing, what was expected and the next step."""


class BimetalError(Exception):
    """Anything bimetal reports to its user instead of showing a traceback.

    Args:
        what: one sentence that names the thing and what is wrong with it.
        next_step: what the reader can do about it.
    """

    def __init__(self, what: str, next_step: str = "") -> None:
        super().__init__(f"{what} {next_step}".strip())
        self.what = what
        self.next_step = next_step


class FleetFileError(BimetalError):
    """The fleet file cannot be used; the message holds file and line."""


class SecretFileError(BimetalError):
    """A file with a certificate, a key or a secret cannot be used; the message never holds its content."""


class RouterUnreachableError(BimetalError):
    """The admin API of the router did not answer."""


class StoreError(BimetalError):
    """The state store refused to open, read or write."""


class UnknownBackendError(BimetalError):
    """A backend was named that the fleet file does not have."""


class UnknownModelError(BimetalError):
    """A model was named that no backend has ever reported."""
