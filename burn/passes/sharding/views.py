"""The factors of ops whose result has the elements of their operand."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.passes.sharding.factors import (
    Build,
    Factors,
    New,
    aligned,
    factors_for,
    operand_shapes,
    result_shape,
    undivided,
)
from burn.passes.sharding.grid import Axes, Grid, local


def _sized(attribute: str) -> Build:
    """The op whose attribute is the shape of its result."""

    def build(op: Op, operands: Sequence[ir.Value], results: Sequence[Axes], grid: Grid) -> Any:
        shape = local(result_shape(op), results[0], grid)
        return op.build(*operands, **{**op.attrs, attribute: shape})

    return build


@factors_for("broadcast_to")
def _broadcast_to(op: Op) -> Factors:
    new, out = New(), result_shape(op)
    result = new.of(out)
    return Factors(
        [aligned(operand_shapes(op)[0], out, result)], [result], new.sizes, linear="one", build=_sized("shape")
    )


@factors_for("transpose")
def _transpose(op: Op) -> Factors:
    new = New()
    x = new.of(operand_shapes(op)[0])
    return Factors([x], [[x[p] for p in op.permutation]], new.sizes, linear="one")


@factors_for("reshape")
def _reshape(op: Op) -> Factors:
    """Row-major order: of axes that are merged or split, the outermost can be divided."""
    new, have, want = New(), operand_shapes(op)[0], result_shape(op)
    x, y = undivided(have), undivided(want)
    if all(isinstance(d, int) for d in (*have, *want)) and prod(have):
        for mine, theirs in _merged(have, want):
            i, j = (next((k for k in part if sizes[k] > 1), None) for part, sizes in ((mine, have), (theirs, want)))
            if i is not None and j is not None:
                x[i] = y[j] = new(gcd(have[i], want[j]))
    return Factors([x], [y], new.sizes, linear="one", build=_sized("shape"))


def _merged(have: Sequence[int], want: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of axes with equally many elements."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(have) and j < len(want):
        mine, theirs, a, b = [i], [j], have[i], want[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a, i = a * have[i], i + 1
                mine.append(i - 1)
            else:
                b, j = b * want[j], j + 1
                theirs.append(j - 1)
        found.append((mine, theirs))
    return found


@factors_for("slice")
def _slice(op: Op) -> Factors:
    new, have = New(), operand_shapes(op)[0]
    rows = zip(have, op.starts, op.sizes, op.steps, strict=True)
    x = [new(d) if (start, size, step) == (0, d, 1) else None for d, start, size, step in rows]
    return Factors([x], [x], new.sizes, linear="one", build=_sized("sizes"))


@factors_for("pad")
def _pad(op: Op) -> Factors:
    new, have = New(), operand_shapes(op)[0]
    interior = op.interior or (0,) * len(have)
    rows = zip(have, op.low, op.high, interior, strict=True)
    x = [new(d) if (low, high, gap) == (0, 0, 0) else None for d, low, high, gap in rows]
    return Factors([x, []], [x], new.sizes)


@factors_for("concat")
def _concat(op: Op) -> Factors:
    new, out = New(), result_shape(op)
    axis = op.axis % len(out)
    result = [None if i == axis else new(d) for i, d in enumerate(out)]
    return Factors([result] * len(operand_shapes(op)), [result], new.sizes)


@factors_for("windows")
def _windows(op: Op) -> Factors:
    new, have = New(), operand_shapes(op)[0]
    end = op.axis + len(op.window)
    x = [None if op.axis <= i < end else new(d) for i, d in enumerate(have)]
    result = [*x[: op.axis], *[None] * (2 * len(op.window)), *x[end:]]
    return Factors([x], [result], new.sizes)
