"""The layers beside torch's: for each, how a random configuration and its inputs are drawn. `LAYERS` is the table.

A row draws a layer, torch's counterpart and the inputs. Weights go from torch's to ours through `Module.load`, which maps
torch's names and layouts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from burn import nn
from burn.nn.activation import FUNCTIONS
from tests.releases import release

torch = pytest.importorskip("torch")
F = torch.nn.functional


class Draw:
    """Random choices for a row."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def size(self, low: int = 1, high: int = 7) -> int:
        return int(self.rng.integers(low, high + 1))

    def sizes(self, count: int, low: int = 1, high: int = 7) -> tuple[int, ...]:
        return tuple(self.size(low, high) for _ in range(count))

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def one_of(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def number(self, low: float, high: float) -> float:
        return round(float(self.rng.uniform(low, high)), 3)

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def positive(self, *shape: int) -> np.ndarray:
        return self.rng.uniform(0.05, 3.0, shape).astype(np.float32)

    def whole(self, high: int, *shape: int) -> np.ndarray:
        return self.rng.integers(0, high, shape)


@dataclass
class Drawn:
    """A layer, torch's counterpart, and their arguments.

    `options`: keyword arguments of our call, `their_options` of theirs. `call`: our call, if it is not the layer alone.
    `module`: the source of the weights, if not `theirs`. `batch_axis`: None if the compiled layer has no symbolic batch."""

    ours: nn.Module
    theirs: Callable[..., Any]
    inputs: list[np.ndarray]
    options: dict[str, Any] = field(default_factory=dict)
    their_options: dict[str, Any] = field(default_factory=dict)
    module: Any = None
    call: Callable[..., Any] | None = None
    batch_axis: int | None = 0


Row = Callable[[Draw], Drawn]
LAYERS: dict[str, Row] = {}


def layer(*names: str) -> Callable[[Row], Row]:
    def enter(row: Row) -> Row:
        LAYERS.update(dict.fromkeys(names, row))
        return row

    return enter


# ---- linear layers -----------------------------------------------------------------------------------------------------


@layer("Identity")
def _identity(draw: Draw) -> Drawn:
    return Drawn(nn.Identity(), torch.nn.Identity(), [draw.normal(*draw.sizes(3))])


@layer("Linear")
def _linear(draw: Draw) -> Drawn:
    a, b = draw.size(1, 40), draw.size(1, 40)
    bias = draw.flag()
    ours = nn.Linear(a, b, bias, transposed=draw.flag())
    return Drawn(ours, torch.nn.Linear(a, b, bias), [draw.normal(*draw.sizes(draw.size(1, 3)), a)])


@layer("Bilinear")
def _bilinear(draw: Draw) -> Drawn:
    (a, b, out), bias, outer = draw.sizes(3), draw.flag(), draw.sizes(draw.size(1, 2))
    inputs = [draw.normal(*outer, n) for n in (a, b)]
    return Drawn(nn.Bilinear(a, b, out, bias), torch.nn.Bilinear(a, b, out, bias), inputs)


@layer("Embedding")
def _embedding(draw: Draw) -> Drawn:
    count, dim = draw.sizes(2)
    return Drawn(nn.Embedding(count, dim), torch.nn.Embedding(count, dim), [draw.whole(count, *draw.sizes(2))])


@layer("CosineSimilarity")
def _cosine(draw: Draw) -> Drawn:
    shape, dim = draw.sizes(3), draw.one_of(0, 1, 2, -1)
    broadcast = draw.one_of(0, 1, 2, None)
    inputs = [draw.normal(*shape), draw.normal(*(1 if i == broadcast else n for i, n in enumerate(shape)))]
    return Drawn(nn.CosineSimilarity(dim), torch.nn.CosineSimilarity(dim), inputs)


@layer("PairwiseDistance")
def _distance(draw: Draw) -> Drawn:
    shape, keep = draw.sizes(3), draw.flag()
    p = draw.one_of(1.0, 2.0, 3.0, 0.5, float("inf"))
    inputs = [draw.normal(*shape), draw.normal(*shape)]
    return Drawn(nn.PairwiseDistance(p, keepdim=keep), torch.nn.PairwiseDistance(p, keepdim=keep), inputs)


def _conv(axes: int) -> Row:
    def row(draw: Draw) -> Drawn:
        groups = draw.size(1, 3)
        a, b = draw.size(1, 3) * groups, draw.size(1, 3) * groups
        kernel, dilation = draw.sizes(axes, 1, 3), draw.sizes(axes, 1, 2)
        bias, mode = draw.flag(), draw.one_of("zeros", "zeros", "reflect", "replicate", "circular")
        padding = draw.one_of("same", "valid", draw.sizes(axes, 0, 2), draw.size(0, 2))
        stride = 1 if padding == "same" else draw.sizes(axes, 1, 3)
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "bias": bias}
        options["padding_mode"] = mode
        ours = getattr(nn, f"Conv{axes}d")(a, b, kernel, **options)
        theirs = getattr(torch.nn, f"Conv{axes}d")(a, b, kernel, **options)
        return Drawn(ours, theirs, [draw.normal(draw.size(1, 3), a, *draw.sizes(axes, 5, 9))])

    return row


def _conv_transpose(axes: int) -> Row:
    def row(draw: Draw) -> Drawn:
        groups = draw.size(1, 3)
        a, b = draw.size(1, 3) * groups, draw.size(1, 3) * groups
        kernel, dilation, stride = draw.sizes(axes, 1, 3), draw.sizes(axes, 1, 2), draw.sizes(axes, 1, 3)
        options = {"stride": stride, "dilation": dilation, "groups": groups, "bias": draw.flag()}
        options["padding"] = draw.sizes(axes, 0, 2)
        options["output_padding"] = tuple(draw.size(0, max(s, t) - 1) for s, t in zip(stride, dilation, strict=True))
        ours = getattr(nn, f"ConvTranspose{axes}d")(a, b, kernel, **options)
        theirs = getattr(torch.nn, f"ConvTranspose{axes}d")(a, b, kernel, **options)
        return Drawn(ours, theirs, [draw.normal(draw.size(1, 3), a, *draw.sizes(axes, 4, 6))])

    return row


for _n in (1, 2, 3):
    LAYERS[f"Conv{_n}d"], LAYERS[f"ConvTranspose{_n}d"] = _conv(_n), _conv_transpose(_n)

# ---- normalisation -----------------------------------------------------------------------------------------------------


def _fresh(module: Any, draw: Draw) -> Any:
    """With parameters and statistics that are not all ones and zeros."""
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if tensor.is_floating_point():
                values = draw.positive(*tensor.shape) if "var" in name else draw.normal(*tensor.shape)
                tensor.copy_(torch.from_numpy(values))
    return module


@layer("LayerNorm")
def _layer_norm(draw: Draw) -> Drawn:
    shape, eps, affine = draw.sizes(draw.size(1, 2), 2), draw.number(1e-5, 0.1), draw.flag()
    bias = draw.flag()
    theirs = _fresh(torch.nn.LayerNorm(shape, eps, affine, bias), draw)
    return Drawn(nn.LayerNorm(shape, eps, affine, bias), theirs, [draw.normal(*draw.sizes(2), *shape)])


@layer("RMSNorm")
def _rms_norm(draw: Draw) -> Drawn:
    shape, eps, affine = draw.sizes(draw.size(1, 2)), draw.number(1e-5, 0.1), draw.flag()
    theirs = _fresh(torch.nn.RMSNorm(shape, eps, affine), draw)
    return Drawn(nn.RMSNorm(shape, eps, affine), theirs, [draw.normal(*draw.sizes(2), *shape)])


def _batch_norm(axes: int) -> Row:
    def row(draw: Draw) -> Drawn:
        count, eps, momentum, affine = draw.size(), draw.number(1e-5, 0.1), draw.number(0, 1), draw.flag()
        track = draw.flag()
        ours = getattr(nn, f"BatchNorm{axes}d")(count, eps, momentum=momentum, affine=affine, track_running_stats=track)
        theirs = getattr(torch.nn, f"BatchNorm{axes}d")(count, eps, momentum, affine, track)
        spatial = draw.sizes(draw.one_of(0, 1) if axes == 1 else axes)
        return Drawn(ours, _fresh(theirs, draw).eval(), [draw.normal(draw.size(2, 4), count, *spatial)])

    return row


for _n in (1, 2, 3):
    LAYERS[f"BatchNorm{_n}d"] = _batch_norm(_n)


@layer("GroupNorm")
def _group_norm(draw: Draw) -> Drawn:
    groups, eps, affine = draw.size(1, 3), draw.number(1e-5, 0.1), draw.flag()
    channels = groups * draw.size(2, 3)
    theirs = _fresh(torch.nn.GroupNorm(groups, channels, eps, affine), draw)
    ours = nn.GroupNorm(groups, channels, eps, affine)
    return Drawn(ours, theirs, [draw.normal(draw.size(1, 3), channels, *draw.sizes(draw.size(0, 2)))])


@layer("InstanceNorm")
def _instance_norm(draw: Draw) -> Drawn:
    count, eps, affine, axes = draw.size(), draw.number(1e-5, 0.1), draw.flag(), draw.size(1, 3)
    theirs = getattr(torch.nn, f"InstanceNorm{axes}d")(count, eps, affine=affine)
    return Drawn(
        nn.InstanceNorm(count, eps, affine), _fresh(theirs, draw), [draw.normal(2, count, *draw.sizes(axes, 2))]
    )


@layer("LocalResponseNorm")
def _lrn(draw: Draw) -> Drawn:
    size, alpha, beta, k = draw.size(1, 5), draw.number(0.1, 2), draw.number(0.3, 1), draw.number(0.5, 2)
    theirs = torch.nn.LocalResponseNorm(size, alpha, beta, k)
    return Drawn(nn.LocalResponseNorm(size, alpha, beta, k), theirs, [draw.normal(2, draw.size(1, 7), *draw.sizes(2))])


# ---- windows -----------------------------------------------------------------------------------------------------------


def _pool(kind: str, axes: int) -> Row:
    def row(draw: Draw) -> Drawn:
        kernel = draw.sizes(axes, 1, 3)
        options: dict[str, Any] = {"ceil_mode": draw.flag(), "stride": draw.one_of(None, draw.sizes(axes, 1, 3))}
        if kind == "LP":
            p = draw.one_of(1.0, 2.0, 3.0, float("inf"))
            if p == float("inf") and release("torch") < (2, 13):
                p = 4.0  # torch 2.11 takes the power, and not the maximum
            ours = getattr(nn, f"LPPool{axes}d")(p, kernel, **options)
            if axes == 1:  # torch's takes no tuples
                options["stride"] = options["stride"] and options["stride"][0]
            theirs = getattr(torch.nn, f"LPPool{axes}d")(p, kernel if axes > 1 else kernel[0], **options)
            return Drawn(ours, theirs, [draw.positive(2, 3, *draw.sizes(axes, 4, 8))])
        options["padding"] = tuple(draw.size(0, k // 2) for k in kernel)
        if kind == "Max":
            options["dilation"] = draw.size(1, 2)
        else:
            options["count_include_pad"] = draw.flag()
            if axes > 1:
                options["divisor_override"] = draw.one_of(None, 3)
        ours = getattr(nn, f"{kind}Pool{axes}d")(kernel, **options)
        theirs = getattr(torch.nn, f"{kind}Pool{axes}d")(kernel, **options)
        return Drawn(ours, theirs, [draw.normal(draw.size(1, 3), 2, *draw.sizes(axes, 5, 9))])

    return row


def _adaptive(kind: str, axes: int) -> Row:
    def row(draw: Draw) -> Drawn:
        sizes = draw.sizes(axes, 5, 9)
        wanted = tuple(draw.one_of(1, 2, 3, 7, *([None] if axes > 1 else [])) for _ in range(axes))
        ours = getattr(nn, f"Adaptive{kind}Pool{axes}d")(wanted)
        theirs = getattr(torch.nn, f"Adaptive{kind}Pool{axes}d")(wanted)
        return Drawn(ours, theirs, [draw.normal(draw.size(1, 3), 2, *sizes)])

    return row


for _n in (1, 2, 3):
    for _kind in ("Max", "Avg", "LP"):
        LAYERS[f"{_kind}Pool{_n}d"] = _pool(_kind, _n)
    for _kind in ("Max", "Avg"):
        LAYERS[f"Adaptive{_kind}Pool{_n}d"] = _adaptive(_kind, _n)


def _padding(kind: str, axes: int) -> Row:
    def row(draw: Draw) -> Drawn:
        low = -1 if kind in ("Zero", "Constant") else 0
        padding = draw.one_of(draw.size(0, 2), draw.sizes(2 * axes, low, 3))
        rest = (draw.number(-1, 1),) if kind == "Constant" else ()
        ours = getattr(nn, f"{kind}Pad{axes}d")(padding, *rest)
        theirs = getattr(torch.nn, f"{kind}Pad{axes}d")(padding, *rest)
        return Drawn(ours, theirs, [draw.normal(2, 3, *draw.sizes(axes, 4, 6))])

    return row


for _n in (1, 2, 3):
    for _kind in ("Zero", "Constant", "Reflection", "Replication", "Circular"):
        LAYERS[f"{_kind}Pad{_n}d"] = _padding(_kind, _n)


# ---- sizes -------------------------------------------------------------------------------------------------------------


def _resampling(draw: Draw, axes: int) -> dict[str, Any]:
    modes = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[axes]
    mode = draw.one_of("nearest", "nearest-exact", "area", *modes, *modes)
    options: dict[str, Any] = {"mode": mode}
    if mode in modes:
        options["align_corners"] = draw.flag()
        if mode in ("bilinear", "bicubic") and not options["align_corners"]:
            options["antialias"] = draw.flag()
    if draw.flag() or mode == "area":
        options["size"] = draw.sizes(axes, 1, 9)
    else:
        options["scale_factor"] = tuple(draw.one_of(0.5, 1.5, 2.0, 3.0, 0.7) for _ in range(axes))
    return options


@layer("Upsample")
def _upsample(draw: Draw) -> Drawn:
    axes = draw.size(1, 3)
    options = _resampling(draw, axes)
    return Drawn(
        nn.Upsample(**options), lambda x: F.interpolate(x, **options), [draw.normal(2, 3, *draw.sizes(axes, 2, 6))]
    )


def _interpolate(axes: int) -> Row:
    def row(draw: Draw) -> Drawn:
        options = _resampling(draw, axes)
        ours = getattr(nn, f"Interpolate{axes}d")(**options)
        return Drawn(ours, lambda x: F.interpolate(x, **options), [draw.normal(2, 3, *draw.sizes(axes, 2, 6))])

    return row


LAYERS["Interpolate1d"], LAYERS["Interpolate2d"] = _interpolate(1), _interpolate(2)


@layer("PixelShuffle")
def _shuffle(draw: Draw) -> Drawn:
    r, outer = draw.size(1, 3), draw.sizes(draw.size(0, 2))
    return Drawn(nn.PixelShuffle(r), torch.nn.PixelShuffle(r), [draw.normal(*outer, 2 * r * r, *draw.sizes(2))])


@layer("PixelUnshuffle")
def _unshuffle(draw: Draw) -> Drawn:
    r, outer, (h, w) = draw.size(1, 3), draw.sizes(draw.size(0, 2)), draw.sizes(2)
    return Drawn(nn.PixelUnshuffle(r), torch.nn.PixelUnshuffle(r), [draw.normal(*outer, 2, h * r, w * r)])


def _windows(draw: Draw) -> tuple[dict[str, Any], tuple[int, ...]]:
    options = {n: draw.sizes(2, 1, 3) for n in ("kernel_size", "stride")}
    return options | {"padding": draw.sizes(2, 0, 2), "dilation": draw.sizes(2, 1, 2)}, draw.sizes(2, 5, 8)


@layer("Unfold")
def _unfold(draw: Draw) -> Drawn:
    options, sizes = _windows(draw)
    return Drawn(nn.Unfold(**options), torch.nn.Unfold(**options), [draw.normal(2, 3, *sizes)])


@layer("Fold")
def _fold(draw: Draw) -> Drawn:
    options, sizes = _windows(draw)
    columns = F.unfold(torch.zeros(1, 3, *sizes), **options).shape
    return Drawn(nn.Fold(sizes, **options), torch.nn.Fold(sizes, **options), [draw.normal(2, *columns[1:])])


@layer("Flatten")
def _flatten(draw: Draw) -> Drawn:
    start, end = draw.size(0, 1), draw.one_of(-1, 2, 3)
    return Drawn(nn.Flatten(start, end), torch.nn.Flatten(start, end), [draw.normal(*draw.sizes(4))])


@layer("Unflatten")
def _unflatten(draw: Draw) -> Drawn:
    a, b = draw.sizes(2)
    sizes = draw.one_of((a, b), (-1, b), (a, -1))
    return Drawn(nn.Unflatten(1, sizes), torch.nn.Unflatten(1, sizes), [draw.normal(draw.size(), a * b, 2)])


# ---- noise, which inference leaves out ---------------------------------------------------------------------------------


def _dropout(axes: int) -> Row:
    def row(draw: Draw) -> Drawn:
        name, p = f"Dropout{axes}d" if axes else "Dropout", draw.number(0, 1)
        inputs = [draw.normal(2, 3, *draw.sizes(axes))]
        return Drawn(getattr(nn, name)(p), getattr(torch.nn, name)(p).eval(), inputs)

    return row


LAYERS["Dropout"] = _dropout(0)
for _n in (1, 2, 3):
    LAYERS[f"Dropout{_n}d"] = _dropout(_n)


@layer("GaussianNoise")
def _noise(draw: Draw) -> Drawn:
    return Drawn(nn.GaussianNoise(draw.number(0, 1)), torch.nn.Identity(), [draw.normal(*draw.sizes(2))])


# ---- activations -------------------------------------------------------------------------------------------------------

OPTIONS: dict[str, Callable[[Draw], dict[str, Any]]] = {
    "LeakyReLU": lambda d: {"negative_slope": d.number(0, 1)},
    "ELU": lambda d: {"alpha": d.number(0.1, 2)},
    "CELU": lambda d: {"alpha": d.number(0.1, 2)},
    "GELU": lambda d: {"approximate": d.one_of("none", "tanh")},
    "Softplus": lambda d: d.one_of({}, {"beta": d.number(0.5, 2), "threshold": d.number(0, 3)}),
    "Hardtanh": lambda d: {"min_val": d.number(-2, -0.1), "max_val": d.number(0.1, 2)},
    "Hardshrink": lambda d: {"lambd": d.number(0, 1)},
    "Softshrink": lambda d: {"lambd": d.number(0, 1)},
    "Threshold": lambda d: {"threshold": d.number(-1, 1), "value": d.number(-1, 1)},
    "Softmax": lambda d: {"dim": d.one_of(0, 1, -1)},
    "Softmin": lambda d: {"dim": d.one_of(0, 1, -1)},
    "LogSoftmax": lambda d: {"dim": d.one_of(0, 1, -1)},
    "GLU": lambda d: {"dim": d.one_of(0, 1, -1)},
}


def _activation(name: str) -> Row:
    def row(draw: Draw) -> Drawn:
        options = OPTIONS[name](draw) if name in OPTIONS else {}
        x = 3 * draw.normal(*(2 * s for s in draw.sizes(3)))
        return Drawn(getattr(nn, name)(**options), getattr(torch.nn, name)(**options), [x], batch_axis=None)

    return row


for _name in FUNCTIONS:
    LAYERS[_name] = _activation(_name)


@layer("PReLU")
def _prelu(draw: Draw) -> Drawn:
    count, channels = draw.flag(), draw.size(2, 5)
    ours = nn.PReLU(num_parameters=channels) if count else nn.PReLU()
    theirs = torch.nn.PReLU(channels if count else 1)
    return Drawn(ours, _fresh(theirs, draw), [draw.normal(2, channels, *draw.sizes(draw.size(0, 2)))])
