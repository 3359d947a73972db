"""Which element type an operator is run in: the one that its kernels are chosen by."""

from collections.abc import Sequence
from functools import cache

import onnx

_RARE = ("fp8", "fp4", "int4", "uint4", "int2", "uint2")


def main_type(
    domain: str, operator: str, version: int, inputs: Sequence[str | None], outputs: Sequence[str | None]
) -> str | None:
    """The operator's main element type, such as fp16; None where it is not known.

    That of the first input whose type ONNX leaves most open: a Gather of fp16 values by int64
    indices is an fp16 operator, as is a Where of a bool and two fp16 tensors. Without inputs it is
    the outputs' type. An 8-bit float or a number of less than 8 bits comes first wherever it stands,
    such as in a Cast from fp32: few kernels have these types.

    Args:
        inputs: the names of the inputs' element types; None for one that is left out or no tensor.
        outputs: the same of the outputs.
    """
    rare = next((name for name in (*inputs, *outputs) if name and name.startswith(_RARE)), None)
    if rare is not None:
        return rare
    in_freedom, out_freedom = _freedoms(domain, operator, version)
    return _freest(inputs, in_freedom) or _freest(outputs, out_freedom)


def _freest(types: Sequence[str | None], freedom: Sequence[int]) -> str | None:
    """The last freedom repeats: a variadic formal stands last."""
    known = [(freedom[min(i, len(freedom) - 1)] if freedom else 0, name) for i, name in enumerate(types) if name]
    return max(known, key=lambda pair: pair[0])[1] if known else None


@cache
def _freedoms(domain: str, operator: str, version: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many types each formal input and output may have; empty where ONNX does not know the operator."""
    try:
        schema = onnx.defs.get_schema(operator, version, "" if domain == "ai.onnx" else domain)
    except onnx.defs.SchemaError:
        return (), ()
    inputs = tuple(len(formal.types) for formal in schema.inputs)
    return inputs, tuple(len(formal.types) for formal in schema.outputs)
