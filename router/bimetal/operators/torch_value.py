"""What is known of a tensor while a PyTorch file is followed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bimetal.operators.sizes import ANY, Sizes
from bimetal.operators.tensors import Tensor

Shapes = Sizes | tuple[Sizes, ...] | list[Sizes]
"""Of a result, of several results, or of a list of tensors."""
Arguments = Mapping[str, Any]
"""A call's arguments, by name as `torch_signatures` has them; tensors as `Value`."""


@dataclass(frozen=True)
class Value:
    """A tensor: `number` is what a constant of one element holds, where that was read."""

    name: str
    sizes: Sizes = ANY
    type: str | None = None
    constant: bool = False
    number: int | float | None = None

    @property
    def tensor(self) -> Tensor:
        """As the operator graph has it."""
        return Tensor(self.name, self.type, self.sizes.shape, self.sizes.counted, self.constant)


def sizes_of(arguments: Arguments, name: str = "self") -> Sizes:
    """The shape of the tensor of that name.

    Raises:
        KeyError, TypeError: there is no such argument, or it is no tensor.
    """
    value = arguments[name]
    if not isinstance(value, Value):
        raise TypeError(f"{name} is no tensor")
    return value.sizes


def values(arguments: Any) -> list[Value]:
    """The tensors among arguments, those in lists included."""
    if isinstance(arguments, Value):
        return [arguments]
    if isinstance(arguments, Mapping):
        return [value for each in arguments.values() for value in values(each)]
    if isinstance(arguments, list | tuple):
        return [value for each in arguments for value in values(each)]
    return []
