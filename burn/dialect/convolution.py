"""Composites around `conv`: the transposed convolution, one stride phase at a time, and sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as places_of
from math import gcd, prod
from typing import Any

from burn.dialect import ops
from burn.dialect.batching.contraction import conv_transpose
from burn.dialect.batching.rules import leading
from burn.dialect.compose import number_like, reshape, transpose
from burn.dialect.dims import Dim, ceildiv, dim_max, dim_min, floordiv, non_negative, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand, same_type
from burn.dialect.phases_together import together
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, type_of


class ConvTranspose(Op, name="conv_transpose", traits=Trait.LOW_PRECISION, batching=conv_transpose):
    """The gradient of `conv` with respect to its input, also called deconvolution, over 1 to 3 spatial axes.

    Shapes: x [N, C, d..], weight [C, O / groups, k..] -> [N, O, e..], e = (d - 1) * stride + extra + (k - 1) * dilation
    + 1 - low - high. `extra` adds rows at the end (ONNX output_padding); low and high may be negative.
    """

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
        if (least := min((e for e in sizes if isinstance(e, int)), default=0)) < 0:
            cls.fail(f"low {list(low)} and high {list(high)} leave {least} elements along an axis of {x} and {weight}")
        return x.with_shape((x.shape[0], weight.shape[1] * groups, *sizes))

    def flops(self) -> Dim:
        return type_of(self.x).elements * product(type_of(self.weight).shape[1:]) * 2

    @classmethod
    def decompose(cls, x: ir.Value, weight: ir.Value, strides, dilations, low, high, extra, groups) -> ir.Value:
        """One convolution for each phase of the stride: results that are a stride apart use the same kernel elements.
        The phases are dilated and added. (Dilating x instead would need one convolution, mostly of zeros.)"""
        kernel = type_of(weight).shape[2:]
        if groups == 1 and kernel == strides and not any((*low, *high, *extra)) and set(dilations) == {1}:
            return _without_overlap(x, weight)
        result = cls.infer(type_of(x), type_of(weight), strides, dilations, low, high, extra, groups)
        if groups == 1 and set(dilations) == {1} and (found := together(x, weight, strides, low, result)) is not None:
            return found
        told = all(
            s == 1 or (isinstance(k, int) and isinstance(p, int)) for s, k, p in zip(strides, kernel, low, strict=True)
        )
        if not told or prod(strides) > MOST_PHASES:
            x, strides = _spread(x, strides), (1,) * len(strides)
        rows = zip(type_of(x).shape[2:], kernel, strides, dilations, low, result.shape[2:], strict=True)
        total = None
        for phases in places_of(*(_phases(*row) for row in rows)):
            if all(p.count != 0 and p.taps != 0 for p in phases):
                part = _spread(_phase(x, weight, phases, groups), strides, phases, result.shape[2:])
                total = part if total is None else ops.add(total, part)
        return ops.full(shape=result.shape, dtype=result.dtype, value=0.0) if total is None else total


MOST_PHASES = 16
"""The most convolutions that a transposed one may become."""


@dataclass(frozen=True)
class _Phase:
    """Along one axis, `count` results that are a stride apart, starting at `at`. They are the convolution of x, padded
    by `before` and `after`, with every `step`-th of the kernel's elements in reverse order, `dilation` apart. `spare`
    is 1 if only the run's sizes tell that there are no such results; then padding makes the kernel fit."""

    at: int
    count: Dim
    taps: Dim
    last: Dim
    step: int
    dilation: int
    before: Dim
    after: Dim
    spare: Dim


def _phases(size: Dim, kernel: Any, stride: int, dilation: int, low: Any, result: Dim) -> list[_Phase]:
    """Result o sums, over k, kernel element k times element (o + low - k * dilation) / stride of x."""
    step, apart = stride // gcd(stride, dilation), dilation // gcd(stride, dilation)
    phases = []
    for at in range(stride):
        first = next((k for k in range(step) if (at + low - k * dilation) % stride == 0), None) if stride > 1 else 0
        taps = 0 if first is None else kernel if stride == 1 else max(0, -(-(kernel - first) // step))
        last = (first or 0) + (taps - 1) * step
        count = ceildiv(result - at, stride) if stride > 1 else result
        before = (last * dilation - at - low) // stride if stride > 1 else last * dilation - low
        after = count + (taps - 1) * apart - before - size
        some = non_negative(count - 1, *(() if isinstance(size, int) else (size,)))
        phases.append(_Phase(at, count, taps, last, step, apart, before, after, 0 if some else 1 - dim_min(count, 1)))
    return phases


def _phase(x: ir.Value, weight: ir.Value, phases: Sequence[_Phase], groups: int) -> ir.Value:
    """The convolution of x for one phase of every axis."""
    due = (*(p.before for p in phases), *(p.after + p.spare for p in phases))
    pads = [d if non_negative(d) else dim_max(d, 0) for d in due]
    n = len(phases)
    result = ops.conv(
        x,
        _turned(weight, phases, groups),
        strides=(1,) * n,
        dilations=tuple(p.dilation for p in phases),
        low=tuple(pads[:n]),
        high=tuple(pads[n:]),
        groups=groups,
    )
    before = [p.before - d for p, d in zip(phases, pads[:n], strict=True)]
    return _cropped(result, before, [p.after for p in phases], pads[n:])


def _spread(x: ir.Value, strides: Sequence[int], phases: Sequence[_Phase] = (), sizes: Sequence[Dim] = ()) -> ir.Value:
    """x with its elements a stride apart and zeros between. The phases of a result of `sizes` are put at their offsets
    in it."""
    if not any(s > 1 for s in strides):
        return x
    low = tuple(p.at for p in phases) or (0,) * len(strides)
    rows = zip(sizes, phases, strides, strict=True)
    high = tuple(e - 1 - (p.count - 1) * s - p.at for e, p, s in rows) if phases else low
    gaps = tuple(s - 1 for s in strides)
    return ops.pad(x, number_like(0, x), low=(0, 0, *low), high=(0, 0, *high), interior=(0, 0, *gaps))


def _without_overlap(x: ir.Value, weight: ir.Value) -> ir.Value:
    """Each input element produces a block of its own: one matmul over channels, then the blocks are arranged."""
    batch, _, *spatial = type_of(x).shape
    inputs, channels, *kernel = type_of(weight).shape
    n = len(spatial)
    columns = reshape(transpose(weight, (0, *range(2, n + 2), 1)), (inputs, product(kernel) * channels))
    rows = ops.dot_general(x, columns, lhs_contract=(1,), rhs_contract=(0,))
    blocks = reshape(rows, (batch, *spatial, *kernel, channels))
    order = (0, 2 * n + 1, *(axis for i in range(n) for axis in (1 + i, n + 1 + i)))
    sizes = tuple(d * k for d, k in zip(spatial, kernel, strict=True))
    return reshape(transpose(blocks, order), (batch, channels, *sizes))


def _turned(weight: ir.Value, phases: Sequence[_Phase], groups: int) -> ir.Value:
    """The kernel of a phase: its elements in reverse order, inputs and outputs exchanged. [C, O/g, k..] -> [O, C/g,
    taps..]"""
    inputs, outputs, *kernel = type_of(weight).shape
    taps = tuple(p.taps for p in phases)
    mirrored = weight
    if any(k != 1 for k in kernel):
        starts, steps = (p.last for p in phases), (-p.step for p in phases)
        mirrored = ops.slice(weight, starts=(0, 0, *starts), sizes=(inputs, outputs, *taps), steps=(1, 1, *steps))
    grouped = reshape(mirrored, (groups, inputs // groups, outputs, *taps))
    swapped = transpose(grouped, (0, 2, 1, *range(3, len(taps) + 3)))
    return reshape(swapped, (outputs * groups, inputs // groups, *taps))


def _cropped(x: ir.Value, before: list[Dim], after: list[Dim], padded: list[Dim]) -> ir.Value:
    """Crops what negative padding, which `conv` lacks, would have removed."""
    shape = type_of(x).shape
    starts = [p * -1 for p in before]
    ends = [p - a for a, p in zip(after, padded, strict=True)]
    if not any((*starts, *ends)):
        return x
    sizes = [d - a - b for d, a, b in zip(shape[2:], starts, ends, strict=True)]
    return ops.slice(x, starts=(0, 0, *starts), sizes=(*shape[:2], *sizes), steps=(1,) * len(shape))


class Windows(Op, name="windows", traits=Trait.VIEW | Trait.REPEATABLE, batching=leading("axis")):
    """The elements under a sliding window at each position, over as many axes from `axis` on as the window has. Shapes:
    x [a.., d.., b..] -> [a.., e.., k.., b..], e = (d - (k - 1) * dilation - 1) // stride + 1."""

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
        counts = tuple(floordiv(d - (k - 1) * t - 1, s) + 1 for d, k, s, t in rows)
        if any(isinstance(e, int) and e < 0 for e in counts):
            cls.fail(f"the window {list(window)} is larger than {x}")
        return x.with_shape((*x.shape[:axis], *counts, *window, *x.shape[end:]))

    @classmethod
    def decompose(cls, x: ir.Value, axis: int, window, strides, dilations) -> ir.Value:
        """Concatenates one slice for each offset in the window."""
        shape, end = type_of(x).shape, axis + len(window)
        before, behind, sizes = shape[:axis], shape[end:], cls.infer(type_of(x), axis, window, strides, dilations).shape
        positions = sizes[axis:end]
        parts = []
        for offset in places_of(*map(range, window)):
            starts = (i * t for i, t in zip(offset, dilations, strict=True))
            under = ops.slice(
                x,
                starts=(*(0,) * len(before), *starts, *(0,) * len(behind)),
                sizes=(*before, *positions, *behind),
                steps=(*(1,) * len(before), *strides, *(1,) * len(behind)),
            )
            parts.append(ops.reshape(under, shape=(*before, *positions, 1, *behind)))
        return ops.reshape(ops.concat(parts, axis=end), shape=sizes)
