"""What a follower of code does with values that are only partly known: unpack, decide, join two of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bimetal.operators.sizes import ANY, UNKNOWN, Dim, Sizes, joined
from bimetal.operators.torch.pickle import StoredTensor, Thing
from bimetal.operators.torch.scalars import NOT_TOLD
from bimetal.operators.torch.value import Value


@dataclass(frozen=True)
class Function:
    """A function by its name in the code."""

    name: str


@dataclass(frozen=True)
class Method:
    """A method of a module."""

    owner: Thing
    name: str


def described(value: Any, name: str) -> Any:
    """A pickled attribute as the follower has it: stored tensors become values."""
    if isinstance(value, StoredTensor):
        return Value(name, Sizes(value.sizes), value.type, constant=True)
    if isinstance(value, list | tuple):
        return [described(each, f"{name}.{position}") for position, each in enumerate(value)]
    return value


def parts_of(value: Any, count: int) -> Sequence[Any]:
    """What unpacking gives; the sizes of a tensor tell their number by it."""
    if isinstance(value, Sizes) and len(value) <= count:
        return [*[UNKNOWN] * (count - len(value)), *value.known]
    if isinstance(value, list | tuple) and len(value) == count:
        return value
    return [Value("", ANY)] * count if isinstance(value, Value) else [NOT_TOLD] * count


def truth(value: Any) -> bool | None:
    """None where it is not known."""
    return bool(value) if isinstance(value, bool | int | float) else None


def joined_values(found: Sequence[Any]) -> Any:
    """One value for what two branches leave behind."""
    first, second = found[0], found[-1]
    if first is second:
        return first
    if isinstance(first, Value) and isinstance(second, Value):
        kind = first.type if first.type == second.type else None
        # The later one's name: what reads it waits for the end of the second branch.
        return Value(second.name, joined(first.sizes, second.sizes), kind)
    if isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second):
        return tuple(joined_values(pair) for pair in zip(first, second, strict=True))
    return _joined_scalars(first, second)


def _joined_scalars(first: Any, second: Any) -> Any:
    """A tensor before none, the same number or text, else an open size or nothing that is known."""
    for value in (first, second):
        if isinstance(value, Value):
            return value
    if type(first) is type(second) and isinstance(first, bool | int | float | str) and first == second:
        return first
    return UNKNOWN if isinstance(first, int | Dim) and isinstance(second, int | Dim) else NOT_TOLD
