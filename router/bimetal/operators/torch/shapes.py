"""Shapes and types of aten operators' results, from what is known of their arguments."""

from collections.abc import Callable

from bimetal.operators.graph import BITS
from bimetal.operators.sizes import ANY, UNKNOWN, Dim, Size, Sizes, broadcast, combined
from bimetal.operators.torch.value import Arguments, Shapes, Value, of_script, promoted, sizes_of, values
from bimetal.operators.torch.views import VIEWS, swapped
from bimetal.operators.torch.windows import WINDOWS


def shapes(operator: str, arguments: Arguments) -> Shapes:
    """The shapes of an operator's results."""
    rule = _RULES.get(operator)
    if rule is None:
        return ANY
    try:
        found = rule(arguments)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, AssertionError):
        return ANY  # an argument that is not what the operator takes, or is not known
    if isinstance(found, Sizes):
        return found.checked()
    return type(found)(each.checked() for each in found)


def _first(a: Arguments) -> Sizes:
    return values(a)[0].sizes


def _elementwise(a: Arguments) -> Sizes:
    return broadcast([value.sizes for value in values(a)]) if values(a) else ANY


def _linear(a: Arguments) -> Sizes:
    x, weight = values(a)[:2]
    return Sizes((*_but(x.sizes, 1).known, weight.sizes.at(0)), x.sizes.leading)


def _but(sizes: Sizes, last: int) -> Sizes:
    """The shape without its last sizes."""
    return Sizes(sizes.known[: max(0, len(sizes) - last)], sizes.leading)


def _matmul(a: Arguments) -> Sizes:
    return product(*(value.sizes for value in values(a)[:2]))


def product(left: Sizes, right: Sizes) -> Sizes:
    """torch.matmul: the last two axes multiply, those before them broadcast."""
    if right.rank == 1:
        return _but(left, 1)
    if left.rank == 1:
        return Sizes((*_but(right, 2).known, right.at(-1)), right.leading)
    rows = broadcast([_but(left, 2), _but(right, 2)])
    return Sizes((*rows.known, left.at(-2), right.at(-1)), rows.leading)


def _added_product(a: Arguments) -> Sizes:
    return product(*(value.sizes for value in values(a)[1:3]))


def _embedding(a: Arguments) -> Sizes:
    indices = sizes_of(a, "indices")
    return Sizes((*indices.known, sizes_of(a, "weight").at(-1)), indices.leading)


def _attention(a: Arguments) -> Sizes:
    query, value = sizes_of(a, "query"), sizes_of(a, "value")
    return query.with_size(-1, value.at(-1))


def _extreme(a: Arguments) -> Shapes:
    """max and min: of two tensors, of all elements, or along an axis with the positions."""
    if isinstance(a.get("dim"), Value):
        return _elementwise(a)
    reduced = _reduction(a)
    return reduced if a.get("dim") is None else (reduced, reduced)


def _topk(a: Arguments) -> tuple[Sizes, Sizes]:
    sizes = sizes_of(a).with_size(a.get("dim", -1), a["k"])
    return sizes, sizes


def _gather(a: Arguments) -> Sizes:
    return sizes_of(a, "index")


def _index_select(a: Arguments) -> Sizes:
    return sizes_of(a).with_size(a["dim"], sizes_of(a, "index").at(-1))


def _glu(a: Arguments) -> Sizes:
    sizes, axis = sizes_of(a), a.get("dim", -1)
    return sizes.with_size(axis, combined("//", sizes.at(axis), 2))


def _recurrent(states: int) -> Callable[[Arguments], tuple[Sizes, ...]]:
    def rule(a: Arguments) -> tuple[Sizes, ...]:
        x, hidden = sizes_of(a, "input"), a["hx"]
        state = (hidden[0] if isinstance(hidden, list | tuple) else hidden).sizes
        width = combined("*", state.at(-1), 2 if a["bidirectional"] else 1)
        return (x.with_size(-1, width), *[state] * states)

    return rule


def _arange(a: Arguments) -> Sizes:
    bounds = [a[key] for key in sorted(a) if key.isdecimal()]
    if len(bounds) == 1:
        return Sizes((bounds[0],)) if isinstance(bounds[0], int | Dim) else Sizes((UNKNOWN,))
    return Sizes((combined("-", bounds[1], bounds[0]),)) if len(bounds) == 2 else Sizes((UNKNOWN,))


def _einsum(a: Arguments) -> Sizes:
    terms, _, result = a["equation"].replace(" ", "").partition("->")
    if "." in terms or not result:
        return ANY
    sizes: dict[str, Size] = {}
    for term, value in zip(terms.split(","), a["tensors"], strict=True):
        sizes |= {letter: value.sizes.at(axis) for axis, letter in zip(range(-len(term), 0), term, strict=True)}
    return Sizes(tuple(sizes[letter] for letter in result))


def _normalised(a: Arguments) -> tuple[Sizes, Sizes, Sizes]:
    return _first(a), ANY, ANY


def _with_weights(a: Arguments) -> tuple[Sizes, Sizes]:
    """Attention's result, and its weights."""
    return _first(a), ANY


def _reduction(a: Arguments) -> Sizes:
    sizes, dims, keep = sizes_of(a), a.get("dim"), a.get("keepdim") is True
    if dims is None or dims == []:
        return ANY if keep and sizes.leading else Sizes((1,) * len(sizes) if keep else ())
    axes = [sizes.axis(axis) for axis in (dims if isinstance(dims, list | tuple) else [dims])]
    if None in axes:
        return ANY
    kept = [(axis, size) for axis, size in zip(range(-len(sizes), 0), sizes.known, strict=True)]
    return Sizes(tuple(1 if axis in axes else size for axis, size in kept if keep or axis not in axes), sizes.leading)


def _filled(a: Arguments) -> Sizes:
    size = a["size"]
    return Sizes(tuple(size) if isinstance(size, list | tuple) else (size,))


_COMPARISONS = "all any eq ge gt isinf isnan le logical_and logical_not logical_or logical_xor lt ne"
_TYPE_OF = {
    **dict.fromkeys(_COMPARISONS.split(), "bool"),
    **dict.fromkeys(("argmax", "argmin", "long"), "int64"),
    "bfloat16": "bf16",
    "bool": "bool",
    "double": "fp64",
    "float": "fp32",
    "half": "fp16",
}
"""Operators whose results always have one type."""
_OF_FIRST = frozenset(["embedding", "gather", "index", "index_select", "masked_fill", "scatter", "topk", "zeros_like"])


def result_type(operator: str, a: Arguments) -> str | None:
    """The element type of an operator's first result; None where it is not known."""
    certain = _TYPE_OF.get(operator) or _asked_type(operator, a)
    if certain is not None:
        return certain
    tensors = values(a)
    if not tensors:
        return "int64" if operator == "arange" else "fp32"
    if operator in {"to", "type_as"} or operator in _OF_FIRST:
        return tensors[0 if operator in _OF_FIRST else -1].type
    # A tensor without axes gives its type only where all are such.
    larger = [value for value in tensors if value.sizes != Sizes()]
    return promoted([value.type for value in larger or tensors])


def _asked_type(operator: str, a: Arguments) -> str | None:
    """The dtype among the arguments: a number of c10::ScalarType, or a name that was taken from a tensor."""
    wanted = [a.get("dtype")]
    if operator == "to":
        wanted += [value for key, value in a.items() if key != "self"]
    for each in wanted:
        found = each if isinstance(each, str) and each in BITS else of_script(each)
        if found is not None:
            return found
    return None


_ELEMENTWISE = (
    "abs add addcdiv addcmul bitwise_and bitwise_not bitwise_or ceil clamp clamp_max clamp_min cos div elu eq erf exp "
    "floor floor_divide fmod ge gt hardsigmoid hardswish hardtanh isinf isnan le leaky_relu lerp log log1p logical_and "
    "logical_not logical_or logical_xor lt masked_fill maximum minimum mish mul ne neg pow prelu reciprocal relu relu6 "
    "remainder round rsqrt rsub selu sigmoid sign silu sin softplus sqrt square sub tan tanh true_divide where"
)
_SAME = (
    "alias bernoulli clone contiguous copy cpu cuda cumsum detach dropout expm1 feature_dropout fill float gelu "
    "group_norm half instance_norm layer_norm batch_norm rms_norm lift_fresh log_softmax long softmax to tril triu "
    "type_as zeros_like ones_like empty_like full_like rand_like randn_like zero _softmax _log_softmax flip roll "
    "_to_copy celu logsigmoid hardshrink softsign normal_ uniform index_copy index_put index_fill scatter "
    "masked_scatter _transformer_encoder_layer_fwd"
)
_RULES: dict[str, Callable[[Arguments], Shapes]] = {
    **VIEWS,
    **WINDOWS,
    **dict.fromkeys(_ELEMENTWISE.split(), _elementwise),
    **dict.fromkeys(_SAME.split(), _first),
    **dict.fromkeys(("mm", "bmm", "matmul"), _matmul),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm"), _added_product),
    **dict.fromkeys(("mean", "sum", "amax", "amin", "argmax", "argmin", "prod", "all", "any"), _reduction),
    **dict.fromkeys(("std", "var", "logsumexp", "norm"), _reduction),
    **dict.fromkeys(("max", "min"), _extreme),
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn", "full"), _filled),
    **dict.fromkeys(("gru", "rnn_tanh", "rnn_relu"), _recurrent(1)),
    "arange": _arange,
    "einsum": _einsum,
    "embedding": _embedding,
    "expand_as": lambda a: values(a)[1].sizes,
    "gather": _gather,
    "glu": _glu,
    "index_select": _index_select,
    "linear": _linear,
    "lstm": _recurrent(2),
    "_native_multi_head_attention": _with_weights,
    "native_layer_norm": _normalised,
    "scaled_dot_product_attention": _attention,
    "t": lambda a: swapped(_first(a), -1, -2),
    "topk": _topk,
    "view_as": lambda a: values(a)[1].sizes,
    "reshape_as": lambda a: values(a)[1].sizes,
}
