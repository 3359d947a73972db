"""Which of a node's types its kernels are chosen by."""

import pytest

from bimetal.operators.onnx.main_type import main_type


@pytest.mark.parametrize(
    ("operator", "version", "inputs", "outputs", "expected"),
    [
        ("Add", 14, ["fp16", "fp16"], ["fp16"], "fp16"),
        ("Gather", 13, ["fp16", "int64"], ["fp16"], "fp16"),
        ("Where", 16, ["bool", "bf16", "bf16"], ["bf16"], "bf16"),
        ("ReduceMax", 20, ["bool", "int64"], ["bool"], "bool"),
        ("Cast", 13, ["int32"], ["fp16"], "int32"),
        ("Cast", 19, ["fp32"], ["fp8e4m3fn"], "fp8e4m3fn"),
        ("DequantizeLinear", 21, ["int8", "fp32", "int8"], ["fp32"], "int8"),
        ("QuantizeLinear", 21, ["fp32", "fp32", "int4"], ["int4"], "int4"),
        ("Resize", 13, ["fp16", None, "fp32"], ["fp16"], "fp16"),
        ("Concat", 13, ["fp16", "fp16", "fp16"], ["fp16"], "fp16"),
        ("Constant", 13, [], ["int64"], "int64"),
        ("Relu", 14, [None], [None], None),
    ],
)
def test_onnx_operators(
    operator: str, version: int, inputs: list[str | None], outputs: list[str | None], expected: str | None
) -> None:
    assert main_type("ai.onnx", operator, version, inputs, outputs) == expected


def test_an_operator_that_onnx_does_not_define_has_the_type_of_its_first_input() -> None:
    assert main_type("com.microsoft", "Attention", 1, ["fp16", "int32"], ["fp16"]) == "fp16"
