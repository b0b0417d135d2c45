"""The factors of ops that read or write at indices."""

from __future__ import annotations

from burn.dialect.indexing import Gather
from burn.dialect.op import Op
from burn.dialect.query import splat
from burn.passes.sharding.factors import (
    Factors,
    New,
    factors_for,
    operand_shapes,
)


@factors_for("gather")
def _gather(op: Op) -> Factors:
    new, (x, indices) = New(), operand_shapes(op)
    assert isinstance(op, Gather)
    axis = op.axis % len(x)
    a = [None if i == axis else new(d) for i, d in enumerate(x)]
    b = new.of(indices)
    return Factors([a, b], [[*a[:axis], *b, *a[axis + 1 :]]], new.sizes)


@factors_for("gather_elements")
def _gather_elements(op: Op) -> Factors:
    new, (x, indices) = New(), operand_shapes(op)
    axis = op.axis % len(x)
    b = [None if i == axis or d != x[i] else new(d) for i, d in enumerate(indices)]
    return Factors([b, b], [b], new.sizes)


@factors_for("gather_nd")
def _gather_nd(op: Op) -> Factors:
    new, (x, indices) = New(), operand_shapes(op)
    depth, count = indices[-1], op.batch_dims
    shared = [new(d) for d in x[:count]]
    rest = [new(d) for d in x[count + depth :]]
    picked = [new(d) for d in indices[count:-1]]
    return Factors(
        [[*shared, *[None] * depth, *rest], [*shared, *picked, None]], [[*shared, *picked, *rest]], new.sizes
    )


def _adds_to_zeros(op: Op) -> bool:
    return op.reduction == "add" and splat(op.x) == 0


@factors_for("scatter_nd")
def _scatter_nd(op: Op) -> Factors:
    """Updates of zeros are divided: each device adds its own. Axes behind the indexed ones are also divided."""
    new, (x, indices, _) = New(), operand_shapes(op)
    depth, divides = indices[-1], _adds_to_zeros(op)
    rest = [new(d) for d in x[depth:]]
    placed = [new(d) if divides else None for d in indices[:-1]]
    own = [*[None] * depth, *rest]
    reduced = {f: "sum" for f in placed if f is not None}
    linear = "last" if divides else ""
    return Factors([own, [*placed, None], [*placed, *rest]], [own], new.sizes, reduced, linear)


@factors_for("scatter_elements")
def _scatter_elements(op: Op) -> Factors:
    """Axes along which nothing moves, and updates of zeros."""
    new, (x, indices, _) = New(), operand_shapes(op)
    axis = op.axis % len(x)
    own = [None if i == axis or d != indices[i] else new(d) for i, d in enumerate(x)]
    moved, reduced = list(own), dict[int, str]()
    if _adds_to_zeros(op) and (factor := new(indices[axis])) is not None:
        moved[axis], reduced[factor] = factor, "sum"
    return Factors([own, moved, moved], [own], new.sizes, reduced)
