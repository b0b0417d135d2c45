"""Transposed convolutions whose phases are one convolution, with the outputs of all phases as its channels.

Results that are a stride apart form a phase, and each phase has kernel elements of its own. If the kernel is a multiple of the
stride, or not larger, all phases have equally many and read the same elements, so that one matmul computes all of them. With few
outputs, one for each phase would leave most lanes of a vector empty. The results are then arranged, without conditions and sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import number_like, reshape, transpose
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.phases import Phases, kernel_of
from burn.dialect.types import TensorType, type_of

FEW = 32
"""Up to this many outputs, phases are computed together. More fill the vectors of a matmul for each phase, whose results need no
arrangement of their own."""


def together(
    x: ir.Value, weight: ir.Value, strides: Sequence[int], low: Sequence[Dim], result: TensorType
) -> ir.Value | None:
    """The transposed convolution of x [N, C, d..] and weight [C, O, k..], without groups or dilation, of this result. None if
    phases read different elements, or if it is not known by how much the result is cropped."""
    _, outputs, *window = type_of(weight).shape
    kernel = [k for k in window if isinstance(k, int) and k > 0]
    if not isinstance(outputs, int) or outputs > FEW or len(kernel) < len(window):
        return None
    rows = list(zip(type_of(x).shape[2:], kernel, strides, low, result.shape[2:], strict=True))
    if not all(k <= s or k % s == 0 for _, k, s, _, _ in rows):
        return None
    if not all(isinstance(p, int) and p >= 0 for p in low) or all(s == 1 for s in strides):
        return None
    phases = [min(k, s) for _, k, s, _, _ in rows]
    taps = [k // p for k, p in zip(kernel, phases, strict=True)]
    missing = [p + e - (d + t - 1) * s for (d, _, s, p, e), t in zip(rows, taps, strict=True)]
    if not all(isinstance(m, int) for m in missing):
        return None
    n = len(kernel)
    outer = tuple(t - 1 for t in taps)
    options: dict[str, Any] = {"strides": (1,) * n, "dilations": (1,) * n, "low": outer, "high": outer}
    kernels = kernel_of(weight, [Phases(0, p, t, 0, p) for p, t in zip(phases, taps, strict=True)])
    found = ops.conv(x, kernels, **options)
    return _arranged(found, phases, strides, outputs, low, missing, result)


def _arranged(
    found: ir.Value,
    phases: Sequence[int],
    strides: Sequence[int],
    outputs: Dim,
    low: Sequence[Dim],
    missing: Sequence[Dim],
    result: TensorType,
) -> ir.Value:
    """[N, phases.. O, e..] -> the result: phases next to each other, zeros for those that no kernel element reaches, the ends
    cropped, or `missing` rows added."""
    batch, _, *sizes = type_of(found).shape
    n = len(sizes)
    apart = reshape(found, (batch, *phases, outputs, *sizes))
    order = (0, n + 1, *(axis for i in range(n) for axis in (n + 2 + i, 1 + i)))
    blocks = transpose(apart, order)
    gaps = tuple(s - p for s, p in zip(strides, phases, strict=True))
    if any(gaps):
        none = (0,) * (2 * n + 2)
        high = (0, 0, *(gap for each in gaps for gap in (0, each)))
        blocks = ops.pad(blocks, number_like(0, blocks), low=none, high=high, interior=none)
    whole = tuple(e * s for e, s in zip(sizes, strides, strict=True))
    rows = reshape(blocks, (batch, outputs, *whole))
    added = tuple(max(0, m) if isinstance(m, int) else 0 for m in missing)
    if any(added):
        none = (0,) * (n + 2)
        rows = ops.pad(rows, number_like(0, rows), low=none, high=(0, 0, *added), interior=none)
    if type_of(rows).shape == result.shape:
        return rows
    return ops.slice(rows, starts=(0, 0, *low), sizes=result.shape, steps=(1,) * (n + 2))
