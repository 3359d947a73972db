"""Shape rules of convolutions, pools, padding and resizing: what a window over positions gives."""

from collections.abc import Callable, Sequence
from typing import Any

from bimetal.operators.sizes import Dim, Size, Sizes, assumed, combined
from bimetal.operators.torch.value import Arguments, sizes_of


def _per_axis(value: Any, count: int, default: int) -> list[Size]:
    if value is None or value == []:
        return [default] * count
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values * count if len(values) == 1 else values


def _window(size: Size, kernel: Size, stride: Size, padding: Size, dilation: Size) -> Size:
    """(size + 2 padding - dilation (kernel - 1) - 1) // stride + 1, as convolutions and pools have it."""
    span = combined("*", dilation, combined("-", kernel, 1))
    moved = combined("-", combined("+", size, combined("*", 2, padding)), combined("+", span, 1))
    return combined("+", combined("//", moved, stride), 1)


def _spatial(x: Sizes, count: int) -> list[Size]:
    return [x.at(axis) for axis in range(-count, 0)]


def _conv(a: Arguments) -> Sizes:
    x, weight = sizes_of(a, "input"), sizes_of(a, "weight")
    count = len(weight) - 2
    stride, dilation = _per_axis(a.get("stride"), count, 1), _per_axis(a.get("dilation"), count, 1)
    kernel = list(weight.known[2:])
    if a.get("padding") == "same":
        spatial = _spatial(x, count)
    else:
        padding = _per_axis(None if a.get("padding") == "valid" else a.get("padding"), count, 0)
        spatial = [_window(*each) for each in zip(_spatial(x, count), kernel, stride, padding, dilation, strict=True)]
    return _batched(x, count, weight.at(0), spatial)


def _batched(x: Sizes, count: int, channels: Size, spatial: Sequence[Size]) -> Sizes:
    """With the batch of `x` before channels and positions; an image may come without one."""
    batch = () if x.rank == count + 1 else (x.at(-count - 2),)
    return Sizes((*batch, channels, *spatial))


def _conv_transpose(a: Arguments) -> Sizes:
    x, weight = sizes_of(a, "input"), sizes_of(a, "weight")
    count = len(weight) - 2
    groups = a.get("groups") or 1
    names = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1}
    stride, padding, extra, dilation = (_per_axis(a.get(name), count, default) for name, default in names.items())
    spatial = []
    for axis, size in enumerate(_spatial(x, count)):
        span = combined("*", dilation[axis], combined("-", weight.known[2 + axis], 1))
        grown = combined("-", combined("*", combined("-", size, 1), stride[axis]), combined("*", 2, padding[axis]))
        spatial.append(combined("+", combined("+", grown, span), combined("+", extra[axis], 1)))
    return _batched(x, count, combined("*", weight.at(1), groups), spatial)


def _convolution(a: Arguments) -> Sizes:
    return (_conv_transpose if a["transposed"] else _conv)(a)


def _pool(count: int) -> Callable[[Arguments], Sizes]:
    def rule(a: Arguments) -> Sizes:
        x = sizes_of(a)
        kernel = _per_axis(a["kernel_size"], count, 1)
        stride = kernel if a.get("stride") in (None, []) else _per_axis(a["stride"], count, 1)
        padding, dilation = _per_axis(a.get("padding"), count, 0), _per_axis(a.get("dilation"), count, 1)
        sizes = x
        for axis in range(-count, 0):
            size = _window(x.at(axis), kernel[axis], stride[axis], padding[axis], dilation[axis])
            if a.get("ceil_mode"):
                size = Dim(None, assumed(size) + 1)
            sizes = sizes.with_size(axis, size)
        return sizes

    return rule


def _scaled(a: Arguments) -> Sizes:
    """To a given size, or by factors."""
    if a["output_size"] is not None:
        return _resized(a)
    sizes, factors = sizes_of(a), a["scale_factors"]
    for axis, factor in zip(range(-len(factors), 0), factors, strict=True):
        size = sizes.at(axis)
        scaled = int(assumed(size) * factor)
        sizes = sizes.with_size(axis, scaled if isinstance(size, int) else Dim(None, scaled))
    return sizes


def _resized(a: Arguments) -> Sizes:
    sizes = sizes_of(a)
    target = a["output_size"]
    target = [target] if isinstance(target, int) else target
    for axis, size in zip(range(-len(target), 0), target, strict=True):
        sizes = sizes.with_size(axis, sizes.at(axis) if size is None else size)
    return sizes


def _padded(a: Arguments) -> Sizes:
    sizes, pad = sizes_of(a), a["pad"]
    for pair in range(len(pad) // 2):
        grown = combined("+", sizes.at(-1 - pair), combined("+", pad[2 * pair], pad[2 * pair + 1]))
        sizes = sizes.with_size(-1 - pair, grown)
    return sizes


def _shuffled(a: Arguments) -> Sizes:
    sizes, factor = sizes_of(a), a["factor"]
    sizes = sizes.with_size(-3, combined("//", sizes.at(-3), factor * factor))
    for axis in (-1, -2):
        sizes = sizes.with_size(axis, combined("*", sizes.at(axis), factor))
    return sizes


WINDOWS: dict[str, Callable[[Arguments], Sizes]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "_convolution_mode"), _conv),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _conv_transpose),
    **dict.fromkeys(("_convolution", "convolution"), _convolution),
    **{f"{kind}_pool{n}d": _pool(n) for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": _resized for n in (1, 2, 3)},
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"), _scaled),
    **dict.fromkeys(("upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d"), _scaled),
    **dict.fromkeys(("pad", "constant_pad_nd", "reflection_pad2d", "replication_pad2d"), _padded),
    "pixel_shuffle": _shuffled,
}
