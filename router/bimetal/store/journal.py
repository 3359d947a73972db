"""A gateway's own file of what it holds to be true: a restart while the store is down forgets nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from bimetal.breaker.shared import Shared
from bimetal.errors import BimetalError
from bimetal.files import write_whole
from bimetal.state.event import Event
from bimetal.store.store import Held


@dataclass(frozen=True)
class Page:
    """What is true here, what the store held when that went on from it, and the events that it has not got yet."""

    ours: Mapping[str, Shared] = field(default_factory=dict)
    bases: Mapping[str, Held] = field(default_factory=dict)
    unwritten: tuple[Event, ...] = ()


_JSON = TypeAdapter(Page)


class Journal:
    """Reads once, writes whole pages. `kept` is what stands in it."""

    def __init__(self, path: Path) -> None:
        self.kept = Page()
        self._path = path

    def recall(self) -> Page:
        """What an earlier run kept. Raises BimetalError."""
        try:
            self.kept = _JSON.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            pass
        except (OSError, ValidationError) as error:
            raise BimetalError(
                f"{self._path} cannot be read, and with it what the state store may not have: {error}.",
                "Compare `bimetal status` with what you drained and cleared.",
            ) from error
        return self.kept

    def keep(self, page: Page) -> None:
        """Raises BimetalError, and then keeps what was kept before."""
        write_whole(self._path, _JSON.dump_json(page, indent=1).decode() + "\n", mode=0o600)
        self.kept = page
