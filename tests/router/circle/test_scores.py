"""Where a model's operator score comes from: its file, and what was verified on the cluster."""

import shutil
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper, save

from bimetal.circle.scores import ScoreBook
from bimetal.fleet.schema import Fleet
from bimetal.operators.matrix.targets import Target
from bimetal.state.fleet_state import FleetState
from bimetal.verify import Results, write_results
from bimetal.verify.results import Execution, Host, Record

RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def fleet(fleet_of: Callable[..., Fleet]) -> Fleet:
    """Softplus at opset 22, for which onnxruntime's documentation has no CUDA kernel, in the cuda pool's repository."""
    made = fleet_of("cuda-0")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [512, 512]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Softplus", ["x"], ["y"])], "g", [x], [y])
    file = made.pools["cuda"].repository / "m" / "1" / "model.onnx"
    file.parent.mkdir(parents=True)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), file)
    return made


def write_verified(fleet: Fleet) -> Path:
    """A document that says: Softplus 22 ran natively on this cluster."""
    machine = Host(name="h200-3", system="Linux", machine="x86_64", cpu="x", cpus=2, memory_bytes=2**34, cpu_threads=1)
    tested = {"domain": "ai.onnx", "operator": "Softplus", "version": 22, "type": "fp32"}
    record = Record.model_validate({**tested, "origin": "onnx", "passed": 2, "execution": Execution.NATIVE})
    results = Results(
        target=Target.CUDA, provider="CUDAExecutionProvider", host=machine, onnxruntime="1.32.0", onnx="1.23.2",
        bimetal="0.1.0", python="3.11.2", started=datetime(2026, 5, 4, tzinfo=UTC), duration_seconds=1.0,
        transfer="measured", records=(record,),
    )  # fmt: skip
    folder = fleet.state_dir / "verified"
    folder.mkdir(exist_ok=True)
    write_results(results, folder / "h200-3.json")
    return folder


def score(book: ScoreBook) -> int | None:
    found = book.scores.get(("m", "cuda"))
    return found.value if found else None


def test_what_was_verified_on_the_cluster_beats_the_documentation_and_can_be_taken_back(
    fleet: Fleet, run_async: RunAsync, state_of: Callable[..., FleetState]
) -> None:
    async def scenario() -> None:
        book, state = ScoreBook(fleet), state_of(cuda_0="m")
        assert await book.refresh(state)
        assert score(book) == 1
        folder = write_verified(fleet)
        assert await book.refresh(state)
        assert (score(book) or 0) >= 4
        shutil.rmtree(folder)
        assert await book.refresh(state)
        assert score(book) == 1

    run_async(scenario())


def test_a_results_file_that_cannot_be_read_leaves_the_documented_score(
    fleet: Fleet, run_async: RunAsync, state_of: Callable[..., FleetState]
) -> None:
    async def scenario() -> None:
        book, state = ScoreBook(fleet), state_of(cuda_0="m")
        folder = write_verified(fleet)
        (folder / "broken.json").write_text("{")
        await book.refresh(state)
        assert score(book) == 1

    run_async(scenario())


def test_a_file_is_read_again_when_it_changes_and_forgotten_when_it_goes(
    fleet: Fleet, run_async: RunAsync, state_of: Callable[..., FleetState]
) -> None:
    async def scenario() -> None:
        book, state = ScoreBook(fleet), state_of(cuda_0="m")
        await book.refresh(state)
        assert not await book.refresh(state)
        file = fleet.pools["cuda"].repository / "m" / "1" / "model.onnx"
        file.write_bytes(b"no model")
        assert await book.refresh(state)
        assert score(book) is None
        assert "model.onnx" in book.scores["m", "cuda"].reasons[0]
        file.unlink()
        await book.refresh(state)
        assert ("m", "cuda") not in book.scores

    run_async(scenario())


def test_a_pytorch_model_is_judged_for_the_build_on_the_pools_devices(
    fleet_of: Callable[..., Fleet], run_async: RunAsync, state_of: Callable[..., FleetState]
) -> None:
    """A speech model whose length is open: a driver time-out on ROCm 5.6 in the practitioners' report."""
    fleet = fleet_of("cuda-0", "rocm-0", "cpu-0")
    speech = Path(__file__).parents[1] / "operators" / "torch" / "files" / "speech_scripted.pt"
    for pool in fleet.pools.values():
        file = pool.repository / "m" / "1" / "model.pt"
        file.parent.mkdir(parents=True)
        shutil.copy(speech, file)

    async def scenario() -> None:
        book = ScoreBook(fleet)
        await book.refresh(state_of(cuda_0="m", rocm_0="m", cpu_0="m"))
        scores = {pool: each.value for (_, pool), each in book.scores.items()}
        assert scores == {"cuda": 4, "rocm": 1, "cpu": None}

    run_async(scenario())


def test_a_file_that_cannot_even_be_looked_for_makes_its_model_unknown_and_no_other(
    fleet: Fleet, run_async: RunAsync, seen: Callable[..., Any], state_of: Callable[..., FleetState]
) -> None:
    """As in a container that may not read the repository: here no file system takes so long a name."""
    book = ScoreBook(fleet)
    endless = "x" * 300
    run_async(book.refresh(state_of(seen("cuda-0", endless, "m"))))
    assert score(book) is not None
    assert (endless, "cuda") not in book.scores
