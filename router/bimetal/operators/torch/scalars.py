"""What TorchScript computes beside tensors: sizes, comparisons, lists. Open sizes stay open."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bimetal.operators.sizes import UNKNOWN, Dim, Sizes, combined
from bimetal.operators.torch.value import Value

_LONGEST_LIST = 100_000
_LARGEST = 2**63


class Unknown:
    """A value that the file does not tell."""

    def __repr__(self) -> str:
        return "unknown"


NOT_TOLD = Unknown()
NO_SCALAR = object()
"""The answer of `scalar` for an operator that makes a tensor."""


def scalar(name: str, arguments: Sequence[Any]) -> Any:
    """The result of an operator on plain values, or what it asks about a tensor; else NO_SCALAR."""
    first = arguments[0] if arguments else None
    if name in {"__is__", "__isnot__"}:
        return _answer(_identity, [name == "__is__", *arguments])
    if isinstance(first, Value) and name in _ABOUT_TENSORS:
        return _answer(_ABOUT_TENSORS[name], arguments)
    if name in {"NumToTensor", "unchecked_cast", "annotate"}:
        return arguments[-1]
    plain = [value.number if isinstance(value, Value) and value.number is not None else value for value in arguments]
    if name not in _PLAIN or any(isinstance(value, Value) for value in plain):
        return NO_SCALAR
    return _answer(_PLAIN[name], plain)


def _answer(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    try:
        return function(*arguments)
    except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, OverflowError):
        return NOT_TOLD  # open sizes, or what is no call of this operator


def _identity(same: bool, left: Any, right: Any) -> Any:
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return NOT_TOLD
    return (left is right) is same


def size_of(value: Value, axis: Any = None) -> Any:
    """One size, or all: a list, or the Sizes themselves where their number is open."""
    if axis is None:
        return value.sizes if value.sizes.leading else list(value.sizes.known)
    return value.sizes.at(axis) if isinstance(axis, int) else UNKNOWN


_FLOATING = frozenset(["fp16", "bf16", "fp32", "fp64"])


def _is_floating(value: Value) -> Any:
    return NOT_TOLD if value.type is None else value.type in _FLOATING


def _number(value: Value) -> Any:
    return UNKNOWN if value.number is None else value.number


def _either(value: Any) -> Callable[..., Any]:
    return lambda *_: value


_ABOUT_TENSORS: Mapping[str, Callable[..., Any]] = {
    "size": size_of,
    "dim": lambda value: NOT_TOLD if value.sizes.rank is None else value.sizes.rank,
    "len": lambda value: value.sizes.at(0),
    "numel": lambda value: UNKNOWN if value.sizes.leading else _elements(value.sizes),
    "dtype": lambda value: value.type or NOT_TOLD,
    "is_floating_point": _is_floating,
    "item": _number,
    "Int": _number,
    "IntImplicit": _number,
    "ScalarImplicit": _number,
    "FloatImplicit": _number,
    "Bool": _either(NOT_TOLD),
    **dict.fromkeys(("device", "layout", "is_cuda", "requires_grad", "is_quantized"), _either(NOT_TOLD)),
}


def _elements(sizes: Sizes) -> Any:
    total: Any = 1
    for size in sizes.known:
        total = combined("*", total, size)
    return total


def _arithmetic(symbol: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(left: Any, right: Any, *_: Any) -> Any:
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return NOT_TOLD
        if isinstance(left, Dim) or isinstance(right, Dim):
            if symbol and isinstance(left, int | Dim) and isinstance(right, int | Dim):
                return combined(symbol, left, right)
            return UNKNOWN
        result = function(left, right)
        too_long = isinstance(result, list | str) and len(result) > _LONGEST_LIST
        if too_long or (isinstance(result, int) and abs(result) > _LARGEST):
            return NOT_TOLD
        return result

    return apply


def _compared(function: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def apply(left: Any, right: Any) -> Any:
        flat = [left, right] if not isinstance(left, list) or not isinstance(right, list) else [*left, *right]
        if not all(isinstance(value, int | float | str) for value in flat):
            return NOT_TOLD  # open sizes, and what is nested
        if isinstance(left, str) != isinstance(right, str):
            return NOT_TOLD
        return function(left, right)

    return apply


def _not(value: Any) -> Any:
    return not value if isinstance(value, bool | int) else NOT_TOLD


def _product(left: Any, right: Any) -> Any:
    for value, times in ((left, right), (right, left)):
        if isinstance(value, list | str) and (not isinstance(times, int) or len(value) * times > _LONGEST_LIST):
            return NOT_TOLD
    return left * right


def _power(left: Any, right: Any) -> Any:
    return float(left) ** float(right)


def _item(values: Any, position: Any) -> Any:
    if isinstance(values, Sizes):
        return values.at(position)
    return values[position] if isinstance(values, list | tuple | dict) else NOT_TOLD


def _slice(values: Any, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    return values[slice(start, end, step)] if isinstance(values, list | str) else NOT_TOLD


def _append(values: Any, value: Any) -> Any:
    if isinstance(values, list) and len(values) < _LONGEST_LIST:
        values.append(value)
    return values


def _length(values: Any) -> Any:
    return len(values) if isinstance(values, list | tuple | str | dict) else NOT_TOLD


def _contains(values: Any, value: Any) -> Any:
    known = isinstance(values, list | dict) and isinstance(value, int | float | str)
    plain = known and all(isinstance(each, int | float | str) for each in values)
    return value in values if plain else NOT_TOLD


_DIVISIONS = dict.fromkeys(("floordiv", "floor_divide"), _arithmetic("//", operator.floordiv))
_PLAIN: Mapping[str, Callable[..., Any]] = {
    "add": _arithmetic("+", operator.add),
    "sub": _arithmetic("-", operator.sub),
    "mul": _arithmetic("*", _product),
    **_DIVISIONS,
    "div": _arithmetic("", operator.truediv),
    "remainder": _arithmetic("%", operator.mod),
    "pow": _arithmetic("", _power),
    "neg": lambda value: combined("-", 0, value) if isinstance(value, int | Dim) else -value,
    "eq": _compared(operator.eq),
    "ne": _compared(operator.ne),
    "lt": _compared(operator.lt),
    "le": _compared(operator.le),
    "gt": _compared(operator.gt),
    "ge": _compared(operator.ge),
    "__not__": _not,
    "__contains__": _contains,
    "__getitem__": _item,
    "append": _append,
    "ceil": lambda value: value if isinstance(value, Dim) else -(-value // 1),
    "device": _either(NOT_TOLD),
    "dict": _either(NOT_TOLD),
    "floor": lambda value: value if isinstance(value, Dim) else value // 1,
    "format": _either(""),
    "len": _length,
    "list": list,
    "max": lambda *values: max(*values) if len(values) > 1 else max(values[0]),
    "min": lambda *values: min(*values) if len(values) > 1 else min(values[0]),
    "select": _item,
    "slice": _slice,
    "sqrt": lambda value: value**0.5,
    "str": _either(""),
    "Int": lambda value: value if isinstance(value, Dim) else int(value),
    "IntImplicit": lambda value: value if isinstance(value, Dim) else int(value),
    "ScalarImplicit": lambda value: value,
    "Float": lambda value: value if isinstance(value, Dim) else float(value),
    "FloatImplicit": lambda value: value if isinstance(value, Dim) else float(value),
    "Bool": lambda value: bool(value) if isinstance(value, int | float) else NOT_TOLD,
    "warn": _either(None),
}
