"""Phases of transposed convolutions: results that are a stride apart, which use the same kernel elements.

Along an axis, result o sums kernel element k times element (o + low - k * dilation) / stride of the input. Phase p has the
results with (o + low) % stride == p, and taps the kernel elements with (k * dilation) % stride == p. `Phases` are neighbouring
phases that one convolution computes, with the results of each as channels of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from burn.dialect import ops
from burn.dialect.compose import number_like, reshape, transpose
from burn.dialect.dims import Dim, exact_div, product
from burn.dialect.mlir import ir
from burn.dialect.types import type_of


@dataclass(frozen=True)
class Phases:
    """`count` phases of an axis from `first` on, and the kernel elements that their convolution multiplies: tap i of phase p is
    element `element` + p - `first` + i * `step`. It reads the input `lead` + i * `apart` elements before the result's index,
    which counts strides. A kernel has zeros beyond its end. Several phases need a dilation of 1."""

    first: int
    count: int
    taps: int
    element: int
    step: int
    apart: int = 1
    lead: int = 0

    @property
    def reach(self) -> int:
        """How far before the result's index the convolution reads."""
        return self.lead + (self.taps - 1) * self.apart


def separate(kernel: int, stride: int, dilation: int) -> list[Phases]:
    """Every phase of an axis by itself, up to the last one with taps."""
    common = gcd(stride, dilation)
    step, apart = stride // common, dilation // common
    found = []
    for phase in range(stride):
        element = next((k for k in range(step) if (k * dilation - phase) % stride == 0), kernel)
        taps = max(0, -(-(kernel - element) // step))
        found.append(
            Phases(phase, 1, taps, element, step, apart, (element * dilation - phase) // stride if taps else 0)
        )
    while not found[-1].taps:  # the first phase has the kernel's first element
        found.pop()
    return found


def by_taps(kernel: int, stride: int) -> list[Phases]:
    """The phases of an axis without dilation that have taps, those with equally many together."""
    taps, more = divmod(kernel, stride)
    rows = ((0, more, taps + 1), (more, stride - more, taps))
    return [Phases(first, count, taps, first, stride) for first, count, taps in rows if count and taps]


def whole(kernel: int, stride: int) -> list[Phases]:
    """All phases of an axis without dilation that have taps together. The kernel has zeros for those with fewer."""
    return [Phases(0, min(kernel, stride), -(-kernel // stride), 0, stride)]


def kernel_of(weight: ir.Value, axes: Sequence[Phases], groups: int = 1) -> ir.Value:
    """The kernel of a convolution that computes these phases: [C, O/g, k..] -> [g, phases.., O/g, C/g, taps..], with the first
    axes joined."""
    inputs, outputs, *kernel = type_of(weight).shape
    n = len(axes)
    used = [_elements(k, p) for k, p in zip(kernel, axes, strict=True)]
    starts, sizes, steps = zip(*used, strict=True)
    cropped = ops.slice(weight, starts=(0, 0, *starts), sizes=(inputs, outputs, *sizes), steps=(1, 1, *steps))
    rows = [p.step if p.count > 1 else 1 for p in axes]
    missing = tuple(p.taps * row - size for p, row, size in zip(axes, rows, sizes, strict=True))
    if any(missing):
        none = (0,) * (n + 2)
        cropped = ops.pad(cropped, number_like(0, cropped), low=none, high=(0, 0, *missing), interior=none)
    split = reshape(cropped, (inputs, outputs, *(d for p, row in zip(axes, rows, strict=True) for d in (p.taps, row))))
    mirrored = ops.slice(
        split,
        starts=(0, 0, *(d for p in axes for d in (p.taps - 1, p.first if p.count > 1 else 0))),
        sizes=(inputs, outputs, *(d for p in axes for d in (p.taps, p.count))),
        steps=(1, 1, *(-1, 1) * n),
    )
    counts, taps = tuple(p.count for p in axes), tuple(p.taps for p in axes)
    each = inputs if groups == 1 else inputs // groups
    grouped = reshape(mirrored, (groups, each, outputs, *(d for p in axes for d in (p.taps, p.count))))
    order = (0, *(4 + 2 * i for i in range(n)), 2, 1, *(3 + 2 * i for i in range(n)))
    return reshape(transpose(grouped, order), (product(counts) * groups * outputs, each, *taps))


def _elements(kernel: Dim, phases: Phases) -> tuple[int, int, int]:
    """(start, size, step) of the kernel elements that phases use, and those between them."""
    assert isinstance(kernel, int)
    if phases.count == 1:
        return phases.element, phases.taps, phases.step
    return 0, min(kernel, phases.taps * phases.step), 1


def arranged(
    found: ir.Value,
    strides: Sequence[int],
    phases: Sequence[int],
    groups: int,
    low: Sequence[Dim],
    shape: Sequence[Dim],
) -> ir.Value:
    """[N, g, phases.., O/g, e..], with axes 1 to O/g joined, -> `shape`, [N, O, sizes..]: phases next to each other, without the
    first `low`. There are so many `phases` of each axis; the others of a stride are zeros."""
    batch, channels, *counts = type_of(found).shape
    n = len(counts)
    outputs = exact_div(channels, groups * product(phases))
    assert outputs is not None
    apart = reshape(found, (batch, groups, *phases, outputs, *counts))
    order = (0, 1, n + 2, *(axis for i in range(n) for axis in (n + 3 + i, 2 + i)))
    adjacent = transpose(apart, order)
    missing = [s - p for s, p in zip(strides, phases, strict=True)]
    if any(missing):
        none = (0,) * (2 * n + 3)
        high = (0, 0, 0, *(d for count in missing for d in (0, count)))
        adjacent = ops.pad(adjacent, number_like(0, adjacent), low=none, high=high, interior=none)
    rows = tuple(e * s for e, s in zip(counts, strides, strict=True))
    joined = reshape(adjacent, (batch, shape[1], *rows))
    if type_of(joined).shape == tuple(shape):
        return joined
    return ops.slice(joined, starts=(0, 0, *low), sizes=tuple(shape), steps=(1,) * (n + 2))
