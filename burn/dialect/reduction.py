"""Reductions: over axes, over windows, cumulative, and the position of an extreme."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect.batching.rules import leading, windowed
from burn.dialect.dims import Dim, at_most, dim_max, dim_min, floordiv, product
from burn.dialect.op import Agreement, Op, Operand, normalize_axis
from burn.dialect.traits import Trait
from burn.dialect.types import PARTS, TensorType, type_of

KINDS = ("sum", "prod", "max", "min", "any", "all")


def _check_kind(cls: type[Op], kind: str, x: TensorType) -> None:
    if kind not in KINDS:
        cls.fail(f"'{kind}' is none of {', '.join(KINDS)}", "kind")
    if (kind in ("any", "all")) != (x.dtype == "bool"):
        cls.fail(f"'{kind}' does not take {x.dtype}", "kind")
    if x.dtype in PARTS and kind in ("max", "min"):
        cls.fail(f"'{kind}' does not take {x.dtype}: complex numbers have no order", "kind")


class Reduce(Op, name="reduce", traits=Trait.REDUCTION | Trait.REPEATABLE, kernel="reduce", batching=leading("axes")):
    """sum, prod, max, min, any or all over `axes`. Shapes: x [...] -> [...] without the axes, or with size 1 (`keepdims`).
    float16 and bfloat16 accumulate in float32. An empty max or min is minus or plus infinity (the type's limit)."""

    x: Operand
    kind: str
    axes: tuple[int, ...]
    keepdims: bool = False

    @classmethod
    def infer(cls, x: TensorType, kind: str, axes: tuple[int, ...], keepdims: bool) -> TensorType:
        _check_kind(cls, kind, x)
        axes = tuple(normalize_axis(cls, a, x.rank, "axes") for a in axes)
        if len(set(axes)) != len(axes):
            cls.fail(f"axes {list(axes)} repeat", "axes")
        if keepdims:
            return x.with_shape(tuple(1 if i in axes else d for i, d in enumerate(x.shape)))
        return x.with_shape(tuple(d for i, d in enumerate(x.shape) if i not in axes))


def least_reduced(shape: Sequence[Dim], axes: Sequence[int]) -> tuple[Dim, Dim]:
    """(the number of elements reduced to one, the least number for an extreme to exist). Without results, none are
    needed."""
    reduced = product(d for i, d in enumerate(shape) if i in axes)
    return reduced, dim_min(1, product(d for i, d in enumerate(shape) if i not in axes))


class ArgReduce(Op, name="arg_reduce", traits=Trait.REDUCTION, kernel="reduce", batching=leading("axis")):
    """The index along `axis` of the first (or last) maximum or minimum. Shapes: x [.., d, ..] -> [.., 1, ..] or without the
    axis; result int64. NaN counts as the extreme."""

    x: Operand
    kind: str  # max, min
    axis: int
    keepdims: bool = False
    last: bool = False

    @classmethod
    def infer(cls, x: TensorType, kind: str, axis: int, keepdims: bool, last: bool) -> TensorType:
        if kind not in ("max", "min"):
            cls.fail(f"'{kind}' is neither max nor min", "kind")
        axis = normalize_axis(cls, axis, x.rank)
        kept = (1,) if keepdims else ()
        return TensorType("int64", (*x.shape[:axis], *kept, *x.shape[axis + 1 :]))


class Scan(Op, name="cumulative", kernel="cumulative", batching=leading("axis")):
    """Running sum, prod, max or min along `axis`, optionally exclusive of the current element or from the end.
    Shapes: x [...] -> [...]."""

    x: Operand
    kind: str
    axis: int
    exclusive: bool = False
    reverse: bool = False

    @classmethod
    def infer(cls, x: TensorType, kind: str, axis: int, exclusive: bool, reverse: bool) -> TensorType:
        _check_kind(cls, kind, x)
        normalize_axis(cls, axis, x.rank)
        if x.rank == 0:
            cls.fail("x must have an axis to run along")
        return x


class WindowReduce(Op, name="window_reduce", traits=Trait.FOLLOWS_PRECISION, kernel="window", batching=windowed):
    """sum, prod, max or min over a sliding window of the last (or, channels-last, middle) spatial axes.

    Every entry of `window`, `strides`, `dilations`, `low`, `high` belongs to one axis of x (1, 1, 1, 0, 0 for axes
    without sliding). Elements outside x are the reduction's identity. Shapes: x [d, ..] -> [(low + d + high - reach) //
    stride + 1, ..], reach = (window - 1) * dilation + 1. `ceil_extra` adds positions at the end (ceil mode), per axis.
    """

    x: Operand
    kind: str
    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]

    @classmethod
    def infer(cls, x, kind, window, strides, dilations, low, high) -> TensorType:
        _check_kind(cls, kind, x)
        if not len(window) == len(strides) == len(dilations) == len(low) == len(high) == x.rank:
            cls.fail(f"window, strides, dilations and pads must have {x.rank} entries")
        check_windows(cls, x.shape, window, dilations, low, high)
        rows = zip(x.shape, window, strides, dilations, low, high, strict=True)
        return x.with_shape(tuple(window_size(*row) for row in rows))

    def must_agree(self) -> list[Agreement]:
        return windows_fit(type_of(self.x).shape, self.window, self.dilations, self.low, self.high)


Sizes = Sequence[Dim]


def _reaches(
    dims: Sizes, window: Sizes, dilations: Sequence[int], low: Sizes, high: Sizes
) -> list[tuple[Dim, Dim, Dim]]:
    """(size, padded size, the window's extent) along each axis whose windows may not fit."""
    rows = zip(dims, window, dilations, low, high, strict=True)
    return [(d, a + d + b, (w - 1) * t + 1) for d, w, t, a, b in rows if not (w == 1 and a == 0 and b == 0)]


def check_windows(cls: type[Op], dims: Sizes, window: Sizes, dilations: Sequence[int], low: Sizes, high: Sizes) -> None:
    """Fails if windows are larger than their operand. An empty operand has no windows, which is valid."""
    for dim, padded, reach in _reaches(dims, window, dilations, low, high):
        if isinstance(padded, int) and isinstance(reach, int) and dim != 0 and reach > padded:
            cls.fail(
                f"a window that reaches over {reach} elements is larger than the {padded} there are, padding counted"
            )


def windows_fit(dims: Sizes, window: Sizes, dilations: Sequence[int], low: Sizes, high: Sizes) -> list[Agreement]:
    """The same condition, checked at run time."""
    found = []
    for dim, padded, reach in _reaches(dims, window, dilations, low, high):
        if not (isinstance(padded, int) and isinstance(reach, int)) and not at_most(reach, padded):
            found.append(Agreement(reach, dim_max(padded, reach * (1 - dim_min(dim, 1))), "at most"))
    return found


def window_size(dim: Dim, window: Dim, stride: int, dilation: int, low: Dim, high: Dim) -> Dim:
    """The number of positions of a dilated window on a padded axis."""
    return dim_max(0, floordiv(low + dim + high - ((window - 1) * dilation + 1), stride) + 1)
