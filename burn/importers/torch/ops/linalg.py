"""Solving and factorising: the algorithms are burn.linalg's, traced into the program.

torch's own operators also give how far they got (`info`) and LAPACK's packed factors, mostly for gradients and checks. What
burn does not build of these is refused where anything reads it (`_unread`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from burn import linalg
from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, number, number_like, transpose
from burn.dialect.mlir import ir
from burn.dialect.types import TensorType, type_of
from burn.importers.torch.node import Node, aten, higher_order
from burn.tensors.base import made


def _unread(node: Node, *results: int) -> None:
    if any(node.uses(i, but=_checks) for i in results):
        node.fail("only the solution or the factors are built, not LAPACK's notes beside them")


def _checks(user: fx.Node) -> bool:
    """Whether a note is only looked at to raise an error."""
    return user.target is torch.ops.higher_order.with_effects and user.args[1] in CHECKS


@higher_order("with_effects")
def with_effects(node: Node, token: Any, op: Any, *arguments: Any, **keywords: Any) -> list[Any]:
    """torch's checks of matrices, in order. A singular one is not refused, it gives infinities or NaNs."""
    if op not in CHECKS:
        node.fail(f"the side effects of {op} are not supported")
    return [token]


CHECKS = (torch.ops.aten._linalg_check_errors.default,)


def turned(x: ir.Value) -> ir.Value:
    """The matrices transposed."""
    rank = type_of(x).rank
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _half(x: ir.Value, keep: Any, diagonal: int) -> ir.Value:
    rows, columns = type_of(x).shape[-2:]
    distance = ops.sub(ops.iota(shape=(1, columns), axis=1), ops.iota(shape=(rows, 1), axis=0))
    return ops.select(keep(distance, number(diagonal, "int64")), x, number_like(0, x))


def _unit(x: ir.Value) -> ir.Value:
    """The matrices with ones on their diagonal."""
    rows, columns = type_of(x).shape[-2:]
    on = ops.eq(ops.iota(shape=(rows, 1), axis=0), ops.iota(shape=(1, columns), axis=1))
    return ops.select(on, number_like(1, x), x)


# ---- systems ------------------------------------------------------------------------------------------------------------
@aten("linalg_inv_ex.default")
def inverse_and_note(node: Node, x: ir.Value, *, check_errors: bool = False) -> list[Any]:
    _unread(node, 1)
    return [inverse(node, x), None]


@aten("linalg_inv.default", "inverse.default")
def inverse(node: Node, x: ir.Value) -> ir.Value:
    """Of a singular matrix, which torch refuses, it has infinities or NaNs."""
    return x if type_of(x).shape[-1] == 0 else linalg.inv(made(x)).value


@aten("_linalg_solve_ex.default")
def solve(node: Node, a: ir.Value, b: ir.Value, *, left: bool = True, check_errors: bool = False) -> list[Any]:
    _unread(node, 1, 2, 3)
    return [_solution(a, b, left, node.result_type(0)), None, None, None]


@aten("linalg_solve.default")
def solve_checked(node: Node, a: ir.Value, b: ir.Value, *, left: bool = True) -> ir.Value:
    """For a singular matrix, which torch refuses, the solution has infinities or NaNs."""
    return _solution(a, b, left, node.result_type())


def _solution(a: ir.Value, b: ir.Value, left: bool, type_: TensorType) -> ir.Value:
    """x with a x = b, or x a = b. A b with an axis less than a is a batch of vectors (torch.linalg.solve says when)."""
    if type_.elements == 0:
        return ops.full(shape=type_.shape, dtype=type_.dtype, value=0.0)
    shape, (*batch, n, _) = type_of(b).shape, type_of(a).shape
    if len(shape) == 1 or shape == (*batch, n):
        b = ops.reshape(b, shape=(*shape, 1))
    return ops.reshape(_solved(a, b, left), shape=type_.shape)


def _solved(a: ir.Value, b: ir.Value, left: bool) -> ir.Value:
    if not left:
        return turned(_solved(turned(a), turned(b), True))
    return linalg.solve(made(a), made(b)).value


@aten("linalg_solve_triangular.default")
def solve_triangular(
    node: Node, a: ir.Value, b: ir.Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> ir.Value:
    if not left:
        return turned(_triangular(turned(a), turned(b), not upper, unitriangular))
    return _triangular(a, b, upper, unitriangular)


def _triangular(a: ir.Value, b: ir.Value, upper: bool, unitriangular: bool = False) -> ir.Value:
    a = _unit(a) if unitriangular else a
    return linalg.solve_triangular(made(_half(a, ops.ge if upper else ops.le, 0)), made(b), upper=upper).value


@aten("triangular_solve.default")
def triangular_solve(
    node: Node, b: ir.Value, a: ir.Value, upper: bool = True, transposed: bool = False, unitriangular: bool = False
) -> list[ir.Value]:
    """The solution, and a as it was given."""
    matrix = turned(a) if transposed else a
    solution = _triangular(matrix, b, upper != transposed, unitriangular)
    return [solution, broadcast_to(a, node.result_type(1).shape)]


@aten("_linalg_det.default")
def determinant(node: Node, x: ir.Value) -> list[Any]:
    _unread(node, 1, 2)
    if type_of(x).shape[-1] == 0:
        return [broadcast_to(number_like(1, x), node.result_type(0).shape), None, None]
    return [linalg.det(made(x)).value, None, None]


@aten("_linalg_slogdet.default")
def log_determinant(node: Node, x: ir.Value) -> list[Any]:
    _unread(node, 2, 3)
    if type_of(x).shape[-1] == 0:
        return [*(broadcast_to(number_like(v, x), node.result_type(0).shape) for v in (1, 0)), None, None]
    sign, logarithm = linalg.slogdet(made(x))
    return [sign.value, logarithm.value, None, None]


# ---- factors ------------------------------------------------------------------------------------------------------------
@aten("linalg_cholesky_ex.default", "linalg_cholesky.default", "cholesky.default")
def cholesky(node: Node, x: ir.Value, upper: bool = False, check_errors: bool = False, **keywords: Any) -> Any:
    """The lower factor, or its transpose: of the triangle that it is in. That of a matrix that is not positive definite,
    which torch refuses, has NaNs."""
    upper = keywords.get("upper", upper)
    factor = linalg.cholesky(made(turned(x) if upper else x)).value
    factor = turned(factor) if upper else factor
    if "_ex" not in node.op:
        return factor
    _unread(node, 1)
    return [factor, None]


@aten("cholesky_solve.default", "_cholesky_solve_helper.default")
def cholesky_solve(node: Node, b: ir.Value, factor: ir.Value, upper: bool = False) -> ir.Value:
    """x with (l l^T) x = b, or (u^T u) x = b."""
    lower = turned(factor) if upper else factor
    return _triangular(turned(lower), _triangular(lower, b, upper=False), upper=True)


@aten("cholesky_inverse.default")
def cholesky_inverse(node: Node, factor: ir.Value, upper: bool = False) -> ir.Value:
    type_ = type_of(factor)
    unit = _unit(broadcast_to(number_like(0, factor), type_.shape))
    return cholesky_solve(node, unit, factor, upper)


@aten("linalg_qr.default")
def qr(node: Node, x: ir.Value, mode: str = "reduced") -> list[Any]:
    """Mode "r" gives no q: torch's is empty."""
    q, r = linalg.qr(made(x), mode="complete" if mode == "complete" else "reduced")
    return [ops.full(shape=(0,), dtype=node.dtype, value=0.0) if mode == "r" else q.value, r.value]


@aten("linalg_lu.default")
def lu(node: Node, x: ir.Value, *, pivot: bool = True) -> list[ir.Value]:
    """x = p l u for square matrices; p is the permutation as a matrix."""
    rows, columns = type_of(x).shape[-2:]
    if rows != columns or not pivot:
        node.fail("only of square matrices, with pivoting")
    order, lower, upper = linalg.lu(made(x))
    order = order.value
    row = ops.iota(shape=(rows, 1), axis=0)
    wide = ops.reshape(order, shape=(*type_of(order).shape[:-1], 1, rows))
    return [convert(ops.eq(row, wide), node.dtype), lower.value, upper.value]
