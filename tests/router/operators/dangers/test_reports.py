"""The public reports as a table: for each, the tests that show its condition in a file, or why no file can show it."""

from collections.abc import Iterator, Mapping

import pytest

from bimetal.operators.dangers.dangers import REPORTS_FILE
from bimetal.operators.dangers.onnx_rules import RULES
from bimetal.operators.matrix.matrix import read_rows
from bimetal.operators.matrix.targets import Target
from tests.router.operators.dangers import test_dangers
from tests.router.operators.torch import test_verdict as test_torch_verdict

_IN_THE_MATRIX = {
    36: "test_an_opset_newer_than_the_cuda_kernel_means_the_cpu",
    37: "test_what_was_fixed_for_opset_21_is_native_there",
}
_BY_NAME = {43: "test_any_model_on_the_rocm_provider_is_told_that_the_provider_is_gone"}
_UNSEEN = {7, 24, 25}
"""Of these the condition is the device alone, or no operator is named."""


def reports() -> Mapping[int, Mapping[str, str]]:
    return {int(row["number"]): row for _, row in read_rows(REPORTS_FILE, ("number", "thread", "rule", "unseen"))}


def shown() -> Iterator[tuple[int, str]]:
    """(report, rule) of every case."""
    for case in test_dangers.CASES:
        yield from ((number, case.rule) for number in case.reports)
    for torch_case in test_torch_verdict.CASES:
        yield from ((number, torch_case.rule) for number in torch_case.reports)


def test_the_table_holds_all_reports() -> None:
    assert sorted(reports()) == list(range(1, 44))


@pytest.mark.parametrize("number", range(1, 44))
def test_a_report_has_a_test_or_says_why_a_file_cannot_show_it(number: int) -> None:
    row, rules = reports()[number], {rule for report, rule in shown() if report == number}
    if number in _UNSEEN:
        assert (row["rule"], bool(row["unseen"]), rules) == ("", True, set())
    elif number in _IN_THE_MATRIX:
        assert row["rule"] == "matrix"
        assert hasattr(test_dangers, _IN_THE_MATRIX[number])
    elif number in _BY_NAME:
        assert hasattr(test_dangers, _BY_NAME[number])
    else:
        assert rules, f"no case shows report {number}, {row['thread']}"
        assert row["rule"] in rules or number == 17  # the same thread warns of ONNX and of aten convolutions
        assert row["unseen"] == ""


def test_every_rule_has_a_case_and_a_source() -> None:
    cited = {row["rule"] for row in reports().values()}
    assert {rule.name for rule in RULES} == {rule for _, rule in shown()} | {"rocm-gone"}
    assert all(rule.name in cited or rule.extra_source for rule in RULES)


_OF_PYTORCH = ("pytorch/", "ROCm/rocm-libraries", "ROCm/MIOpen", "ROCm/aotriton", "ROCm/TheRock")
"""Whose threads name aten operators: torch and the libraries under it. onnxruntime's name ONNX's."""


@pytest.mark.parametrize(
    "number", [number for number, row in reports().items() if row["rule"] and row["thread"].startswith(_OF_PYTORCH)]
)
def test_a_report_about_pytorch_is_shown_in_a_pytorch_file(number: int) -> None:
    rules = {rule.name: rule for rule in RULES}
    torch_builds = {Target.TORCH_CUDA, Target.TORCH_ROCM}
    assert any(rules[rule].targets & torch_builds for report, rule in shown() if report == number)
