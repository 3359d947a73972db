"""From measured times to the operator matrix: what they teach, what they cannot, and the way back."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import typer
import yaml
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from bimetal.circle.scores import ScoreBook
from bimetal.cli.learn import learn
from bimetal.cli.model import model_app
from bimetal.fleet.schema import Fleet
from bimetal.learning.cluster_matrix import cluster_matrix
from bimetal.learning.documents import ArmRecord, PoolTime, Statistics
from bimetal.learning.dominants import dominants_of, own_targets
from bimetal.learning.memory import Memory
from bimetal.learning.operator_fold import Operator, learned_cells, operator_lessons
from bimetal.learning.sketch import Sketch
from bimetal.operators import default_matrix, judge
from bimetal.operators.matrix.matrix import Learned
from bimetal.operators.matrix.targets import Target
from bimetal.store.store import Store

NORM, PRODUCT = Operator("ai.onnx", "LayerNormalization", 17), Operator("ai.onnx", "MatMul", 13)
TARGETS = {"cuda": Target.CUDA, "rocm": Target.MIGRAPHX}
NOW = 1_780_000_000.0


def times(**seconds: tuple[float, float]) -> list[PoolTime]:
    """model=(time in pool cuda, time in pool rocm)."""
    return [
        PoolTime(model=model, pool=pool, size_class="small", seconds=each, requests=99, computed_on="gpu")
        for model, pair in seconds.items()
        for pool, each in zip(("cuda", "rocm"), pair, strict=True)
    ]


def dominated(model: str, _: str) -> frozenset[Operator]:
    return frozenset([NORM if model.startswith("norm") else PRODUCT])


def found(measured: list[PoolTime], targets: Mapping[str, Target] | None = None) -> dict[tuple[str, str], int]:
    lessons = operator_lessons(measured, TARGETS if targets is None else targets, dominated, NOW)
    return {(lesson.operator, lesson.target): lesson.score for lesson in lessons}


def test_an_operator_whose_models_are_slow_where_others_are_not_is_slow() -> None:
    measured = times(norm1=(1.0, 3.0), norm2=(1.0, 2.4), gemm1=(1.0, 1.1), gemm2=(1.1, 1.0))
    assert found(measured) == {
        ("LayerNormalization", "cuda"): 5,
        ("LayerNormalization", "migraphx"): 4,
        ("MatMul", "cuda"): 5,
        ("MatMul", "migraphx"): 5,
    }


def test_four_times_slower_is_the_lowest_that_a_native_operator_gets() -> None:
    measured = times(norm1=(1.0, 90.0), norm2=(1.0, 5.0), gemm=(1.0, 1.0))
    assert found(measured)["LayerNormalization", "migraphx"] == 3


def test_a_pool_of_slower_devices_says_nothing_about_an_operator() -> None:
    """It is three times slower at everything, which the bandwidth of its devices says already."""
    measured = times(norm1=(1.0, 3.0), norm2=(1.0, 3.3), gemm1=(1.0, 3.1), gemm2=(1.0, 2.9))
    assert ("LayerNormalization", "migraphx") not in found(measured)


def test_one_model_teaches_nothing_and_neither_do_two_that_disagree() -> None:
    assert found(times(norm1=(1.0, 9.0), gemm=(1.0, 1.0))) == {}
    mixed = found(times(norm1=(1.0, 9.0), norm2=(1.0, 1.0), gemm=(1.0, 1.0)))
    assert ("LayerNormalization", "migraphx") not in mixed


def test_emulated_pools_teach_nothing_about_a_vendor(fleet_of: Callable[..., Fleet]) -> None:
    fleet = fleet_of("cuda-0", "rocm-0", "cpu-0", extras={"rocm-0": {"compute": "cpu"}, "cpu-0": {"compute": "cpu"}})
    assert own_targets(fleet) == {"cuda": Target.CUDA, "cpu": Target.CPU}
    measured = times(norm1=(1.0, 3.0), norm2=(1.0, 3.0), gemm=(1.0, 1.0))
    assert found(measured, own_targets(fleet)) == {}


@pytest.mark.parametrize(
    ("documented", "learned", "score"),
    [(5, 4, 4), (4, 5, 5), (4, 3, 3), (3, 5, 3), (3, 4, 3), (2, 5, 2), (1, 5, 1), (0, 5, 0)],
)
def test_a_speed_moves_native_operators_only_and_lifts_no_limit(documented: int, learned: int, score: int) -> None:
    assert Learned(learned, "").applied_to(documented) == score


def model(folder: Path, name: str, operator: str) -> None:
    """A model of one operator in a pool's repository."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [512, 512]) for n in "xy")
    w = numpy_helper.from_array(np.zeros((512, 512) if operator == "MatMul" else (512,), np.float32), "w")
    graph = helper.make_graph([helper.make_node(operator, ["x", "w"], ["y"])], "g", [x], [y], [w])
    file = folder / name / "1" / "model.onnx"
    file.parent.mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), file)


class Bench:
    """A cluster whose rocm pool is slow at LayerNormalization."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.file = fleet.state_dir / "fleet.yaml"
        self.file.write_text(yaml.safe_dump(fleet.model_dump(mode="json")))
        self.store = Store(fleet.database_url)
        self.memory = Memory(self.store)
        for pool in ("cuda", "rocm"):
            for name, operator in {
                "norm1": "LayerNormalization",
                "norm2": "LayerNormalization",
                "gemm": "MatMul",
            }.items():
                model(fleet.pools[pool].repository, name, operator)

    @property
    def norm(self) -> Path:
        return self.fleet.pools["rocm"].repository / "norm1" / "1" / "model.onnx"

    def measure(self, slow_ms: float = 12) -> None:
        arms = []
        for name in ("norm1", "norm2", "gemm"):
            for backend in ("cuda-0", "rocm-0"):
                sketch = Sketch()
                slow = backend == "rocm-0" and name != "gemm"
                sketch.add([slow_ms / 1000 if slow else 0.004] * 100)
                arms.append(
                    ArmRecord(model=name, backend=backend, size_class="small", at=0.0, recent={}, week=sketch.buckets)
                )
        self.memory.save_statistics(Statistics(arms=tuple(arms)), time.time())

    def learn(self, *arguments: str) -> Any:
        app = typer.Typer()
        app.command()(learn)
        done = CliRunner().invoke(app, ["--fleet", str(self.file), "--json", *arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return json.loads(done.output)


@pytest.fixture
def bench(fleet_of: Callable[..., Fleet]) -> Iterator[Bench]:
    made = Bench(fleet_of("cuda-0", "rocm-0"))
    yield made
    made.store.close()


def test_models_are_dominated_by_what_takes_their_time(bench: Bench) -> None:
    assert dominants_of(bench.fleet, "norm1", "rocm") == frozenset([NORM])
    assert dominants_of(bench.fleet, "gone", "rocm") == frozenset()


def test_learning_changes_the_matrix_as_a_version_with_events_and_a_reason(bench: Bench) -> None:
    bench.measure()
    answer = bench.learn()
    changes = {(each["operator"], each["target"]): each for each in answer["operators"]}
    slow = changes["LayerNormalization(17)", "migraphx"]
    assert (answer["version"], slow["before"], slow["after"]) == (1, None, 4)
    assert slow["reason"] == (
        "models that it dominates (norm1, norm2) took 3.1 times the time of the fastest pool (cuda), "
        "other models 1 times"
    )
    texts = [event.text for event in bench.store.events(20) if event.backend == "migraphx"]
    assert any("LayerNormalization(17) on migraphx: score as documented → 4" in text for text in texts)
    assert bench.learn()["operators"] == []


def test_the_routers_scores_and_analyze_show_what_was_learned_with_its_date(
    bench: Bench, run_async: Callable[..., Any], state_of: Callable[..., Any]
) -> None:
    before = judge(bench.norm, "MIGraphXExecutionProvider")
    bench.measure(slow_ms=40)
    bench.learn()
    version, lessons = bench.memory.lessons()
    learned = learned_cells(lessons.operators, version)

    async def scenario() -> tuple[int | None, tuple[str, ...], int | None]:
        book, state = ScoreBook(bench.fleet), state_of(rocm_0="norm1")
        await book.refresh(state, {})
        first = book.scores["norm1", "rocm"].value
        assert await book.refresh(state, learned)
        second = book.scores["norm1", "rocm"]
        assert await book.refresh(state, {})
        assert book.scores["norm1", "rocm"].value == first
        return first, second.reasons, second.value

    first, reasons, second = run_async(scenario())
    assert (first, second) == (before.score, 3)
    assert "measured on this cluster at 20" in reasons[0]
    assert "(lessons 1): models that it dominates" in reasons[0]
    shown = CliRunner().invoke(model_app, ["analyze", str(bench.norm), "--json", "--fleet", str(bench.file)])
    verdict = json.loads(shown.output)["verdicts"]["MIGraphXExecutionProvider"]
    assert verdict["score"] == 3
    assert "measured on this cluster" in verdict["reasons"][0]["text"]


def test_what_was_learned_of_operators_can_be_taken_back(bench: Bench) -> None:
    bench.measure()
    bench.learn()
    answer = bench.learn("--revert", "0")
    assert {each["after"] for each in answer["operators"]} == {None}
    taken_back = judge(bench.norm, "MIGraphXExecutionProvider", cluster_matrix(bench.fleet))
    assert taken_back == judge(bench.norm, "MIGraphXExecutionProvider", default_matrix())
    assert len(bench.learn("--revert", "1")["operators"]) > 0
