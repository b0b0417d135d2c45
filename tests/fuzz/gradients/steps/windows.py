"""Convolutions, pooling, resampling: everything that slides."""

from __future__ import annotations

from tests.fuzz.gradients.draft import Draft, Texts
from tests.fuzz.gradients.steps.registry import step


def _several(d: Draft, axes: int, *numbers: int) -> tuple[int, ...]:
    return tuple(d.among(*numbers) for _ in range(axes))


@step(5)
def convolution(d: Draft) -> Texts:
    axes = d.among(1, 2, 2, 3)
    x, shape = d.image(axes)
    groups = d.chance.choice([n for n in range(1, shape[1] + 1) if shape[1] % n == 0])
    out = groups * d.among(1, 2)
    w = d.new((out, shape[1] // groups, *_several(d, axes, 1, 2, 3)), 0.5)
    options = (
        f"strides={_several(d, axes, 1, 1, 2, 3)}, dilations={_several(d, axes, 1, 1, 2)}, "
        f"low={_several(d, axes, 0, 1, 2)}, high={_several(d, axes, 0, 1, 2)}, groups={groups}"
    )
    return f"ops.conv({x}, {w}, {options})", f"t.conv({x}, {w}, {options})"


@step(3)
def convolution_transposed(d: Draft) -> Texts:
    axes = d.among(1, 1, 2)
    x, shape = d.image(axes)
    groups = d.chance.choice([n for n in range(1, shape[1] + 1) if shape[1] % n == 0])
    strides = _several(d, axes, 1, 2, 3)
    w = d.new((shape[1], d.among(1, 2), *_several(d, axes, 1, 2, 3)), 0.5)
    options = (
        f"strides={strides}, dilations={_several(d, axes, 1, 1, 2)}, low={_several(d, axes, 0, 1)}, "
        f"high={_several(d, axes, 0, 1)}, extra={tuple(d.chance.randrange(s) for s in strides)}, groups={groups}"
    )
    return f"ops.conv_transpose({x}, {w}, {options})", f"t.conv_transpose({x}, {w}, {options})"


@step(3)
def window(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank > 0, empty=False)
    kind = d.among("sum", "max", "min", "sum")
    window = tuple(d.chance.randint(1, min(3, n)) for n in x.shape)
    low, high = ((_several(d, x.rank, 0, 1) if kind == "sum" else (0,) * x.rank) for _ in range(2))
    options = (
        f"kind='{kind}', window={window}, strides={_several(d, x.rank, 1, 1, 2)}, "
        f"dilations={_several(d, x.rank, 1, 1, 2)}, low={low}, high={high}"
    )
    return f"ops.window_reduce({x}, {options})", f"t.windows({x}, {options})"


@step(3)
def pooling(d: Draft) -> Texts:
    axes = d.among(1, 2, 2, 3)
    x, _ = d.image(axes)
    kernel, stride = d.among(1, 2, 3), d.among(1, 2)
    padding = d.chance.randint(0, kernel // 2)
    options = f"{kernel}, {stride}, {padding}"
    sizes = tuple(d.among(1, 2, 3) for _ in range(axes))
    return d.among(
        (f"nn.MaxPool{axes}d({options})({x} * 1.0)", f"F.max_pool{axes}d({x} * 1.0, {options})"),
        (f"nn.AvgPool{axes}d({options})({x})", f"F.avg_pool{axes}d({x}, {options})"),
        (f"nn.AdaptiveAvgPool{axes}d({sizes})({x})", f"F.adaptive_avg_pool{axes}d({x}, {sizes})"),
    )


@step(2)
def resampled(d: Draft) -> Texts:
    x, _ = d.image(2)
    sizes = _several(d, 2, 1, 2, 3, 5)
    mode = d.among("nearest", "linear", "cubic")
    theirs = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[mode]
    if mode == "nearest":
        how, corners = "transformation='asymmetric', rounding='floor'", ""
    else:
        aligned = d.flag(0.3) and min(sizes) > 1
        how = f"transformation='{'align_corners' if aligned else 'half_pixel'}'"
        corners = f", align_corners={aligned}"
    return (
        f"ops.resize({x}, axes=(2, 3), sizes={sizes}, mode='{mode}', {how})",
        f"F.interpolate({x}, {sizes}, mode='{theirs}'{corners})",
    )


@step(0.4)
def resampled_without_a_twin(d: Draft) -> Texts:
    x, _ = d.image(2)
    how = d.among("'align_corners'", "'asymmetric'", "'pytorch_half_pixel'", "'half_pixel_symmetric'")
    options = f"mode='{d.among('linear', 'cubic')}', transformation={how}, antialias={d.flag(0.3)}"
    return f"ops.resize({x}, axes=(2, 3), sizes={_several(d, 2, 1, 2, 3, 5)}, {options})", None


@step(0.4)
def without_a_twin(d: Draft) -> Texts:
    x = d.value(lambda v: v.rank == 3, empty=False)
    return d.among(
        (f"ops.lrn({x}, size={d.among(1, 2, 3)}, alpha=0.5)", None),
        (f"ops.dft({x}[..., :1] * 1.0 + {x}.mean())[0]", None),
        (f"nn.LPPool1d(3.0, 1, 1)({x}.abs() + 0.1)", None),
    )


@step(1)
def shuffled(d: Draft) -> Texts:
    x, shape = d.image(2)
    if shape[1] % 4 == 0:
        return f"nn.PixelShuffle(2)({x})", f"F.pixel_shuffle({x}, 2)"
    return f"nn.PixelUnshuffle(1)({x})", f"F.pixel_unshuffle({x}, 1)"
