"""Is what came out what must come out?

ONNX's tolerances (1e-3 of each value) are kept, and widened where they ask for more digits than
the type has: to 8 roundings of the largest value expected, since a sum's error grows with its terms.
"""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from bimetal.verify.cases import Case, Value

Array = np.ndarray[Any, Any]

_FLOATS = ("float", "bfloat")
_ROUNDINGS = 8


def difference(case: Case, actual: Sequence[Value]) -> str | None:
    """What is wrong with the first wrong output, in words; None when all are right."""
    if len(actual) != len(case.outputs):
        return f"{len(actual)} outputs; expected {len(case.outputs)}"
    for position, (got, wanted) in enumerate(zip(actual, case.outputs, strict=True)):
        wrong = _value_difference(case, got, wanted)
        if wrong is not None:
            return f"output {position}: {wrong}"
    return None


def _value_difference(case: Case, got: Value, wanted: Value) -> str | None:
    if isinstance(wanted, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(wanted):
            return f"{got!r:.60}; expected a sequence of {len(wanted)}"
        pairs = zip(got, wanted, strict=True)
        return next((wrong for pair in pairs if (wrong := _value_difference(case, *pair)) is not None), None)
    if wanted is None or got is None:
        return None if got is wanted else f"{got!r:.60}; expected {wanted!r:.60}"
    return _array_difference(case, np.asarray(got), np.asarray(wanted))


def _array_difference(case: Case, got: Array, wanted: Array) -> str | None:
    if got.shape != wanted.shape:
        return f"shape {got.shape}; expected {wanted.shape}"
    if wanted.dtype.kind in "OUS":
        return None if (got.astype(str) == wanted.astype(str)).all() else "other strings than expected"
    if got.dtype != wanted.dtype:
        return f"type {got.dtype}; expected {wanted.dtype}"
    if not case.compare_values:
        return None
    exact = not wanted.dtype.name.startswith(_FLOATS) or wanted.dtype.itemsize == 1
    if exact:
        both_nan = _is_nan(got) & _is_nan(wanted)
        wrong = np.asarray(got != wanted) & ~both_nan
    else:
        error = _ROUNDINGS * float(ml_dtypes.finfo(wanted.dtype).eps)  # type: ignore[no-untyped-call]  # ml_dtypes has none
        rtol, atol = max(case.rtol, error), max(case.atol, error * _largest(wanted))
        wrong = ~np.isclose(got.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True)
    if not wrong.any():
        return None
    first = tuple(int(index) for index in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} values: {got[first]} at {first}; expected {wanted[first]}"


def _is_nan(values: Array) -> Array:
    """numpy's own isnan knows no 8-bit floats."""
    return np.isnan(values.astype(np.float64))


def _largest(values: Array) -> float:
    """The largest finite magnitude."""
    numbers = np.abs(values.astype(np.float64))
    return float(np.max(numbers, initial=0.0, where=np.isfinite(numbers)))
