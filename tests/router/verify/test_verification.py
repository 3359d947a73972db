"""Verifications on the real CPU provider, in real worker processes."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from bimetal.operators.matrix.targets import Target
from bimetal.verify.cases import Case
from bimetal.verify.results import Execution, FailureKind, Record, Results
from bimetal.verify.supervisor import WorkerError
from bimetal.verify.verification import Options, VerificationError, chosen, provider_of, verify

Cases = Callable[..., list[Case]]
Verify = Callable[..., Results]


def only(results: Results, operator: str, version: int | None = None, kind: str = "fp32") -> Record:
    (found,) = [
        record
        for record in results.records
        if record.operator == operator and record.type == kind and version in {None, record.version}
    ]
    return found


def test_an_operator_that_works_has_passed_natively_with_its_smallest_and_largest_times(
    cases_of: Cases, verify_on_cpu: Verify
) -> None:
    results = verify_on_cpu(cases_of("Softmax"))
    softmax = only(results, "Softmax")
    assert (softmax.version, softmax.passed, softmax.failed, softmax.origin) == (13, 7, 0, "onnx")
    assert (softmax.execution, softmax.nodes) == (Execution.NATIVE, (("Softmax", "CPUExecutionProvider"),))
    assert softmax.fallback is False
    assert softmax.smallest is not None
    assert softmax.largest is not None
    assert (softmax.smallest.elements, softmax.largest.elements) == (3, 60)
    assert (softmax.largest.bytes, softmax.largest.repeats) == (240, 3)
    assert softmax.largest.compile_seconds > 0
    assert softmax.largest.run_mean_seconds is not None
    assert softmax.largest.run_std_seconds is not None
    assert softmax.largest.run_mean_seconds > 0


def test_on_the_cpu_there_is_nothing_to_transfer_and_the_document_says_so(
    cases_of: Cases, verify_on_cpu: Verify
) -> None:
    results = verify_on_cpu(cases_of("Relu"))
    largest = only(results, "Relu").largest
    assert results.transfer == "no_device"
    assert largest is not None
    assert largest.transfer_seconds is None


def test_an_operator_that_hangs_is_killed_and_the_rest_goes_on(
    endless_loop: Case, cases_of: Cases, verify_on_cpu: Verify
) -> None:
    after_it = replace(endless_loop, name="after_it")
    results = verify_on_cpu([endless_loop, after_it, *cases_of("Relu", "Abs")], deadline_seconds=4)
    loop = only(results, "Loop")
    assert [(failure.case, failure.kind) for failure in loop.failures] == [("endless_loop", FailureKind.HUNG)]
    assert (loop.passed, loop.skipped, loop.execution) == (0, 1, None)
    assert only(results, "Abs").passed == 1
    assert only(results, "Relu").passed == 1


def test_an_operator_that_takes_the_process_with_it_is_recorded_and_the_rest_goes_on(
    cases_of: Cases, verify_on_cpu: Verify, fake_runner: str
) -> None:
    results = verify_on_cpu(cases_of("Softmax", "Abs", "Tanh"), runner=fake_runner)
    softmax = only(results, "Softmax")
    (failure,) = softmax.failures
    assert (failure.kind, failure.detail) == (FailureKind.CRASHED, "the worker process ended: SIGABRT")
    assert (softmax.passed, softmax.skipped) == (0, 6)
    assert only(results, "Abs").passed == 1
    assert only(results, "Tanh").passed == 2


def test_an_operator_that_wants_more_memory_than_it_may_have_fails_alone(
    make_case: Callable[..., Case], cases_of: Cases, verify_on_cpu: Verify
) -> None:
    node = helper.make_node("ConstantOfShape", ["shape"], ["y"])
    huge = make_case(node, {"shape": np.array([1 << 30])}, {"y": np.zeros(1, np.float32)}, 9, "huge")
    results = verify_on_cpu([huge, *cases_of("Relu")], memory_bytes=3 << 30)
    (failure,) = only(results, "ConstantOfShape", kind="int64").failures
    assert failure.kind is FailureKind.ERROR
    assert "alloc" in failure.detail
    assert only(results, "Relu").passed == 1


def test_a_wrong_output_is_a_failure_that_names_the_value(
    make_case: Callable[..., Case], verify_on_cpu: Verify
) -> None:
    x = np.array([-1, 2], np.float32)
    wrong = make_case(
        helper.make_node("Relu", ["x"], ["y"]), {"x": x}, {"y": np.array([0, 3], np.float32)}, 14, "wrong"
    )
    relu = only(verify_on_cpu([wrong]), "Relu")
    (failure,) = relu.failures
    assert (failure.kind, failure.detail) == (
        FailureKind.WRONG_OUTPUT,
        "output 0: 1 of 2 values: 2.0 at (1,); expected 3.0",
    )
    assert relu.execution is Execution.NATIVE


def test_an_operator_without_a_kernel_is_refused(cases_of: Cases, verify_on_cpu: Verify) -> None:
    roi_align = only(verify_on_cpu(cases_of("RoiAlign")), "RoiAlign", 22)
    assert (roi_align.passed, roi_align.execution, roi_align.smallest) == (0, None, None)
    assert {failure.kind for failure in roi_align.failures} == {FailureKind.REFUSED}
    assert roi_align.failures[0].detail.startswith(
        "NOT_IMPLEMENTED : Could not find an implementation for RoiAlign(22)"
    )


def test_half_precision_is_tried_too_and_casts_around_a_kernel_are_seen(cases_of: Cases, verify_on_cpu: Verify) -> None:
    results = verify_on_cpu(cases_of("Softplus", "Gather", "Relu"), derived=True)
    softplus = only(results, "Softplus", 22, "fp16")
    assert (softplus.origin, softplus.passed, softplus.execution) == ("derived", 2, Execution.CAST)
    assert [name for name, _ in softplus.nodes] == ["Cast", "Softplus", "Cast"]
    assert only(results, "Gather", 13, "fp16").execution is Execution.NATIVE
    assert only(results, "Relu", 14, "bf16").failures[0].kind is FailureKind.REFUSED


def test_older_versions_of_an_operator_are_tried_too(cases_of: Cases, verify_on_cpu: Verify) -> None:
    results = verify_on_cpu(cases_of("LSTM", "Mish"), derived=True)
    assert {record.version for record in results.records if record.operator == "LSTM"} == {7, 14, 22}
    old = only(results, "LSTM", 14)
    assert (old.origin, old.passed, old.failed, old.execution) == ("derived", 5, 1, Execution.NATIVE)
    assert only(results, "Mish", 18).execution is Execution.INLINED


def test_the_complete_set_of_onnx_runs_and_most_of_it_passes(every_case: list[Case], verify_on_cpu: Verify) -> None:
    results = verify_on_cpu(every_case, repeats=1)
    assert len({(record.domain, record.operator) for record in results.records}) >= 190
    assert {record.domain for record in results.records} >= {"ai.onnx", "ai.onnx.ml"}
    passed = sum(record.passed for record in results.records)
    assert passed >= 0.9 * len(every_case)
    assert passed + sum(record.failed + record.skipped for record in results.records) == len(every_case)
    assert not [record for record in results.records if record.skipped]


def test_each_operator_is_reported_when_it_is_done(cases_of: Cases) -> None:
    done: list[str] = []
    options = Options(derived=False, repeats=1)
    verify(Target.CPU, "CPUExecutionProvider", cases_of("Relu", "Abs", "Binarizer"), options, done.append)
    assert done == ["Abs(13)", "Relu(14)", "ai.onnx.ml.Binarizer(1)"]


def test_a_provider_that_does_not_start_is_an_error_and_no_test_of_the_cpu(cases_of: Cases) -> None:
    with pytest.raises(WorkerError, match="CUDAExecutionProvider does not start on this host"):
        verify(Target.CUDA, "CUDAExecutionProvider", cases_of("Relu"), Options(), lambda _: None)


@pytest.mark.parametrize("target", ["gpu", "torch_cuda"])
def test_a_target_that_runs_no_onnx_is_refused_with_those_that_do(target: str) -> None:
    with pytest.raises(VerificationError, match=f"'{target}' is no target .* one of cpu, cuda, migraphx"):
        provider_of(target)


def test_a_provider_that_onnxruntime_lacks_is_named_with_those_it_has() -> None:
    with pytest.raises(VerificationError, match="has no MIGraphXExecutionProvider; it has CPUExecutionProvider"):
        provider_of("migraphx", ["CPUExecutionProvider"])
    assert provider_of("cuda", ["CUDAExecutionProvider"]) == (Target.CUDA, "CUDAExecutionProvider")


def test_an_operator_without_tests_is_refused_with_what_was_meant(every_case: Sequence[Case]) -> None:
    with pytest.raises(VerificationError, match=r"no node test of an operator 'SoftMax'\. Did you mean Softmax"):
        chosen(every_case, ["SoftMax"])


def test_an_operator_can_be_chosen_with_its_domain(every_case: Sequence[Case]) -> None:
    assert {case.node.op_type for case in chosen(every_case, ["ai.onnx.ml.Binarizer", "ai.onnx.Abs"])} == {
        "Abs",
        "Binarizer",
    }
