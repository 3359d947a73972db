"""When a model is cut, what the plan says of it, and what the command writes."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.helper import make_graph, make_node, make_opsetid, make_tensor_value_info
from typer import Typer
from typer.testing import CliRunner

from bimetal.cli.split import split
from bimetal.model_repo.generate import generate
from bimetal.operators.matrix.matrix import default_matrix
from bimetal.split import cut_points as cut_points_module
from bimetal.split.costs import Link
from bimetal.split.cut_model import read_cut_model
from bimetal.split.cut_points import cut_points, uses_of
from bimetal.split.errors import SplitError
from bimetal.split.plan import SplitPlan, plan_split

TARGETS = ("CUDAExecutionProvider", "MIGraphXExecutionProvider")
LINK = Link(gbps=100, hop_seconds=1e-3, copy_seconds_per_byte=3.5e-9)
WIDTH = 2048
LITTLE, MUCH = 2, 120  # nodes of each kind


def save(file: Path, nodes: Sequence[Any], *, opset: int, kind: int, weights: Mapping[str, Any]) -> Path:
    """Writes a model from x [1, 128, WIDTH] of type `kind` to y."""
    graph = make_graph(
        nodes,
        "graph",
        [make_tensor_value_info("x", kind, [1, 128, WIDTH])],
        [make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 128, 1])],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save_model(onnx.helper.make_model(graph, opset_imports=[make_opsetid("", opset)], ir_version=10), file)
    return file


@pytest.fixture
def mixed(tmp_path: Path) -> Callable[[int], Path]:
    """Integer products, which CUDA leaves to the CPU, then RMS norms, which MIGraphX does: `count` of each."""

    def write(count: int) -> Path:
        scale, zero = np.array(1.0, np.float32), np.array(0, np.uint8)
        weights = {"scale": scale, "zero": zero, "w": np.zeros((WIDTH, WIDTH), np.uint8)}
        quantised = ["scale", "zero", "w", "scale", "zero", "scale", "zero"]
        nodes = [
            make_node("QLinearMatMul", [f"q{index}" if index else "x", *quantised], [f"q{index + 1}"])
            for index in range(count)
        ]
        nodes.append(make_node("DequantizeLinear", [f"q{count}", "scale", "zero"], ["n0"]))
        nodes += [make_node("RMSNormalization", [f"n{i}", "gain"], [f"n{i + 1}"]) for i in range(count)]
        nodes.append(make_node("ReduceMean", [f"n{count}", "axes"], ["y"]))
        weights |= {"gain": np.ones(WIDTH, np.float32), "axes": np.array([2])}
        return save(tmp_path / "mixed.onnx", nodes, opset=23, kind=onnx.TensorProto.UINT8, weights=weights)

    return write


def plan_of(file: Path, **options: Any) -> SplitPlan:
    return plan_split(read_cut_model(file), TARGETS, LINK, default_matrix(), **options)


def test_a_model_that_each_vendor_runs_half_of_is_cut_between_the_halves(mixed: Callable[[int], Path]) -> None:
    plan = plan_of(mixed(MUCH))
    assert plan.split
    assert [segment.provider for segment in plan.segments] == [TARGETS[1], TARGETS[0]]
    assert (plan.segments[0].inputs, plan.segments[-1].outputs) == (("x",), ("y",))
    saved = plan.best_whole.seconds - plan.seconds
    assert plan.reason == (
        f"pays: whole on {plan.best_whole.provider} {plan.best_whole.seconds * 1e3:.1f} ms, best split "
        f"{plan.seconds * 1e3:.1f} ms, {saved * 1e3:.1f} ms less ({saved / plan.best_whole.seconds:.0%})"
    )


def test_the_same_model_with_little_work_does_not_pay_the_calls(mixed: Callable[[int], Path]) -> None:
    plan = plan_of(mixed(LITTLE))
    assert not plan.split
    assert plan.reason.startswith(f"does not pay: whole on {plan.best_whole.provider} ")
    assert plan.seconds > plan.best_whole.seconds


def test_a_slow_link_keeps_it_whole(mixed: Callable[[int], Path]) -> None:
    slow = Link(gbps=0.1, hop_seconds=1e-3, copy_seconds_per_byte=3.5e-9)
    plan = plan_split(read_cut_model(mixed(MUCH)), TARGETS, slow, default_matrix())
    assert not plan.split


def test_the_plans_numbers_add_up(mixed: Callable[[int], Path]) -> None:
    plan = plan_of(mixed(MUCH))
    first, second = plan.segments
    assert first.cost.bytes_out == second.cost.bytes_in == 128 * WIDTH * (1 if f"q{MUCH}" in first.outputs else 4)
    for segment in plan.segments:
        assert segment.cost.transfer == pytest.approx(
            (segment.cost.bytes_in + segment.cost.bytes_out) * (8 / 100e9 + 3.5e-9)
        )
    assert plan.seconds == pytest.approx(sum(s.cost.compute + s.cost.transfer + s.cost.hop for s in plan.segments))


def test_a_model_with_one_good_pool_is_left_whole(tmp_path: Path) -> None:
    """CUDA runs RotaryEmbedding (opset 23), MIGraphX only its function body."""
    file = tmp_path / "rope.onnx"
    file.write_bytes(generate("rope_attention"))
    plan = plan_of(file)
    assert not plan.split
    assert plan.reason.startswith("left whole, a target runs it well (score 5): whole on CUDAExecutionProvider ")


def test_more_cut_points_than_the_search_takes_are_thinned_to_those_that_few_bytes_cross(
    mixed: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before DequantizeLinear tensors are a quarter of what they are after it; y is smaller still."""
    monkeypatch.setattr(cut_points_module, "MAX_ATOMS", 5)
    model = read_cut_model(mixed(4))
    assert [model.protos[position].op_type for position in cut_points(model, uses_of(model))] == [
        "QLinearMatMul",
        "QLinearMatMul",
        "QLinearMatMul",
        "DequantizeLinear",
    ]


@pytest.mark.parametrize(
    ("targets", "force", "message"),
    [
        (("CUDAExecutionProvider", "Nonsense"), None, "targets CUDAExecutionProvider, Nonsense: expected different"),
        (("CUDAExecutionProvider", "CUDAExecutionProvider"), None, "expected different ones"),
        (TARGETS, 1, "--force 1: expected 2 to 16 segments"),
        (TARGETS, 9, "cannot be cut into 9 segments"),
    ],
)
def test_what_cannot_be_done_is_said(
    mixed: Callable[[int], Path], targets: tuple[str, ...], force: int | None, message: str
) -> None:
    with pytest.raises(SplitError, match=message):
        plan_split(read_cut_model(mixed(LITTLE)), targets, LINK, default_matrix(), force=force)


@pytest.fixture
def dangerous(tmp_path: Path) -> Path:
    """Relu, a Gather over two dynamic dimensions, which MIGraphX was seen not to compile, and Tanh."""
    nodes = [make_node("Relu", ["x"], ["h"]), make_node("Gather", ["h", "i"], ["g"]), make_node("Tanh", ["g"], ["y"])]
    values = [make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", "tokens"]) for name in "xy"]
    weights = [onnx.numpy_helper.from_array(np.array([0]), "i")]
    model = onnx.helper.make_model(make_graph(nodes, "graph", values[:1], values[1:], weights), ir_version=10)
    onnx.save_model(model, tmp_path / "dangerous.onnx")
    return tmp_path / "dangerous.onnx"


def test_an_operator_that_people_saw_fail_on_a_target_is_not_put_there(dangerous: Path, tmp_path: Path) -> None:
    found = json.loads(run(str(dangerous), "--out", str(tmp_path / "out"), "--force", "2", "--json"))
    assert {whole["provider"]: whole["seconds"] is None for whole in found["whole"]} == {
        "CUDAExecutionProvider": False,
        "MIGraphXExecutionProvider": True,
    }
    (gathers,) = [segment for segment in found["segments"] if "Gather" in segment["operators"]]
    assert gathers["provider"] == "CUDAExecutionProvider"
    assert not (tmp_path / "out" / "rocm" / "dangerous").exists()


def test_nothing_is_left_of_a_split_that_onnxs_checker_refuses(dangerous: Path, tmp_path: Path) -> None:
    model = onnx.load(dangerous)
    model.graph.node[2].attribute.append(onnx.helper.make_attribute("no_such_attribute", 1))
    onnx.save_model(model, dangerous)
    with pytest.raises(SplitError, match=r"ONNX's checker refuses this segment: .*no_such_attribute"):
        run(str(dangerous), "--out", str(tmp_path / "out"), "--force", "2")
    assert not (tmp_path / "out").exists()


def run(*arguments: str) -> str:
    app = Typer()
    app.command()(split)
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_says_why_it_writes_nothing(mixed: Callable[[int], Path], tmp_path: Path) -> None:
    shown = run(str(mixed(LITTLE)), "--out", str(tmp_path / "out"))
    assert "mixed.onnx: does not pay: whole on " in shown
    assert not (tmp_path / "out").exists()


def test_the_command_writes_a_repository_for_each_pool(mixed: Callable[[int], Path], tmp_path: Path) -> None:
    found = json.loads(run(str(mixed(MUCH)), "--out", str(tmp_path / "out"), "--name", "m", "--json"))
    written = {str(Path(folder).relative_to(tmp_path / "out")) for folder in found["written"]}
    both = {f"{pool}/{name}" for pool in ("cuda", "rocm") for name in ("m", "m_split")}
    assert written == both | {"rocm/m_split_0", "cuda/m_split_1"}
    assert all((tmp_path / "out" / folder / "1" / "model.py").is_file() for folder in written)
    steps = json.loads((tmp_path / "out/rocm/m_split/1/pipeline.json").read_text())
    assert steps["whole"] == "m"
    assert [step["model"] for step in steps["segments"]] == ["m_split_0", "m_split_1"]


def test_the_whole_model_keeps_its_weights_in_other_files(mixed: Callable[[int], Path], tmp_path: Path) -> None:
    model = onnx.load(mixed(LITTLE))
    (tmp_path / "external").mkdir()
    file = tmp_path / "external" / "m.onnx"
    onnx.save_model(model, file, save_as_external_data=True, location="weights.bin")
    run(str(file), "--out", str(tmp_path / "out"), "--force", "2")
    written = tmp_path / "out" / "cuda" / "m" / "1"
    onnx.checker.check_model(str(written / "model.onnx"))
    assert (written / "weights.bin").read_bytes() == (tmp_path / "external" / "weights.bin").read_bytes()


def test_a_folder_that_holds_something_is_left_alone(mixed: Callable[[int], Path], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "note").touch()
    with pytest.raises(SplitError, match="is there already; expected a new or an empty folder"):
        run(str(mixed(LITTLE)), "--out", str(tmp_path / "out"), "--force", "2")


def test_a_model_without_an_open_first_dimension_is_not_batched(mixed: Callable[[int], Path], tmp_path: Path) -> None:
    with pytest.raises(SplitError, match=r"'x' has shape .*; with --max-batch-size every input and output needs"):
        run(str(mixed(LITTLE)), "--out", str(tmp_path / "out"), "--force", "2", "--max-batch-size", "4")
    assert not (tmp_path / "out").exists()
