"""`bimetal learn`: versions, dry runs and the way back."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from bimetal.cli.learn import learn
from bimetal.errors import BimetalError, StoreError
from bimetal.fleet.schema import Fleet
from bimetal.learning.documents import LESSONS, ArmRecord, Statistics
from bimetal.learning.memory import Memory
from bimetal.learning.sketch import Sketch
from bimetal.store.store import Record, Store

app = typer.Typer()
app.command()(learn)


class Bench:
    """A fleet file, its store, and the command on them."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet_file = fleet.state_dir / "fleet.yaml"
        self.fleet_file.write_text(yaml.safe_dump(fleet.model_dump(mode="json")))
        self.store = Store(fleet.database_url)
        self.memory = Memory(self.store)

    def measured(self, seconds: float, gateway: str = "", ago_s: float = 60.0) -> None:
        sketch = Sketch()
        sketch.add([seconds] * 100)
        arm = ArmRecord(model="m", backend="cuda-0", size_class="small", at=0.0, recent={}, week=sketch.buckets)
        Memory(self.store, gateway).save_statistics(Statistics(arms=(arm,)), time.time() - ago_s)

    def learn(self, *arguments: str) -> Any:
        return json.loads(self.printed("--json", *arguments))

    def printed(self, *arguments: str) -> str:
        done = CliRunner().invoke(app, ["--fleet", str(self.fleet_file), *arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    def learned_ms(self) -> list[int]:
        return [round(lesson.seconds * 1000) for lesson in self.memory.lessons()[1].times]


@pytest.fixture
def bench(fleet_of: Callable[..., Fleet]) -> Iterator[Bench]:
    made = Bench(fleet_of("cuda-0", "rocm-0"))
    yield made
    made.store.close()


def test_a_week_of_times_becomes_version_one_with_an_event(bench: Bench) -> None:
    bench.measured(0.004)
    answer = bench.learn()
    assert (answer["version"], answer["before"]) == (1, 0)
    assert [(c["pool"], c["before"], round(c["after"], 4)) for c in answer["changes"]] == [("cuda", None, 0.0039)]
    (event,) = bench.store.events(10)
    assert (event.backend, event.kind) == ("cuda", "lesson")
    assert "m in pool cuda, small requests: - → 3.93 ms: lower quartile of 100 requests" in event.text


def test_learning_twice_from_the_same_week_makes_no_version(bench: Bench) -> None:
    bench.measured(0.004)
    bench.learn()
    assert bench.learn()["changes"] == []
    assert bench.memory.lessons()[0] == 1


def test_a_dry_run_shows_the_change_and_writes_nothing(bench: Bench) -> None:
    bench.measured(0.004)
    answer = bench.learn("--dry-run")
    assert (answer["version"], len(answer["changes"])) == (0, 1)
    assert bench.memory.lessons()[0] == 0
    assert bench.store.events(10) == []


def test_a_version_can_be_taken_back_and_the_taking_back_too(bench: Bench) -> None:
    bench.measured(0.004)
    bench.learn()
    bench.measured(0.012)
    bench.learn()
    assert bench.learned_ms() == [12]
    assert bench.learn("--revert", "1")["version"] == 3
    assert bench.learned_ms() == [4]
    assert bench.learn("--revert", "2")["version"] == 4
    assert bench.learned_ms() == [12]
    bench.learn("--revert", "0")
    assert bench.learned_ms() == []
    assert "reverted to version 0" in bench.store.events(1)[0].text


def test_an_unknown_version_names_the_known_ones(bench: Bench) -> None:
    bench.measured(0.004)
    bench.learn()
    with pytest.raises(BimetalError, match=r"no version 7 of the lessons\. Known versions: 0, 1\."):
        bench.printed("--revert", "7")


def test_the_table_says_how_to_undo_it(bench: Bench) -> None:
    bench.measured(0.004)
    printed = bench.printed()
    assert "lower quartile of 100" in printed
    assert "bimetal learn --revert 0" in printed


def test_nothing_measured_is_nothing_to_change(bench: Bench) -> None:
    assert "Nothing to change: version 0 stands." in bench.printed()


def test_what_all_gateways_have_measured_within_a_week_is_folded(bench: Bench) -> None:
    bench.measured(0.010, "one")
    bench.measured(0.030, "other")
    bench.measured(0.100, "gone", ago_s=8 * 86400.0)
    (lesson,) = bench.learn()["lessons"]
    assert lesson["requests"] == 200
    assert bench.learned_ms() == [10]


def test_a_new_gateway_begins_with_what_another_has_measured(bench: Bench) -> None:
    bench.measured(0.010, "one", ago_s=60.0)
    bench.measured(0.030, "other", ago_s=1.0)
    other = Memory(bench.store, "other").statistics()
    assert Memory(bench.store, "new").statistics() == other != Memory(bench.store, "one").statistics()


def test_only_the_newest_statistics_are_kept(bench: Bench) -> None:
    for seconds in (0.004, 0.012):
        bench.measured(seconds)
    assert [record.version for record in bench.store.records("statistics")] == [2]


def test_a_document_that_cannot_be_read_is_named(bench: Bench) -> None:
    bench.store.record(Record(LESSONS, 1.0, "by hand", '{"times": [{"model": "m"}]}'))
    with pytest.raises(StoreError, match=r"lessons of version 1 cannot be read.*delete that row"):
        bench.memory.lessons()


def test_a_version_that_is_not_written_leaves_no_event(bench: Bench) -> None:
    broken: Any = None
    with pytest.raises(StoreError, match="cannot be written"):
        bench.store.record(Record(LESSONS, broken, "without a time", "{}"), events=[])
    assert bench.memory.lessons()[0] == 0
