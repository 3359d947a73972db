"""Records the operators that followed code calls: each call becomes a node, and gives descriptions of its results.

The names of arguments that decide shapes, costs or dangers are those of the schemas that PyTorch registers
(native_functions.yaml, 2.13); arguments that decide nothing are left out at the end.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bimetal.operators.sizes import ANY, Sizes
from bimetal.operators.torch.graph import ATEN, Collector, plain_name
from bimetal.operators.torch.scalars import NOT_TOLD
from bimetal.operators.torch.shapes import result_type, shapes
from bimetal.operators.torch.value import Shapes, Value, values

_CONV = "input weight bias stride padding dilation groups"
_TRANSPOSED = "input weight bias stride padding output_padding groups dilation"
_POOL = "self kernel_size stride padding dilation ceil_mode"
_AVERAGE = "self kernel_size stride padding ceil_mode"
_RECURRENT = "input hx params has_biases num_layers dropout train bidirectional batch_first"
_REDUCE = "self dim keepdim"
_SPLIT = "self split_size dim"

_SIGNATURES: dict[str, Sequence[str]] = {
    name: names.split()
    for names, operators in {
        _CONV: "conv1d conv2d conv3d _convolution_mode",
        _TRANSPOSED: "conv_transpose1d conv_transpose2d conv_transpose3d",
        "input weight bias stride padding dilation transposed output_padding groups": "_convolution convolution",
        _POOL: "max_pool1d max_pool2d max_pool3d",
        _AVERAGE: "avg_pool1d avg_pool2d avg_pool3d",
        "self output_size": "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d",
        "self output_size scale_factors": "upsample_nearest1d upsample_nearest2d upsample_nearest3d",
        "self output_size align_corners scale_factors": "upsample_linear1d upsample_bilinear2d upsample_bicubic2d",
        _RECURRENT: "lstm gru rnn_tanh rnn_relu",
        _REDUCE: "mean sum amax amin argmax argmin max min prod all any std var logsumexp",
        "self p dim keepdim": "norm",
        "self k dim": "topk",
        "self dim index": "select index_select gather",
        "self dim start end step": "slice",
        "self dim start length": "narrow",
        "self start_dim end_dim": "flatten",
        "self dim sizes": "unflatten",
        "self dim0 dim1": "transpose swapaxes",
        "self dims": "permute",
        "self chunks dim": "chunk unsafe_chunk",
        _SPLIT: "split split_with_sizes unsafe_split",
        "self dim": "unbind squeeze unsqueeze glu softmax log_softmax cumsum size",
        "self half_to_float": "_softmax _log_softmax",
        "tensors dim": "cat concat stack",
        "self size": "view reshape _unsafe_view expand",
        "self repeats": "repeat",
        "self pad": "pad constant_pad_nd reflection_pad2d replication_pad2d",
        "equation tensors": "einsum",
        "weight indices": "embedding",
        "size": "zeros ones empty rand randn",
        "size fill_value": "full",
        "self factor": "pixel_shuffle pixel_unshuffle",
        "query key value attn_mask dropout_p is_causal": "scaled_dot_product_attention",
    }.items()
    for name in operators.split()
}


def named(operator: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """A call's arguments by name; by position ("0", "1", ...) where no signature is known."""
    names = _SIGNATURES.get(operator, ())
    found = {names[i] if i < len(names) else str(i): value for i, value in enumerate(arguments)}
    return {**found, **keywords}


_MAKERS = frozenset(["zeros", "ones", "full", "empty", "rand", "randn", "arange", "tensor", "randint", "linspace"])
_OURS = frozenset(["torch", "ops.aten"])


class Recorder:
    """Makes a node in the collector of each call to an operator, and gives its results without computing them."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._names = 0
        self._newest: dict[str, Value] = {}

    def latest(self, value: Any) -> Any:
        """After relu_(x), x is what relu_ gave."""
        while isinstance(value, Value) and value.name in self._newest:
            value = self._newest[value.name]
        return value

    def call(
        self, domain: str, operator: str, arguments: Sequence[Any], keywords: Mapping[str, Any], scope: str
    ) -> Any:
        """The results of a call: a tensor, a tuple or a list of them; NOT_TOLD for what is no operator on tensors."""
        if domain == "ops.prim" or (not values([*arguments]) and not values(keywords) and operator not in _MAKERS):
            return NOT_TOLD
        in_place = operator.endswith("_") and not operator.endswith("__")
        by_name = named(operator.rstrip("_") if in_place else operator, arguments, keywords)
        plain, aten = plain_name(operator, by_name), domain in _OURS
        sizes = shapes(plain, by_name) if aten else ANY
        result, flat = self._results(plain, sizes, result_type(plain, by_name) if aten else None)
        ours = ATEN if aten else domain.removeprefix("ops.")
        self._collector.add(plain, by_name, flat, domain=ours, scope=scope)
        if in_place and isinstance(arguments[0], Value) and isinstance(result, Value):
            self._newest[arguments[0].name] = result
        return result

    def _results(self, operator: str, sizes: Shapes, kind: str | None) -> tuple[Any, list[Value]]:
        if isinstance(sizes, Sizes):
            made = self._new(operator, sizes, kind)
            return made, [made]
        kinds = [kind, "int64"] if operator in {"max", "min", "topk"} else [kind] * len(sizes)
        flat = [self._new(operator, each, kind) for each, kind in zip(sizes, kinds, strict=True)]
        return (tuple(flat) if isinstance(sizes, tuple) else flat), flat

    def _new(self, operator: str, sizes: Sizes, kind: str | None) -> Value:
        self._names += 1
        return Value(f"{operator}_{self._names}", sizes, kind)
