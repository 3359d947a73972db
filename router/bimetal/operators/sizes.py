"""Shapes of which only a part is known: sizes with names, and leading sizes whose number is open."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import add, floordiv, mod, mul, sub

ASSUMED_BATCH = 1  # for a dynamic first dimension
ASSUMED_LENGTH = 128  # for any other: tokens, pixels, samples
_LONGEST_NAME = 40  # characters; what is longer helps nobody
_LARGEST = 2**53
LEADING = "..."  # in a tensor's shape: any number of sizes, counted as one row


@dataclass(frozen=True)
class Dim:
    """A size that the file leaves open: its name, if it has one, and what it is counted as."""

    name: str | None = None
    assumed: int = 1


Size = int | Dim
UNKNOWN = Dim()


def input_size(name: str, axis: int) -> Dim:
    """An open size of an input, counted as it is in ONNX files."""
    return Dim(name, ASSUMED_BATCH if axis == 0 else ASSUMED_LENGTH)


def assumed(size: Size) -> int:
    """A size as a number: what an open one is counted as."""
    return size.assumed if isinstance(size, Dim) else size


_OPERATORS: Mapping[str, Callable[[int, int], int]] = {"+": add, "-": sub, "*": mul, "//": floordiv, "%": mod}


def combined(symbol: str, left: Size, right: Size) -> Size:
    """left + right, and -, *, // and %; UNKNOWN where that is no size."""
    try:
        value = _OPERATORS[symbol](assumed(left), assumed(right))
    except ZeroDivisionError:
        return UNKNOWN
    if abs(value) > _LARGEST:
        return UNKNOWN
    if isinstance(left, int) and isinstance(right, int):
        return value
    if right == {"+": 0, "-": 0, "*": 1, "//": 1}.get(symbol):
        return left
    if (symbol, left) in {("+", 0), ("*", 1)}:
        return right
    texts = [size.name if isinstance(size, Dim) else str(size) for size in (left, right)]
    name = None if None in texts else f"({texts[0]}{symbol}{texts[1]})"
    return Dim(name if name is not None and len(name) <= _LONGEST_NAME else None, value)


def _is_size(value: object) -> bool:
    return isinstance(value, Dim) or (isinstance(value, int) and 0 <= value <= _LARGEST)


def _counted(size: Size) -> int:
    """An open size is one at least, whatever was computed from those that were unknown."""
    return max(1, size.assumed) if isinstance(size, Dim) else size


@dataclass(frozen=True)
class Sizes:
    """The last sizes of a tensor; with `leading`, there may be others before them."""

    known: tuple[Size, ...] = ()
    leading: bool = False

    def __len__(self) -> int:
        return len(self.known)

    def checked(self) -> "Sizes":
        """With open sizes in place of what is none: code can compute anything."""
        return Sizes(tuple(size if _is_size(size) else UNKNOWN for size in self.known), self.leading)

    @property
    def rank(self) -> int | None:
        """The number of axes; None where leading sizes are open in number."""
        return None if self.leading else len(self.known)

    @property
    def elements(self) -> int:
        """With open sizes as they are counted, and the leading ones as one."""
        return prod(_counted(size) for size in self.known)

    def axis(self, axis: int) -> int | None:
        """The axis counted from the end (-1 is the last); None where it is not among the known sizes."""
        if axis >= 0:
            axis = axis - len(self.known) if not self.leading else 0
        return axis if -len(self.known) <= axis < 0 else None

    def at(self, axis: int) -> Size:
        """The size of an axis, negative ones from the end; UNKNOWN where it is not among the known."""
        found = self.axis(axis)
        return UNKNOWN if found is None else self.known[found]

    def with_size(self, axis: int, size: Size) -> "Sizes":
        """The same with another size there; all is open where the axis is not among the known sizes."""
        found = self.axis(axis)
        if found is None:
            return ANY
        position = len(self.known) + found
        return Sizes((*self.known[:position], size, *self.known[position + 1 :]), self.leading)

    def without(self, axis: int) -> "Sizes":
        """The shape without one axis; all is open where the axis is not among the known sizes."""
        found = self.axis(axis)
        if found is None:
            return ANY
        position = len(self.known) + found
        return Sizes((*self.known[:position], *self.known[position + 1 :]), self.leading)

    @property
    def shape(self) -> tuple[int | str | None, ...] | None:
        """As a tensor's shape has it; None where nothing is known."""
        if self == ANY:
            return None
        names = tuple(size.name if isinstance(size, Dim) else size for size in self.known)
        return (LEADING, *names) if self.leading else names

    @property
    def counted(self) -> tuple[int, ...] | None:
        """The same with the sizes that are counted for open ones."""
        if self == ANY:
            return None
        sizes = tuple(_counted(size) for size in self.known)
        return (1, *sizes) if self.leading else sizes


ANY = Sizes((), leading=True)
"""A tensor of which nothing is known."""


def broadcast(shapes: Sequence[Sizes]) -> Sizes:
    """The shape of an element-wise result."""
    result = Sizes()
    for shape in shapes:
        result = _broadcast(result, shape)
    return result


def _broadcast(left: Sizes, right: Sizes) -> Sizes:
    longest = max(len(left), len(right))
    sizes = [_common(_or_one(left, axis), _or_one(right, axis)) for axis in range(-longest, 0)]
    return Sizes(tuple(sizes), left.leading or right.leading)


def _or_one(shape: Sizes, axis: int) -> Size:
    """A missing size is 1; behind leading ones it may be anything, and the other tensor's is taken."""
    return shape.known[axis] if -axis <= len(shape) else 1


def _common(left: Size, right: Size) -> Size:
    if left == 1 or (isinstance(left, Dim) and isinstance(right, int) and right != 1):
        return right
    return left


def joined(left: Sizes, right: Sizes) -> Sizes:
    """What is true of both, where a file does not say which of two paths is taken."""
    if left == right:
        return left
    shared = min(len(left), len(right))
    sizes = tuple(
        a if a == b else Dim(None, max(assumed(a), assumed(b)))
        for a, b in zip(left.known[len(left) - shared :], right.known[len(right) - shared :], strict=True)
    )
    return Sizes(sizes, left.leading or right.leading or len(left) != len(right))
