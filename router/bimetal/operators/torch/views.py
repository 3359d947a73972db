"""Shape rules of operators that only look at their input in another way, and of those that cut and join."""

from collections.abc import Callable, Sequence

from bimetal.operators.sizes import ANY, UNKNOWN, Dim, Size, Sizes, assumed, combined
from bimetal.operators.torch.value import Arguments, Value, sizes_of, values

_MOST_PIECES = 4096  # a hostile file could ask for any number


def _view(a: Arguments) -> Sizes:
    wanted = a["size"]
    if isinstance(wanted, Sizes):
        return wanted
    sizes = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    if -1 in sizes:
        here = sizes.index(-1)
        others = [size for axis, size in enumerate(sizes) if axis != here]
        sizes[here] = _rest(sizes_of(a), others)
    return Sizes(tuple(sizes))


def _rest(whole: Sizes, others: Sequence[Size]) -> Size:
    """The size that -1 stands for: all elements over those of the other axes."""
    left = list(whole.known)
    remaining: Size = 1
    for size in others:
        if size in left:
            left.remove(size)
        else:
            remaining = combined("*", remaining, size)
    elements: Size = 1
    for size in left:
        elements = combined("*", elements, size)
    result = combined("//", elements, remaining)
    return Dim(None, max(1, assumed(result))) if whole.leading else result


def _flatten(a: Arguments) -> Sizes:
    sizes = sizes_of(a)
    start, end = a.get("start_dim", 0), a.get("end_dim", -1)
    if sizes.leading and start >= 0:
        # Axes before `start` stay: they are counted as one, and so are those of the unknown ones that are merged.
        return Sizes((*[UNKNOWN] * start, Dim(None, max(1, sizes.elements)))) if end == -1 else ANY
    first, last = sizes.axis(start), sizes.axis(end)
    if first is None or last is None:
        return Sizes((1,)) if sizes == Sizes() else ANY
    first, last = first + len(sizes), last + len(sizes)
    merged: Size = 1
    for size in sizes.known[first : last + 1]:
        merged = combined("*", merged, size)
    return Sizes((*sizes.known[:first], merged, *sizes.known[last + 1 :]), sizes.leading)


def _unflatten(a: Arguments) -> Sizes:
    sizes, axis = sizes_of(a), sizes_of(a).axis(a["dim"])
    assert axis is not None
    position = len(sizes) + axis
    inner = _view({"self": Value("", Sizes((sizes.known[position],))), "size": a["sizes"]})
    return Sizes((*sizes.known[:position], *inner.known, *sizes.known[position + 1 :]), sizes.leading)


def _transpose(a: Arguments) -> Sizes:
    return swapped(sizes_of(a), a["dim0"], a["dim1"])


def swapped(sizes: Sizes, first: int, second: int) -> Sizes:
    """The shape with two axes exchanged; all is open where one is not among the known sizes."""
    return sizes.with_size(first, sizes.at(second)).with_size(second, sizes.at(first))


def _permute(a: Arguments) -> Sizes:
    sizes = sizes_of(a)
    if sizes.leading:
        return Sizes((UNKNOWN,) * len(a["dims"]))
    return Sizes(tuple(sizes.at(axis) for axis in a["dims"]))


def _squeeze(a: Arguments) -> Sizes:
    sizes = sizes_of(a)
    dims = a.get("dim")
    if dims is None:
        return ANY if sizes.leading else Sizes(tuple(size for size in sizes.known if size != 1))
    for axis in sorted(dims if isinstance(dims, list | tuple) else [dims], reverse=True):
        if sizes.at(axis) == 1:
            sizes = sizes.without(axis)
        elif isinstance(sizes.at(axis), Dim):
            return ANY
    return sizes


def _unsqueeze(a: Arguments) -> Sizes:
    sizes, axis = sizes_of(a), a["dim"]
    position = axis if axis >= 0 else len(sizes) + 1 + axis
    if (sizes.leading and axis >= 0) or not 0 <= position <= len(sizes):
        return ANY
    return Sizes((*sizes.known[:position], 1, *sizes.known[position:]), sizes.leading)


def _expand(a: Arguments) -> Sizes:
    wanted, sizes = a["size"], sizes_of(a)
    if isinstance(wanted, Sizes):
        return wanted
    axes = range(-len(wanted), 0)
    return Sizes(tuple(sizes.at(axis) if size == -1 else size for axis, size in zip(axes, wanted, strict=True)))


def _repeat(a: Arguments) -> Sizes:
    repeats, sizes = a["repeats"], sizes_of(a)
    padded = [*[1] * (len(repeats) - len(sizes)), *sizes.known]
    return Sizes(tuple(combined("*", size, times) for size, times in zip(padded, repeats, strict=True)))


def _slice(a: Arguments) -> Sizes:
    sizes, axis = sizes_of(a), a.get("dim", 0)
    size, start, end, step = sizes.at(axis), a.get("start"), a.get("end"), a.get("step", 1)
    start = 0 if start is None else start
    if start == 0 and step == 1 and (end is None or (isinstance(end, int) and end >= 2**62)):
        return sizes
    whole = [size, start, size if end is None else end, step]
    if all(isinstance(each, int) for each in whole):
        return sizes.with_size(axis, len(range(*slice(start, end, step).indices(int(assumed(size))))))
    end = size if end is None or (isinstance(end, int) and end >= 2**62) else end
    # An open size at which a slice ends is taken as it is written: a file rarely slices past the end.
    from_end = combined("+", size, end) if isinstance(end, int) and end < 0 else end
    return sizes.with_size(axis, combined("//", combined("-", from_end, start), step))


def _select(a: Arguments) -> Sizes:
    return sizes_of(a).without(a["dim"])


def _narrow(a: Arguments) -> Sizes:
    return sizes_of(a).with_size(a["dim"], a["length"])


def _cat(a: Arguments) -> Sizes:
    tensors, axis = [value.sizes for value in values(a["tensors"])], a.get("dim", 0)
    total: Size = 0
    for sizes in tensors:
        total = combined("+", total, sizes.at(axis))
    return tensors[0].with_size(axis, total)


def _stack(a: Arguments) -> Sizes:
    tensors = a["tensors"]
    return _unsqueeze({"self": tensors[0], "dim": a.get("dim", 0)}).with_size(a.get("dim", 0), len(tensors))


def _chunk(a: Arguments) -> list[Sizes]:
    sizes, axis, count = sizes_of(a), a.get("dim", 0), a["chunks"]
    size = sizes.at(axis)
    if not isinstance(size, int):
        return [sizes.with_size(axis, combined("//", size, count))] * min(count, _MOST_PIECES)
    return _pieces(sizes, axis, -(-size // count))


def _split(a: Arguments) -> list[Sizes]:
    sizes, axis, each = sizes_of(a), a.get("dim", 0), a["split_size"]
    if isinstance(each, list | tuple):
        return [sizes.with_size(axis, size) for size in each[:_MOST_PIECES]]
    return _pieces(sizes, axis, each)


def _pieces(sizes: Sizes, axis: int, each: int) -> list[Sizes]:
    size = sizes.at(axis)
    if not isinstance(size, int) or size > each * _MOST_PIECES:
        raise ValueError("the number of pieces is not known")
    return [sizes.with_size(axis, min(each, size - start)) for start in range(0, size, each)]


def _unbind(a: Arguments) -> list[Sizes]:
    sizes, axis = sizes_of(a), a.get("dim", 0)
    return [piece.without(axis) for piece in _pieces(sizes, axis, 1)]


VIEWS: dict[str, Callable[[Arguments], Sizes | list[Sizes]]] = {
    **dict.fromkeys(("view", "reshape", "_unsafe_view"), _view),
    **dict.fromkeys(("split", "split_with_sizes", "unsafe_split"), _split),
    **dict.fromkeys(("chunk", "unsafe_chunk"), _chunk),
    **dict.fromkeys(("transpose", "swapaxes"), _transpose),
    **dict.fromkeys(("cat", "concat"), _cat),
    "expand": _expand,
    "flatten": _flatten,
    "narrow": _narrow,
    "permute": _permute,
    "repeat": _repeat,
    "select": _select,
    "slice": _slice,
    "squeeze": _squeeze,
    "stack": _stack,
    "unbind": _unbind,
    "unflatten": _unflatten,
    "unsqueeze": _unsqueeze,
}
