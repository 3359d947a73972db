"""Verified results beat documentation in the matrix, in both directions, and say what they override."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from bimetal.operators import Matrix, Verdict, default_matrix, judge
from bimetal.operators.matrix.matrix import Evidence
from bimetal.operators.matrix.targets import Target
from bimetal.verify import Results, load_verified, overlay, write_results
from bimetal.verify.results import CaseFailure, Execution, FailureKind, Host, Record

CUDA = "CUDAExecutionProvider"
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
REFUSED = CaseFailure(case="test_softplus", kind=FailureKind.REFUSED, detail="no kernel")
WRONG = CaseFailure(case="test_softplus", kind=FailureKind.WRONG_OUTPUT, detail="output 0: 3 of 3 values")
HUNG = CaseFailure(case="test_softplus", kind=FailureKind.HUNG, detail="killed after 60 s")


def record(operator: str = "Softplus", version: int = 22, kind: str = "fp32", **values: Any) -> Record:
    defaults = {"domain": "ai.onnx", "origin": "onnx", "passed": 2, "execution": Execution.NATIVE}
    return Record(operator=operator, version=version, type=kind, **{**defaults, **values})


def failed(operator: str = "Softplus", version: int = 22, kind: str = "fp32") -> Record:
    return record(operator, version, kind, passed=0, execution=None, failures=(REFUSED,))


def results(*records: Record, host: str = "h200-3", started: datetime = NOON, target: Target = Target.CUDA) -> Results:
    machine = Host(name=host, system="Linux", machine="x86_64", cpu="x", cpus=2, memory_bytes=1 << 34, cpu_threads=1)
    return Results(
        target=target,
        provider=CUDA,
        host=machine,
        onnxruntime="1.32.0",
        onnx="1.23.2",
        bimetal="0.1.0",
        python="3.11.2",
        started=started,
        duration_seconds=1.0,
        transfer="measured",
        records=records,
    )


def score(matrix: Matrix, operator: str, version: int, target: Target = Target.CUDA) -> int:
    judgement = matrix.judge("ai.onnx", operator, version, target)
    assert judgement is not None
    return judgement.score


@pytest.fixture
def softplus(tmp_path: Path) -> Callable[..., Path]:
    """A model of one large Softplus, at an opset and in a type."""

    def make(opset: int, kind: int = onnx.TensorProto.FLOAT) -> Path:
        values = [helper.make_tensor_value_info(name, kind, [64, 1024]) for name in ("x", "y")]
        graph = helper.make_graph([helper.make_node("Softplus", ["x"], ["y"])], "graph", values[:1], values[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        file = tmp_path / f"softplus-{opset}-{kind}.onnx"
        onnx.save(model, file)
        return file

    return make


def deciding(verdict: Verdict) -> str:
    return f"{verdict.reasons[0].text} [{verdict.reasons[0].source}]"


def test_a_pass_lifts_an_operator_that_is_documented_to_run_on_the_cpu(softplus: Callable[..., Path]) -> None:
    model = softplus(22)
    verified = overlay(default_matrix(), [results(record())])
    assert judge(model, CUDA).score == 1
    verdict = judge(model, CUDA, verified)
    assert verdict.score == 4
    assert "verified on h200-3 at 2026-05-04 12:00 UTC with onnxruntime 1.32.0" in deciding(verdict)
    assert "2 of 2 tests passed, it ran natively; documented was 1: CUDA kernels match up to opset 21" in deciding(
        verdict
    )
    assert "onnxruntime CUDA" in verdict.reasons[0].source  # the fact that is overridden keeps its source


def test_a_failure_sinks_an_operator_that_is_documented_to_be_native(softplus: Callable[..., Path]) -> None:
    model = softplus(21)
    verified = overlay(default_matrix(), [results(failed(version=1))])
    assert judge(model, CUDA).score == 5
    verdict = judge(model, CUDA, verified)
    assert verdict.score == 0
    assert "0 of 1 tests passed, test_softplus refused (no kernel); documented was 5" in deciding(verdict)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, 5),  # documented as fast: a pass does not say otherwise
        ({"execution": Execution.FOLDED}, 5),
        ({"execution": Execution.CAST}, 3),
        ({"execution": Execution.BEHIND}, 3),
        ({"execution": Execution.INLINED}, 2),
        ({"execution": Execution.FALLBACK}, 1),
        ({"failures": (WRONG,)}, 3),  # some tests failed
        ({"failures": (WRONG,), "execution": Execution.FALLBACK}, 1),
        ({"failures": (HUNG,)}, 0),  # a server that hangs or dies is worse than one test
        ({"failures": (WRONG,), "passed": 0}, 0),
    ],
)
def test_what_was_measured_decides_the_score(values: dict[str, Any], expected: int) -> None:
    verified = overlay(default_matrix(), [results(record(version=1, **values))])
    assert score(verified, "Softplus", 1) == expected


def test_only_the_version_and_the_target_that_were_run_change() -> None:
    before = default_matrix()
    cells = list(before)
    after = overlay(before, [results(failed("Abs", 6))])
    assert score(after, "Abs", 6) == 0
    for version in (1, 13):
        assert score(after, "Abs", version) == score(before, "Abs", version)
    for target in (Target.CPU, Target.MIGRAPHX, Target.TENSORRT):
        assert score(after, "Abs", 6, target) == score(before, "Abs", 6, target)
    assert list(before) == cells


def test_the_overlay_leaves_exactly_one_fact_per_version() -> None:
    everything = [record(cell.operator, cell.first_version) for cell in default_matrix() if cell.target is Target.CUDA]
    after = overlay(default_matrix(), [results(*everything)])
    for found in everything:
        cells = [
            cell
            for cell in after
            if (cell.operator, cell.target, cell.domain) == (found.operator, Target.CUDA, "ai.onnx")
            and cell.evidence is not Evidence.PRACTITIONER
            and cell.covers(found.version)
        ]
        assert [bool(cell.verified) for cell in cells] == [True], (found.operator, found.version)


def test_a_type_that_failed_sinks_only_models_of_that_type(softplus: Callable[..., Path]) -> None:
    verified = overlay(default_matrix(), [results(record(version=1), failed(version=1, kind="fp16"))])
    assert judge(softplus(21), CUDA, verified).score == 5
    assert judge(softplus(21, onnx.TensorProto.FLOAT16), CUDA, verified).score == 0


def test_a_type_that_passed_is_no_longer_held_against_the_documented_types(softplus: Callable[..., Path]) -> None:
    model = softplus(22, onnx.TensorProto.BFLOAT16)
    verified = overlay(default_matrix(), [results(record(), record(kind="bf16"))])
    assert judge(model, CUDA).score < 4
    assert judge(model, CUDA, verified).score == 4


def test_an_operator_that_no_source_knows_becomes_known() -> None:
    unknown = record("TreeEnsemble", 5, domain="ai.onnx.ml")
    verified = overlay(default_matrix(), [results(unknown)])
    judgement = verified.judge("ai.onnx.ml", "TreeEnsemble", 5, Target.CUDA)
    assert judgement is not None
    assert judgement.score == 4
    assert judgement.decided_by.limits.endswith("no source speaks of it")


def test_the_newest_run_on_a_host_counts_whatever_the_order_of_the_files() -> None:
    old, new = results(failed(version=1)), results(record(version=1), started=NOON + timedelta(days=1))
    assert score(overlay(default_matrix(), [new, old]), "Softplus", 1) == 5
    assert score(overlay(default_matrix(), [old, new]), "Softplus", 1) == 5


def test_a_newer_run_of_other_operators_leaves_an_older_runs_results() -> None:
    old, new = results(failed(version=1)), results(record("Abs", 13), started=NOON + timedelta(days=1))
    assert score(overlay(default_matrix(), [old, new]), "Softplus", 1) == 0


def test_of_several_hosts_the_weakest_counts() -> None:
    good, bad = results(record(version=1)), results(failed(version=1), host="h200-4")
    assert score(overlay(default_matrix(), [bad, good]), "Softplus", 1) == 0
    assert "h200-4" in str(overlay(default_matrix(), [bad, good]).judge("ai.onnx", "Softplus", 1, Target.CUDA))


def test_every_document_of_the_folder_is_loaded_and_no_folder_is_no_result(tmp_path: Path) -> None:
    for name, found in (("a", record()), ("b", record("Abs", 13))):
        write_results(results(found), tmp_path / "verified" / f"{name}.json")
    assert [document.records[0].operator for document in load_verified(tmp_path / "verified")] == ["Softplus", "Abs"]
    assert load_verified(tmp_path / "nothing") == ()


def test_a_verification_of_this_host_lowers_what_the_matrix_says_of_its_cpu(
    cases_of: Callable[..., Any], verify_on_cpu: Callable[..., Results]
) -> None:
    verified = overlay(default_matrix(), [verify_on_cpu(cases_of("MaxUnpool", "Relu"))])
    assert score(default_matrix(), "MaxUnpool", 22, Target.CPU) == 4
    assert score(verified, "MaxUnpool", 22, Target.CPU) == 3
    assert score(verified, "Relu", 14, Target.CPU) == 4
