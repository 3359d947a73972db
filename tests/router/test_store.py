"""What outlives a restart."""

from pathlib import Path

import pytest

from router.errors import StoreError
from router.policy.breaker import NEW, Breaker, State, Tier
from router.store import Event, Remembered, Store

FAULTED = Breaker(State.FAULTED, 4, tier=Tier.HARDWARE, reason="ECC")
ISOLATED = Breaker(State.ISOLATED, 3, tier=Tier.PERSISTENT, until=1234.5, reason="out of memory")


def open_store(folder: Path) -> Store:
    return Store(f"sqlite:///{folder / 'router.db'}")


def test_breakers_and_events_survive_a_restart(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    assert first.load() == Remembered({}, frozenset())
    known = Remembered({"a": FAULTED, "b": ISOLATED, "c": NEW}, frozenset({"b"}))
    first.save(known, [Event(1.0, "a", "breaker", "x"), Event(2.0, "b", "probe", "y")])
    first.close()
    second = open_store(tmp_path)
    assert second.load() == Remembered({"a": FAULTED, "b": ISOLATED}, frozenset({"b"}))
    assert [e.text for e in second.events(10)] == ["y", "x"]
    assert [e.text for e in second.events(1)] == ["y"]
    second.close()


def test_a_recovered_breaker_is_not_remembered_as_broken(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.load()
    store.save(Remembered({"a": ISOLATED}, frozenset()), [])
    store.save(Remembered({"a": NEW}, frozenset()), [])
    assert store.load().breakers == {}
    store.close()


def test_a_store_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    store = open_store(tmp_path / "missing")
    with pytest.raises(StoreError, match=r"missing/router\.db cannot be read.*Check"):
        store.load()
    store.close()


def test_a_failed_save_writes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.load()
    store.save(Remembered({"a": FAULTED}, frozenset()), [])
    broken = Event(None, "a", "breaker", "an event without a time")  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="cannot be written"):
        store.save(Remembered({}, frozenset()), [broken])
    assert store.load().breakers == {"a": FAULTED}
    store.close()


def test_a_database_that_is_no_database_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "router.db").write_bytes(b"not a database" * 100)
    store = open_store(tmp_path)
    with pytest.raises(StoreError):
        store.load()
    store.close()
