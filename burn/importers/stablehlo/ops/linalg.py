"""Linear algebra. The algorithms are burn.linalg's."""

from __future__ import annotations

from typing import Any

from burn import linalg
from burn.dialect import ops
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.lax.scalars import full, is_empty, like
from burn.importers.stablehlo.node import Node, rule
from burn.tensors.base import made
from burn.tensors.control import loop

Value = ir.Value


def turned(x: Value) -> Value:
    """The matrices transposed."""
    rank = type_of(x).rank
    return ops.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))


def triangle(x: Value, lower: bool) -> Value:
    """The lower or upper triangle with the diagonal; zeros elsewhere."""
    rows, columns = type_of(x).shape[-2:]
    row, column = ops.iota(shape=(rows, 1), axis=0), ops.iota(shape=(1, columns), axis=1)
    return ops.select(ops.ge(row, column) if lower else ops.le(row, column), x, like(0, x))


def _on_diagonal(x: Value) -> Value:
    rows, columns = type_of(x).shape[-2:]
    return ops.eq(ops.iota(shape=(rows, 1), axis=0), ops.iota(shape=(1, columns), axis=1))


def unit(x: Value) -> Value:
    """Ones on the diagonal."""
    return ops.select(_on_diagonal(x), like(1, x), x)


def mirrored(x: Value, lower: bool) -> Value:
    """The symmetric matrix of a triangle."""
    own = triangle(x, lower)
    return ops.add(own, ops.select(_on_diagonal(x), like(0, own), turned(own)))


def cholesky_factor(x: Value, lower: bool) -> Value:
    """The factor in its triangle, NaN where a matrix is not positive definite. The other triangle has x's elements."""
    if is_empty(type_of(x).shape):
        return x
    rank = type_of(x).rank
    factor = linalg.cholesky(made(mirrored(x, lower))).value
    sound = ops.reduce(ops.eq(factor, factor), kind="all", axes=(rank - 2, rank - 1), keepdims=True)
    factor = ops.select(sound, factor, like(float("nan"), factor))
    rows, columns = type_of(x).shape[-2:]
    row, column = ops.iota(shape=(rows, 1), axis=0), ops.iota(shape=(1, columns), axis=1)
    if lower:
        return ops.select(ops.ge(row, column), factor, x)
    return ops.select(ops.le(row, column), turned(factor), x)


def solved(a: Value, b: Value, *, left: bool, lower: bool, transpose: bool, unit_diagonal: bool) -> Value:
    """x with a x = b, or x a = b; of a only one triangle is read."""
    if is_empty(type_of(b).shape) or is_empty(type_of(a).shape):
        return b
    a = triangle(a, lower)
    if unit_diagonal:
        a = unit(a)
    if transpose:
        a, lower = turned(a), not lower
    if not left:
        a, lower, b = turned(a), not lower, turned(b)
    x = linalg.solve_triangular(made(a), made(b), upper=not lower).value
    return x if left else turned(x)


@rule("cholesky")
def cholesky(node: Node) -> Value:
    return cholesky_factor(node.x(0), node.flag("lower"))


@rule("triangular_solve")
def triangular_solve(node: Node) -> Value:
    how = node.word("transpose_a")
    if how not in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
        node.fail(f"has the unknown transpose_a {how}")
    return solved(
        node.x(0),
        node.x(1),
        left=node.flag("left_side"),
        lower=node.flag("lower"),
        transpose=how != "NO_TRANSPOSE",
        unit_diagonal=node.flag("unit_diagonal"),
    )


# ---- LAPACK's packed forms -------------------------------------------------------------------------------------------------
def lu(x: Value) -> tuple[Value, Value]:
    """L below the diagonal and U, and for each step the row, from 0, that it swaps with. Shapes: [.., m, n] -> the same, [..,
    k]."""
    shape = type_of(x).shape
    *batch, m, n = shape
    k = min(m, n) if isinstance(m, int) and isinstance(n, int) else n
    flat = made(x).reshape(-1, m, n) if batch else made(x).unsqueeze(0)
    rows, columns = _counts(m), _counts(n)
    pivots = made(full(type_of(x).with_shape((*type_of(flat.value).shape[:1], k)).with_dtype("int64"), 0))
    steps = _counts(k)

    def eliminate(step: Any, going: Any, a: Any, found: Any) -> tuple[Any, ...]:
        column = (columns == step).where(a, 0.0).sum(2)
        pivot = (rows >= step).where(column.abs(), -1.0).argmax(1, keepdims=True)
        source = (rows == step).where(pivot, (rows == pivot).where(step, rows))
        a = a.gather(1, source.unsqueeze(2).broadcast_to(*a.type.shape))
        column = (columns == step).where(a, 0.0).sum(2)
        row = a.take(step, 1)
        top = (rows == step).where(column, 0.0).sum(1, keepdims=True)
        factor = (rows > step).where(column / (top == 0).where(1.0, top), 0.0)
        a = a - factor.unsqueeze(2) * (columns > step).where(row, 0.0).unsqueeze(1)
        kept = (rows > step).where(factor, column).unsqueeze(2)
        return going, (columns == step).where(kept, a), (steps == step).where(pivot, found)

    packed, order = loop(eliminate, (flat, pivots), trips=k)
    return packed.reshape(*shape).value, order.reshape(*batch, k).value


def _counts(size: Any) -> Any:
    return made(ops.iota(shape=(1, size), axis=1))


def qr(x: Value) -> tuple[Value, Value]:
    """R on and above the diagonal, Householder's vectors below it (their first element is 1), and their factors. Shapes: [..,
    m, n] -> the same, [.., k]. R's diagonal has LAPACK's signs."""
    shape = type_of(x).shape
    *batch, m, n = shape
    k = min(m, n) if isinstance(m, int) and isinstance(n, int) else n
    flat = made(x).reshape(-1, m, n) if batch else made(x).unsqueeze(0)
    rows, columns, steps = _counts(m), _counts(n), _counts(k)
    taus = made(full(type_of(x).with_shape((*type_of(flat.value).shape[:1], k)), 0))

    def reflect(step: Any, going: Any, a: Any, factors: Any) -> tuple[Any, ...]:
        column = (columns == step).where(a, 0.0).sum(2)
        alpha = (rows == step).where(column, 0.0).sum(1, keepdims=True)
        below = (rows > step).where(column, 0.0)
        rest = (below * below).sum(1, keepdims=True)
        plain = rest == 0
        norm = (alpha * alpha + rest).sqrt()
        beta = plain.where(alpha, (alpha >= 0).where(-norm, norm))
        tau = plain.where(0.0, (beta - alpha) / plain.where(1.0, beta))
        v = (rows == step).where(1.0, below / plain.where(1.0, alpha - beta))
        share = (v.unsqueeze(2) * a).sum(1, keepdims=True) * tau.unsqueeze(2)
        new = (columns > step).where(a - v.unsqueeze(2) * share, a)
        stored = (rows == step).where(beta, (rows > step).where(v, column)).unsqueeze(2)
        return going, (columns == step).where(stored, new), (steps == step).where(tau, factors)

    packed, factors = loop(reflect, (flat, taus), trips=k)
    return packed.reshape(*shape).value, factors.reshape(*batch, k).value


def reflections(a: Value, taus: Value) -> Value:
    """The first columns of the product of the reflections I - tau v v^T, each v below the diagonal of a. Shapes: a [.., m, n],
    taus [.., k] -> [.., m, n]."""
    shape = type_of(a).shape
    *batch, m, n = shape
    k = type_of(taus).shape[-1]
    flat = made(a).reshape(-1, m, n) if batch else made(a).unsqueeze(0)
    factors = made(taus).reshape(-1, k) if batch else made(taus).unsqueeze(0)
    rows, columns, steps = _counts(m), _counts(n), _counts(k)
    start = made(unit(full(type_of(flat.value), 0)))

    def apply(step: Any, going: Any, q: Any) -> tuple[Any, ...]:
        index = made(ops.dim_values(dims=(k,), scalar=True)) - 1 - step
        column = (columns == index).where(flat, 0.0).sum(2)
        tau = (steps == index).where(factors, 0.0).sum(1, keepdims=True)
        v = (rows == index).where(1.0, (rows > index).where(column, 0.0))
        share = (v.unsqueeze(2) * q).sum(1, keepdims=True) * tau.unsqueeze(2)
        return going, q - v.unsqueeze(2) * share

    return loop(apply, (start,), trips=k)[0].reshape(*shape).value
