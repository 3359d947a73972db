"""A gateway's own file beside the store."""

from pathlib import Path

import pytest

from bimetal.breaker.breaker import Breaker, State, Tier
from bimetal.breaker.shared import Shared, Switch
from bimetal.errors import BimetalError
from bimetal.state.event import Event
from bimetal.store.journal import Journal, Page
from bimetal.store.store import Held

FAULTED = Shared(
    Breaker(State.FAULTED, 1, tier=Tier.HARDWARE, reason="ECC"),
    incidents=1,
    drained=Switch(1, True),
    reached=Switch(0, None),
)
PAGE = Page({"a": FAULTED}, {"a": Held(3, Shared())}, (Event(1.5, "a", "breaker", "x", key="1"),))


def test_what_was_kept_is_recalled_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "state" / "journal.json"
    assert Journal(file).recall() == Page()
    Journal(file).keep(PAGE)
    assert Journal(file).recall() == PAGE
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_new_page_takes_the_place_of_the_old(tmp_path: Path) -> None:
    file = tmp_path / "journal.json"
    journal = Journal(file)
    journal.keep(PAGE)
    journal.keep(Page())
    assert journal.kept == Journal(file).recall() == Page()


@pytest.mark.parametrize("text", ["", "{", '{"ours": {"a": {"breaker": {"state": "Confused"}}}}'])
def test_a_file_that_is_no_journal_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "journal.json"
    file.write_text(text)
    with pytest.raises(BimetalError, match=r"journal\.json cannot be read"):
        Journal(file).recall()


def test_a_folder_that_takes_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file, not a folder")
    with pytest.raises(BimetalError, match=r"journal\.json cannot be written"):
        Journal(tmp_path / "state" / "journal.json").keep(PAGE)
