"""What outlives a restart and is shared, in a file and on a server."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bimetal.breaker.breaker import Breaker, State, Tier
from bimetal.breaker.shared import UNKNOWN, Shared, Switch
from bimetal.errors import StoreError
from bimetal.state.event import Event
from bimetal.store.store import NOTHING, Held, Record, Store, _settle
from tests.patience import PATIENCE_S
from tests.postgres import Postgres

DEGRADED = Breaker(State.DEGRADED, 1, tier=Tier.TRANSIENT, reason="reset")
FAULTED = Shared(Breaker(State.FAULTED, 4, tier=Tier.HARDWARE, reason="ECC"), incidents=4, reached=Switch(1, True))
ISOLATED = Shared(
    Breaker(State.ISOLATED, 3, tier=Tier.PERSISTENT, until=1764500000.125, reason="out of memory"),
    incidents=3,
    clears=1,
    drained=Switch(1, True),
)


@pytest.fixture
def open_store(store_url: str) -> Iterator[Callable[[], Store]]:
    """Opens one more store on the same database, as another gateway would."""
    opened: list[Store] = []

    def another() -> Store:
        opened.append(Store(store_url))
        return opened[-1]

    yield another
    for store in opened:
        store.close()


def held(store: Store, *names: str) -> dict[str, Shared]:
    """What it holds, from somebody who knows nothing."""
    return {n: h.shared for n, h in store.exchange(dict.fromkeys(names, UNKNOWN), {}).held.items()}


def test_what_is_true_and_what_happened_survive_a_restart(open_store: Callable[[], Store]) -> None:
    first = open_store()
    events = [Event(1.0, "a", "breaker", "x", key="1"), Event(1764500000.125, "b", "probe", "y")]
    first.exchange({"a": FAULTED, "b": ISOLATED, "c": UNKNOWN}, {}, events)
    second = open_store()
    assert held(second, "a", "b", "c") == {"a": FAULTED, "b": ISOLATED, "c": UNKNOWN}
    assert second.events(10) == list(reversed(events))
    assert second.events(1) == events[1:]


def test_a_row_is_written_over_the_version_that_was_merged_and_over_no_other(open_store: Callable[[], Store]) -> None:
    one, other = open_store(), open_store()
    base = one.exchange({"a": Shared(DEGRADED, incidents=1)}, {}).held
    assert base["a"].version == 1
    faulted = Shared(FAULTED.breaker, incidents=2)
    assert other.exchange({"a": faulted}, base).held["a"] == Held(2, faulted)
    recovered = Shared(incidents=1)
    assert one.exchange({"a": recovered}, base).held["a"] == Held(2, faulted)


def test_a_write_over_a_row_that_another_gateway_has_changed_in_between_is_merged_again(
    open_store: Callable[[], Store],
) -> None:
    one, other = open_store(), open_store()
    read = one.exchange({"a": Shared(DEGRADED, incidents=1)}, {}).held["a"]
    for gone in (read, NOTHING):  # the row has another version by now; or there was none when it was read
        faulted = Shared(FAULTED.breaker, incidents=2)
        changed = other.exchange({"a": faulted}, {"a": read}).held["a"]
        with one._database.transaction("written") as session:
            assert _settle(session, "a", read, Shared(incidents=1), gone) == changed
        assert held(one, "a") == {"a": faulted}


def test_a_cleared_backend_is_not_remembered_as_broken(open_store: Callable[[], Store]) -> None:
    store = open_store()
    base = store.exchange({"a": FAULTED}, {}).held
    cleared = Shared(incidents=4, clears=1, reached=FAULTED.reached)
    assert store.exchange({"a": cleared}, base).held["a"].shared == cleared
    assert held(store, "a") == {"a": cleared}


def test_two_gateways_at_once_make_one_incident_and_one_event(open_store: Callable[[], Store]) -> None:
    """litellm 871: each thread had its own. Both notice the same dead Triton within milliseconds, many times over."""
    rounds, together = 20, threading.Barrier(2)

    def gateway(name: str) -> int:
        store, base = open_store(), dict.fromkeys("ab", NOTHING)
        for number in range(1, rounds + 1):
            together.wait(timeout=PATIENCE_S)
            said = replace(DEGRADED, reason=f"reset, says {name}")
            ours = {n: replace(h.shared, breaker=said, incidents=h.shared.incidents + 1) for n, h in base.items()}
            events = [Event(float(number), n, "breaker", said.reason, key=f"breaker {number}") for n in base]
            base = dict(store.exchange(ours, base, events).held)
            together.wait(timeout=PATIENCE_S)
            base = dict(store.exchange({n: h.shared for n, h in base.items()}, base).held)
        return sum(h.shared.incidents for h in base.values())

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(gateway, ["one", "other"])) == [2 * rounds, 2 * rounds]
    store = open_store()
    assert {h.version for h in store.exchange(dict.fromkeys("ab", UNKNOWN), {}).held.values()} == {rounds}
    assert len(store.events(1000)) == 2 * rounds


def test_two_gateways_at_once_make_an_empty_database_theirs(open_store: Callable[[], Store]) -> None:
    together = threading.Barrier(4)

    def gateway(name: str) -> None:
        store = open_store()
        together.wait(timeout=PATIENCE_S)
        store.exchange({name: FAULTED}, {}, [Event(1.0, name, "probe", "x")])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(gateway, "abcd"))
    assert held(open_store(), *"abcd") == dict.fromkeys("abcd", FAULTED)


def test_an_answer_that_was_lost_may_be_asked_for_again(open_store: Callable[[], Store]) -> None:
    store = open_store()
    events = [Event(1.0, "a", "breaker", "x", key="1")]
    first, again = (store.exchange({"a": FAULTED}, {}, events) for _ in range(2))
    assert first.held == again.held == {"a": Held(1, FAULTED)}
    assert len(store.events(10)) == 1


def test_documents_are_numbered_without_a_gap_whoever_writes_them(open_store: Callable[[], Store]) -> None:
    together = threading.Barrier(3)

    def gateway(name: str) -> list[int]:
        store = open_store()
        store.records("lessons")
        together.wait(timeout=PATIENCE_S)
        return [store.record(Record("lessons", 1.0, name, "{}")) for _ in range(5)]

    with ThreadPoolExecutor(3) as threads:
        numbers = [number for made in threads.map(gateway, "abc") for number in made]
    assert sorted(numbers) == list(range(1, 16))


def test_routers_of_one_host_share_a_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    script = f"""
from bimetal.store.store import Record, Store
store = Store({url!r})
for _ in range(10):
    print(store.record(Record("lessons", 1.0, "by a process of its own", "{{}}")))
"""
    command = [sys.executable, "-c", script]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    numbers = [int(line) for each in processes for line in each.communicate(timeout=PATIENCE_S)[0].split()]
    assert [each.returncode for each in processes] == [0, 0]
    assert sorted(numbers) == list(range(1, 21))


def test_an_exchange_that_fails_writes_nothing(open_store: Callable[[], Store]) -> None:
    store = open_store()
    store.exchange({"a": FAULTED}, {})
    broken = Event(None, "a", "breaker", "an event without a time")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(StoreError, match="cannot be written"):
        store.exchange({"a": Shared(clears=1), "b": FAULTED}, {}, [broken])
    assert held(store, "a", "b") == {"a": FAULTED, "b": UNKNOWN}


def test_a_store_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'missing' / 'router.db'}")
    with pytest.raises(StoreError, match=r"missing/router\.db cannot be read.*Check"):
        store.exchange({}, {})
    store.close()


def test_a_database_that_is_no_database_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "router.db").write_bytes(b"not a database" * 100)
    store = Store(f"sqlite:///{tmp_path / 'router.db'}")
    with pytest.raises(StoreError, match="not a database"):
        store.exchange({"a": FAULTED}, {})
    store.close()


def test_tables_that_were_dropped_are_made_again(postgres: Postgres) -> None:
    database = postgres.new_database()
    store = Store(postgres.url(database))
    store.exchange({"a": FAULTED}, {})
    postgres.query(database, "drop table backend, timeline")
    with pytest.raises(StoreError, match="does not exist"):
        store.exchange({"a": FAULTED}, {})
    assert store.exchange({"a": FAULTED}, {}).held["a"] == Held(1, FAULTED)
    store.close()


def test_a_server_that_hangs_is_given_up_in_time(postgres: Postgres) -> None:
    """Stopped processes keep their connections and answer nothing, for ever."""
    store = Store(postgres.url(postgres.new_database()))
    store.exchange({"a": FAULTED}, {})
    with ThreadPoolExecutor(1) as pool, postgres.hung():
        for _connected in (True, False):
            given_up = pool.submit(store.exchange, {"a": FAULTED}, {})
            with pytest.raises(StoreError, match="cannot be read"):
                given_up.result(timeout=PATIENCE_S)
    assert held(store, "a") == {"a": FAULTED}
    store.close()


def test_a_server_that_was_restarted_is_used_again(postgres: Postgres) -> None:
    store = Store(postgres.url(postgres.new_database()))
    store.exchange({"a": FAULTED}, {})
    postgres.stop()
    with pytest.raises(StoreError):
        store.exchange({"a": FAULTED}, {})
    postgres.start()
    assert held(store, "a") == {"a": FAULTED}
    store.close()


def test_a_row_that_a_stopped_gateway_has_locked_is_not_waited_for_for_long(postgres: Postgres) -> None:
    url = postgres.url(postgres.new_database())
    store = Store(url)
    base = store.exchange({"a": Shared(DEGRADED, incidents=1)}, {}).held
    other = Store(url)
    with store._database.transaction("written") as stopped:
        stopped.connection().exec_driver_sql("update backend set version = version")
        with pytest.raises(StoreError, match="lock timeout"):
            other.exchange({"a": FAULTED}, base)
    assert other.exchange({"a": FAULTED}, base).held["a"].shared == FAULTED
    for each in (store, other):
        each.close()


def test_how_far_the_server_s_clock_is_ahead_is_told(postgres: Postgres) -> None:
    url = postgres.url(postgres.new_database())
    store = Store(url, clock=lambda: time.time() - 1000)
    answer = store.exchange({}, {})
    assert abs(answer.seconds_ahead - 1000) <= answer.uncertainty + 0.001
    store.close()


def test_a_password_is_in_no_error() -> None:
    store = Store("postgresql+psycopg://bimetal:hunter2@127.0.0.1:1/bimetal")
    with pytest.raises(StoreError, match=r"bimetal:\*\*\*@127\.0\.0\.1:1") as caught:
        store.exchange({}, {})
    assert "hunter2" not in str(caught.value)
    store.close()
