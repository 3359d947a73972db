"""Which cases there are, what they are about, and what is made of them."""

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from bimetal.verify.cases import Case, Variant, by_variant
from bimetal.verify.comparison import difference
from bimetal.verify.variants import derived_cases, extremes, half_precision_twins, older_versions

MakeCase = Callable[..., Case]
Cases = Callable[..., list[Case]]


def test_every_case_is_of_one_operator_and_no_function_body(every_case: Sequence[Case]) -> None:
    assert len(every_case) > 1000
    assert {len(case.proto.graph.node) for case in every_case} == {1}
    assert len({case.variant.operator for case in every_case}) >= 190
    assert not [case.name for case in every_case if "expanded" in case.name]


def test_variants_tell_types_apart(cases_of: Cases) -> None:
    assert {variant.type for variant in by_variant(cases_of("Max"))} >= {"fp16", "fp32", "fp64", "int32", "uint8"}
    assert {variant.type for variant in by_variant(cases_of("Where"))} == {"fp32", "int64"}  # never bool


def test_the_extremes_are_the_smallest_and_the_largest_input(cases_of: Cases) -> None:
    cases = cases_of("Softmax")
    sizes = [case.elements for case in cases]
    assert [case.elements for case in extremes(cases)] == [min(sizes), max(sizes)]
    assert len(extremes(cases_of("Mish"))) == 1


def test_a_zero_sized_input_counts_as_nothing(make_case: MakeCase) -> None:
    empty = np.zeros((0, 3), np.float32)
    case = make_case(helper.make_node("Relu", ["x"], ["y"]), {"x": empty}, {"y": empty}, 14, "empty")
    assert (case.elements, case.bytes) == (0, 0)


def test_a_half_precision_twin_has_rounded_inputs_and_expects_what_follows_from_them(make_case: MakeCase) -> None:
    x = np.array([0.9999, 0.999, -3], np.float32)  # in fp16 the first is 1, in bf16 the second is, too
    case = make_case(helper.make_node("Floor", ["x"], ["y"]), {"x": x}, {"y": np.floor(x)}, 13, "floor")
    twins = {twin.variant.type: twin for twin in half_precision_twins(case)}
    assert set(twins) == {"fp16", "bf16"}
    assert twins["fp16"].outputs[0].dtype == np.float16
    assert twins["bf16"].inputs[0].dtype == ml_dtypes.bfloat16
    assert twins["fp16"].outputs[0].tolist() == [1, 0, -3]
    assert twins["bf16"].outputs[0].tolist() == [1, 1, -3]


def test_inputs_that_must_stay_fp32_do(cases_of: Cases) -> None:
    resize = next(case for case in cases_of("Resize") if case.name == "test_resize_upsample_scales_nearest")
    twin = next(iter(half_precision_twins(resize)))
    types = [value.type.tensor_type.elem_type for value in twin.proto.graph.input]
    assert types == [onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT]  # X in half, scales are always fp32


def test_what_takes_no_half_precision_or_has_no_fixed_values_gets_no_twin(cases_of: Cases) -> None:
    for operator in ("NonMaxSuppression", "Bernoulli"):
        assert not [twin for case in cases_of(operator) for twin in half_precision_twins(case)]


def test_an_older_version_is_derived_only_where_it_means_the_same(cases_of: Cases) -> None:
    def versions(operator: str) -> set[int]:
        return {old.variant.version for case in cases_of(operator) for old in older_versions(case)}

    assert versions("Softplus") == {1}
    assert versions("Softmax") == set()  # before 13 the default axis and what it meant were others
    assert versions("Add") == {7, 13}  # 6 has other attributes and ends before onnxruntime's kernels begin
    assert versions("Mod") == set()  # 28 widened what the same attributes mean


def test_a_case_that_uses_what_came_later_is_not_derived(cases_of: Cases) -> None:
    axes = next(case for case in cases_of("Pad") if len(case.node.input) == 4)
    assert {old.variant.version for old in older_versions(axes)} <= {18, 19, 21, 23, 24}


def test_derived_variants_never_replace_those_of_onnx(cases_of: Cases) -> None:
    own = by_variant(cases_of("Max"))
    derived = derived_cases(own)
    assert not set(own) & set(derived)
    assert Variant("ai.onnx", "Max", 12, "fp16") in derived


@pytest.mark.parametrize(
    ("got", "wanted", "said"),
    [
        (np.array([1, 2], np.float32), np.array([1, 2], np.float32), None),
        (np.array([1, np.nan, np.inf], np.float32), np.array([1, np.nan, np.inf], np.float32), None),
        (np.array([1000, 1e-4], np.float32), np.array([1000, 0], np.float32), None),  # a rounding of the largest value
        (np.array([1000, 1], np.float32), np.array([1000, 0], np.float32), "1 of 2 values: 1.0 at (1,); expected 0.0"),
        (np.array([1, 2], np.float32), np.array([1, 3], np.float32), "1 of 2 values: 2.0 at (1,); expected 3.0"),
        (np.array([1], np.float32), np.array([np.nan], np.float32), "1 of 1 values: 1.0 at (0,); expected nan"),
        (np.array([0.3984], np.float16), np.array([0.398], np.float16), None),  # two steps of the type
        (np.array([0.4], np.float16), np.array([0.38], np.float16), "1 of 1 values"),
        (np.array([1], np.int64), np.array([2], np.int64), "1 of 1 values: 1 at (0,); expected 2"),
        (np.array([1], np.float64), np.array([1], np.float32), "type float64; expected float32"),
        (np.array([[1]], np.float32), np.array([1], np.float32), "shape (1, 1); expected (1,)"),
        (np.array(["a"], object), np.array(["b"], object), "other strings than expected"),
        (
            [np.array([1], np.float32)],
            [np.array([1], np.float32), np.array([2], np.float32)],
            "expected a sequence of 2",
        ),
        ([np.array([1], np.float32)], [np.array([2], np.float32)], "1 of 1 values"),
        (None, np.array([1], np.float32), "None; expected"),
        (None, None, None),
    ],
)
def test_what_came_out_is_held_against_what_must_come_out(got: Any, wanted: Any, said: str | None) -> None:
    case = Case("case", b"", (), (wanted,), rtol=1e-3, atol=1e-7)
    found = difference(case, [got])
    if said is None:
        assert found is None
    else:
        assert found is not None
        assert said in found


def test_random_operators_are_held_against_types_and_shapes_only(cases_of: Cases) -> None:
    bernoulli = cases_of("Bernoulli")[0]
    drawn = [np.ones_like(value) for value in bernoulli.outputs]
    assert difference(bernoulli, drawn) is None
    assert difference(bernoulli, [value[:1] for value in drawn]) is not None


def test_a_missing_output_is_said() -> None:
    assert difference(Case("case", b"", (), (1, 2), 0, 0), [1]) == "1 outputs; expected 2"
