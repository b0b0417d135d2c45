"""Composites around `conv`: the transposed convolution, over an input spread out by its strides; and what windows see."""

from __future__ import annotations

from itertools import product as places_of

from burn.dialect import ops
from burn.dialect.compose import number_like, reshape, transpose
from burn.dialect.dims import Dim, dim_max, floordiv, non_negative, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand, same_type
from burn.dialect.types import TensorType, type_of


class ConvTranspose(Op, name="conv_transpose"):
    """The gradient of `conv` with respect to its input, also called deconvolution, over 1 to 3 spatial axes.

    Shapes: x [N, C, d..], weight [C, O / groups, k..] -> [N, O, e..], e = (d - 1) * stride + extra + (k - 1) * dilation
    + 1 - low - high. `extra` rows are added at the end (ONNX output_padding); low and high may be negative."""

    x: Operand
    weight: Operand
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    extra: tuple[int, ...]
    groups: int = 1

    @classmethod
    def infer(cls, x: TensorType, weight: TensorType, strides, dilations, low, high, extra, groups) -> TensorType:
        same_type(cls, x, weight)
        n = len(strides)
        if x.rank != n + 2 or weight.rank != n + 2 or not n == len(dilations) == len(low) == len(high) == len(extra):
            cls.fail(f"x {x} and weight {weight} do not fit {n} spatial axes")
        if min(*strides, *dilations, groups) < 1:
            cls.fail(f"strides {list(strides)}, dilations {list(dilations)} and groups {groups} must be at least 1")
        a, b = x.shape[1], weight.shape[0]
        if isinstance(a, int) and isinstance(b, int) and (a != b or b % groups):
            cls.fail(f"{a} input channels do not fit weight {weight} with {groups} groups", "groups")
        sizes = [
            (d - 1) * s + e + (k - 1) * t + 1 - p - q
            for d, s, e, k, t, p, q in zip(
                x.shape[2:], strides, extra, weight.shape[2:], dilations, low, high, strict=True
            )
        ]
        return x.with_shape((x.shape[0], weight.shape[1] * groups, *sizes))

    @classmethod
    def decompose(cls, x: ir.Value, weight: ir.Value, strides, dilations, low, high, extra, groups) -> ir.Value:
        kernel = type_of(weight).shape[2:]
        if groups == 1 and kernel == strides and not any((*low, *high, *extra)) and set(dilations) == {1}:
            return _without_overlap(x, weight)
        n = len(strides)
        reach = [(k - 1) * t for k, t in zip(kernel, dilations, strict=True)]
        before = [r - p for r, p in zip(reach, low, strict=True)]
        after = [r - p + e for r, p, e in zip(reach, high, extra, strict=True)]
        pads = [d if non_negative(d) else dim_max(d, 0) for d in (*before, *after)]
        spread = x
        if any(s > 1 for s in strides):
            zeros = (0,) * (n + 2)
            inner = (0, 0, *(s - 1 for s in strides))
            spread = ops.pad(x, number_like(0, x), low=zeros, high=zeros, interior=inner)
        result = ops.conv(
            spread,
            _turned(weight, groups),
            strides=(1,) * n,
            dilations=dilations,
            low=tuple(pads[:n]),
            high=tuple(pads[n:]),
            groups=groups,
        )
        return _cropped(result, [a - p for a, p in zip(before, pads[:n], strict=True)], after, pads[n:])


def _without_overlap(x: ir.Value, weight: ir.Value) -> ir.Value:
    """Each input element makes a block of its own: one product over channels, then the blocks in their places."""
    batch, _, *spatial = type_of(x).shape
    inputs, channels, *kernel = type_of(weight).shape
    n = len(spatial)
    columns = reshape(transpose(weight, (0, *range(2, n + 2), 1)), (inputs, product(kernel) * channels))
    rows = ops.dot_general(x, columns, lhs_contract=(1,), rhs_contract=(0,))
    blocks = reshape(rows, (batch, *spatial, *kernel, channels))
    order = (0, 2 * n + 1, *(axis for i in range(n) for axis in (1 + i, n + 1 + i)))
    sizes = tuple(d * k for d, k in zip(spatial, kernel, strict=True))
    return reshape(transpose(blocks, order), (batch, channels, *sizes))


def _turned(weight: ir.Value, groups: int) -> ir.Value:
    """The kernel of the equivalent convolution: mirrored, inputs and outputs exchanged. [C, O/g, k..] -> [O, C/g,
    k..]"""
    inputs, outputs, *kernel = type_of(weight).shape
    n = len(kernel)
    mirrored = weight
    if any(k != 1 for k in kernel):
        shape = (inputs, outputs, *kernel)
        mirrored = ops.slice(weight, starts=(0, 0, *(k - 1 for k in kernel)), sizes=shape, steps=(1, 1, *[-1] * n))
    grouped = reshape(mirrored, (groups, inputs // groups, outputs, *kernel))
    swapped = transpose(grouped, (0, 2, 1, *range(3, n + 3)))
    return reshape(swapped, (outputs * groups, inputs // groups, *kernel))


def _cropped(x: ir.Value, before: list[Dim], after: list[Dim], padded: list[Dim]) -> ir.Value:
    """Takes off what negative pads, which `conv` does not have, would have left out."""
    shape = type_of(x).shape
    starts = [p * -1 for p in before]
    ends = [p - a for a, p in zip(after, padded, strict=True)]
    if not any((*starts, *ends)):
        return x
    sizes = [d - a - b for d, a, b in zip(shape[2:], starts, ends, strict=True)]
    return ops.slice(x, starts=(0, 0, *starts), sizes=(*shape[:2], *sizes), steps=(1,) * len(shape))


class Windows(Op, name="windows"):
    """What lies under a window at each of its positions, over as many axes from `axis` on as the window has.
    Shapes: x [a.., d.., b..] -> [a.., e.., k.., b..], e = (d - (k - 1) * dilation - 1) // stride + 1."""

    x: Operand
    axis: int
    window: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    @classmethod
    def infer(cls, x: TensorType, axis: int, window, strides, dilations) -> TensorType:
        end = axis + len(window)
        if not len(window) == len(strides) == len(dilations) or not 0 <= axis <= end <= x.rank:
            cls.fail(f"a window of {len(window)} axes from axis {axis} on does not fit {x}")
        if min((*window, *strides, *dilations), default=1) < 1:
            cls.fail(f"window, strides and dilations must be at least 1: {window}, {strides}, {dilations}")
        rows = zip(x.shape[axis:end], window, strides, dilations, strict=True)
        places = tuple(floordiv(d - (k - 1) * t - 1, s) + 1 for d, k, s, t in rows)
        if any(isinstance(e, int) and e < 0 for e in places):
            cls.fail(f"the window {list(window)} is larger than {x}")
        return x.with_shape((*x.shape[:axis], *places, *window, *x.shape[end:]))

    @classmethod
    def decompose(cls, x: ir.Value, axis: int, window, strides, dilations) -> ir.Value:
        """A slice for each place of the window, joined."""
        shape, end = type_of(x).shape, axis + len(window)
        before, behind, sizes = shape[:axis], shape[end:], cls.infer(type_of(x), axis, window, strides, dilations).shape
        positions = sizes[axis:end]
        parts = []
        for place in places_of(*map(range, window)):
            starts = (i * t for i, t in zip(place, dilations, strict=True))
            under = ops.slice(
                x,
                starts=(*(0,) * len(before), *starts, *(0,) * len(behind)),
                sizes=(*before, *positions, *behind),
                steps=(*(1,) * len(before), *strides, *(1,) * len(behind)),
            )
            parts.append(ops.reshape(under, shape=(*before, *positions, 1, *behind)))
        return ops.reshape(ops.concat(parts, axis=end), shape=sizes)
