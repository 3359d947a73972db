"""What happened, as the timeline keeps it."""

from dataclasses import dataclass


def storable(text: str) -> str:
    """What servers say may hold anything; a database takes no NUL, and nothing takes half a surrogate pair."""
    return text.encode(errors="replace").decode().replace("\0", "?")


@dataclass(frozen=True)
class Event:
    """Something that happened to a backend.

    Attributes:
        at: Unix time in seconds, by the store's clock.
        key: two events of one backend with the same key are one, seen by two gateways; None for an event that only one
            can see.
    """

    at: float
    backend: str
    kind: str
    text: str
    key: str | None = None
