"""Reads the pickles of a TorchScript archive as data: what they would build is described, and nothing is built.

No pickle machine runs here. `pickletools` splits the bytes into opcodes, and the few of them that TorchScript
writes move plain values: a class is its name, a call that name with its arguments.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from bimetal.operators.errors import ModelFileError
from bimetal.operators.torch.value import of_storage

_OPCODE_LIMIT = 2_000_000


@dataclass(frozen=True)
class Reference:
    """A class or function that the pickle names."""

    name: str


@dataclass(frozen=True)
class Call:
    """A function that the pickle would call; nothing calls it."""

    function: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Storage:
    """Where a tensor's numbers lie: the key of the member, and the type by torch's name."""

    type: str
    key: str


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of the archive: element type, sizes, and where its numbers are."""

    type: str | None
    sizes: tuple[int, ...]
    key: str


@dataclass(eq=False)
class Thing:
    """An object of a class of the archive's code; `state` are its attributes."""

    class_name: str
    state: dict[str, Any] = field(default_factory=dict)


def read_pickle(file: str, data: bytes) -> Any:
    """What the pickle describes: numbers, texts, lists, dictionaries, tensors (without their numbers) and things.

    Raises:
        ModelFileError: it is cut short, or has opcodes that TorchScript does not write.
    """
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(BytesIO(data))):
            machine.step("too many opcodes" if count > _OPCODE_LIMIT else opcode.name, argument)
        return machine.result()
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as exc:
        raise ModelFileError(
            f"{file}: the pickle cannot be followed ({type(exc).__name__}: {exc}).",
            "Save the model again with torch.jit.save.",
        ) from exc


_MARK = object()


class _Machine:
    """A stack of plain values."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def result(self) -> Any:
        return self._stack[-1]

    def step(self, name: str, argument: Any) -> None:
        if name in _VALUES:
            self._stack.append(argument)
        elif name in _MADE:
            self._stack.append(_MADE[name]())
        elif name in _STEPS:
            _STEPS[name](self, argument)
        elif name not in {"PROTO", "STOP"}:
            raise ValueError(f"opcode {name} is none that TorchScript writes")

    def put(self, key: int) -> None:
        self._memo[key] = self._stack[-1]

    def get(self, key: int) -> None:
        self._stack.append(self._memo[key])

    def name(self, text: str) -> None:
        self._stack.append(Reference(text.replace(" ", ".")))

    def tuple_of(self, count: int) -> None:
        self._stack[-count:] = [tuple(self._stack[-count:])]

    def tuple_since_mark(self, _: Any) -> None:
        self._stack.append(tuple(self._since_mark()))

    def append(self, _: Any) -> None:
        value = self._stack.pop()
        self._stack[-1].append(value)

    def append_all(self, _: Any) -> None:
        values = self._since_mark()
        self._stack[-1].extend(values)

    def set_all(self, _: Any) -> None:
        values = self._since_mark()
        self._stack[-1].update(zip(map(_key, values[::2]), values[1::2], strict=True))

    def set_one(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._stack[-1][_key(key)] = value

    def call(self, _: Any) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        self._stack.append(_called(function, arguments))

    def give_state(self, _: Any) -> None:
        state = self._stack.pop()
        if isinstance(self._stack[-1], Thing):
            self._stack[-1].state = state if isinstance(state, dict) else {"state": state}

    def storage(self, _: Any) -> None:
        """("storage", class, key, device, number of elements)."""
        reference = self._stack.pop()
        self._stack.append(Storage(reference[1].name.rpartition(".")[2], str(reference[2])))

    def _since_mark(self) -> list[Any]:
        position = len(self._stack) - 1
        while self._stack[position] is not _MARK:
            position -= 1
            if position < 0:
                raise ValueError("a mark is missing")
        values = self._stack[position + 1 :]
        del self._stack[position:]
        return values


_VALUES = frozenset(["BINUNICODE", "SHORT_BINSTRING", "BINSTRING", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"])
_MADE: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "MARK": lambda: _MARK,
}


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _Machine.put),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _Machine.get),
    **dict.fromkeys(("REDUCE", "NEWOBJ"), _Machine.call),
    "GLOBAL": _Machine.name,
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "TUPLE": _Machine.tuple_since_mark,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.append_all,
    "SETITEM": _Machine.set_one,
    "SETITEMS": _Machine.set_all,
    "BUILD": _Machine.give_state,
    "BINPERSID": _Machine.storage,
}


def _key(value: Any) -> str | int | float:
    if not isinstance(value, str | int | float):
        raise TypeError(f"a dictionary's key is a {type(value).__name__}")
    return value


def _called(function: Any, arguments: Any) -> Any:
    name = function.name
    if name.startswith(("torch._utils._rebuild_tensor", "torch._utils._rebuild_qtensor")):
        storage, sizes = arguments[0], arguments[2]
        if not all(isinstance(size, int) and size >= 0 for size in sizes):
            raise ValueError(f"a tensor has sizes {sizes!r}")
        return StoredTensor(of_storage(storage.type), tuple(sizes), storage.key)
    if name in {"torch._utils._rebuild_parameter", "torch.jit._pickle.restore_type_tag"}:
        return arguments[0]
    if name.startswith("torch.jit._pickle.build_"):  # lists of one type
        return list(arguments[0])
    return Thing(name) if name.startswith("__torch__.") else Call(name, tuple(arguments))
