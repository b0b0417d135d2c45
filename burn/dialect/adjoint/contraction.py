"""Contractions: each operand's cotangent is a contraction of the result's cotangent with the other operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint.rules import rule
from burn.dialect.compose import convert, number_like, reshape, transpose
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim, dim_max, non_negative
from burn.dialect.types import type_of


@rule("dot_general")
def dot_general(
    g: Value,
    y: Value,
    lhs: Value,
    rhs: Value,
    lhs_batch: tuple[int, ...],
    rhs_batch: tuple[int, ...],
    lhs_contract: tuple[int, ...],
    rhs_contract: tuple[int, ...],
    dtype: str | None,
    sums: str | None,
) -> list[Value]:
    """g is [batch.., rows.., columns..]. Rows are the axes of lhs that are neither batch nor contracted, columns those
    of rhs."""
    g = convert(g, type_of(lhs).dtype)
    batch = len(lhs_batch)
    rows = [i for i in range(type_of(lhs).rank) if i not in (*lhs_batch, *lhs_contract)]
    cols = [i for i in range(type_of(rhs).rank) if i not in (*rhs_batch, *rhs_contract)]
    of_rows = tuple(range(batch, batch + len(rows)))
    of_cols = tuple(range(batch + len(rows), batch + len(rows) + len(cols)))
    along = tuple(range(batch))
    # [batch, rows, lhs's contracted axes in the order of rhs]
    left = ops.dot_general(g, rhs, lhs_batch=along, rhs_batch=rhs_batch, lhs_contract=of_cols, rhs_contract=tuple(cols))
    met = [c for _, c in sorted(zip(rhs_contract, lhs_contract, strict=True))]
    left = _in_order(left, [*lhs_batch, *rows, *met])
    # [batch, rhs's contracted axes in the order of lhs, columns]; for another order in rhs, columns come first
    met = [c for _, c in sorted(zip(lhs_contract, rhs_contract, strict=True))]
    if cols and met and max(cols) < min(met):
        right = ops.dot_general(
            g, lhs, lhs_batch=along, rhs_batch=lhs_batch, lhs_contract=of_rows, rhs_contract=tuple(rows)
        )
        return [left, _in_order(right, [*rhs_batch, *cols, *met])]
    right = ops.dot_general(
        lhs, g, lhs_batch=lhs_batch, rhs_batch=along, lhs_contract=tuple(rows), rhs_contract=of_rows
    )
    return [left, _in_order(right, [*rhs_batch, *met, *cols])]


def _in_order(x: Value, axes: list[int]) -> Value:
    """Transposes x, whose axis i is axis axes[i] of the result."""
    return transpose(x, tuple(axes.index(i) for i in range(len(axes))))


@rule("conv")
def conv(
    g: Value,
    y: Value,
    x: Value,
    weight: Value,
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    low: tuple[Dim, ...],
    high: tuple[Dim, ...],
    groups: int,
    layout: str,
    dtype: str | None,
    fill: int | None,
) -> list[Value]:
    assert layout == "first", "differentiation comes before layouts"
    assert fill is None, "and before products of floats become those of integers"
    g = convert(g, type_of(x).dtype)
    rows = zip(
        type_of(g).shape[2:], strides, type_of(weight).shape[2:], dilations, low, type_of(x).shape[2:], strict=True
    )
    rest = tuple((e - 1) * s + (k - 1) * t + 1 - p - d for e, s, k, t, p, d in rows)
    options: dict[str, Any] = {"strides": strides, "dilations": dilations, "groups": groups}
    of_x = ops.conv_transpose(g, weight, low=low, high=rest, extra=(0,) * len(strides), **options)
    return [of_x, kernel_gradient(g, x, type_of(weight).shape[2:], strides, low, high, dilations, groups)]


@rule("conv_transpose")
def conv_transpose(
    g: Value,
    y: Value,
    x: Value,
    weight: Value,
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    low: tuple[Dim, ...],
    high: tuple[Dim, ...],
    extra: tuple[int, ...],
    groups: int,
) -> list[Value]:
    """The gradients of both operands."""
    g, low, high = _without_negative(g, low, high)
    of_x = transposed_input_gradient(g, weight, type_of(x).shape[2:], strides, low, high, dilations, groups)
    return [of_x, kernel_gradient(x, g, type_of(weight).shape[2:], strides, low, high, dilations, groups)]


def transposed_input_gradient(
    g: Value, weight: Value, spatial: Sequence[Dim], strides: Any, low: Any, high: Any, dilations: Any, groups: int
) -> Value:
    """The gradient of the input, with these spatial sizes, of a transposed convolution: the convolution of the result's cotangent
    g. The input does not contribute to rows at the end of the result; a stride or more of them would be further windows."""
    of_x = ops.conv(g, weight, strides=strides, dilations=dilations, low=low, high=high, groups=groups)
    starts, steps = (0,) * (len(spatial) + 2), (1,) * (len(spatial) + 2)
    return ops.slice(of_x, starts=starts, sizes=(*type_of(of_x).shape[:2], *spatial), steps=steps)


def _without_negative(g: Value, low: tuple[Dim, ...], high: tuple[Dim, ...]) -> tuple[Value, Any, Any]:
    """Negative padding of a transposed convolution added zeros around its result, which have no gradient. Padding g
    instead removes them."""
    before = tuple(-p if isinstance(p, int) and p < 0 else 0 for p in low)
    after = tuple(-p if isinstance(p, int) and p < 0 else 0 for p in high)
    if any(isinstance(d, int) and d < b + a for d, b, a in zip(type_of(g).shape[2:], before, after, strict=True)):
        # More is removed than there is: some of it is padding on the other side.
        wide = [tuple(0 if isinstance(p, int) and p < 0 else p for p in ends) for ends in (low, high)]
        g = ops.pad(g, number_like(0.0, g), low=(0, 0, *wide[0]), high=(0, 0, *wide[1]))
        low, high = ((0,) * len(low),) * 2
    if any((*before, *after)):
        g = ops.slice(
            g,
            starts=(0, 0, *before),
            sizes=(
                *type_of(g).shape[:2],
                *(d - a - b for d, a, b in zip(type_of(g).shape[2:], before, after, strict=True)),
            ),
            steps=(1,) * type_of(g).rank,
        )
        low = tuple(0 if b else p for p, b in zip(low, before, strict=True))
        high = tuple(0 if a else p for p, a in zip(high, after, strict=True))
    return g, low, high


def kernel_gradient(
    few: Value, many: Value, kernel: Any, strides: Any, low: Any, high: Any, dilations: Any, groups: int
) -> Value:
    """Multiplies `few` [N, A, e..] with the elements of `many` [N, B, d..] under the kernel's windows, summed over N
    and e: [A, B / groups, k..]. Channels come last, so that rows and columns of the matmul are contiguous."""
    n = len(kernel)
    batch, a, *sizes = type_of(few).shape
    b = type_of(many).shape[1]
    # Rows may be missing at the end or left over, depending on a run's sizes. Excess rows are removed below.
    high = tuple(p if isinstance(p, int) or non_negative(p) else dim_max(p, 0) for p in high)
    if any((*low, *high)):
        many = ops.pad(many, number_like(0, many), low=(0, 0, *low), high=(0, 0, *high))
    rows = zip(sizes, kernel, strides, dilations, strict=True)
    reached = (batch, b, *(0 if e == 0 else (e - 1) * s + (k - 1) * t + 1 for e, k, s, t in rows))
    if reached != type_of(many).shape:  # rows after the last window
        many = ops.slice(many, starts=(0,) * (n + 2), sizes=reached, steps=(1,) * (n + 2))
    last, space = (0, *range(2, n + 2), 1), tuple(range(1, n + 1))
    if not all(isinstance(k, int) for k in kernel):
        return _by_convolution(few, many, strides, dilations, groups)
    few, many = transpose(few, last), transpose(many, last)
    under = ops.windows(many, axis=1, window=tuple(kernel), strides=strides, dilations=dilations)
    if groups == 1:
        found = ops.dot_general(under, few, lhs_contract=(0, *space), rhs_contract=(0, *space))
        return transpose(found, (n + 1, n, *range(n)))
    few = reshape(few, (batch, *sizes, groups, a // groups))
    under = reshape(under, (batch, *sizes, *kernel, groups, b // groups))
    found = ops.dot_general(
        under, few, lhs_batch=(2 * n + 1,), rhs_batch=(n + 1,), lhs_contract=(0, *space), rhs_contract=(0, *space)
    )
    return reshape(transpose(found, (0, n + 2, n + 1, *range(1, n + 1))), (a, b // groups, *kernel))


def _by_convolution(few: Value, many: Value, strides: Any, dilations: Any, groups: int) -> Value:
    """The same for a kernel of named sizes, whose windows cannot be enumerated: a convolution of `many` with `few` as
    kernel. Batch and channels are exchanged, like strides and dilations."""
    n = len(strides)
    batch, b, *space = type_of(many).shape
    few = transpose(few, (1, 0, *range(2, n + 2)))
    many = transpose(reshape(many, (batch, groups, b // groups, *space)), (2, 1, 0, *range(3, n + 3)))
    many = reshape(many, (b // groups, groups * batch, *space))
    none = (0,) * n
    found = ops.conv(many, few, strides=dilations, dilations=strides, low=none, high=none, groups=groups)
    return transpose(found, (1, 0, *range(2, n + 2)))
