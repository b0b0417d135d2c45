"""Solving and factorising: the algorithms are burn.linalg's, traced into the program.

torch's own operators also give LAPACK's packed factors and row exchanges, for gradients, and how far they got (`info`), which
is refused where anything but a check reads it (`_unread`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from burn import linalg
from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, number, number_like, transpose
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import PARTS, TensorType, type_of
from burn.importers.torch.node import Node, aten, higher_order
from burn.tensors import Tensor
from burn.tensors.base import made
from burn.tensors.control import loop


def _unread(node: Node, *results: int) -> None:
    if any(node.uses(i, but=_checks) for i in results):
        node.fail("only the solution or the factors are built, not LAPACK's notes beside them")


def _checks(user: fx.Node) -> bool:
    """True if the error code is only checked, to raise an error."""
    return user.target is torch.ops.higher_order.with_effects and user.args[1] in CHECKS


@higher_order("with_effects")
def with_effects(node: Node, token: Any, op: Any, *arguments: Any, **keywords: Any) -> list[Any]:
    """torch's checks of matrices, in order. A singular one is not refused, it gives infinities or NaNs."""
    if op not in CHECKS:
        node.fail(f"the side effects of {op} are not supported")
    return [token]


CHECKS = (torch.ops.aten._linalg_check_errors.default,)


def adjoint_of(x: ir.Value) -> ir.Value:
    """The matrices transposed and, if they are complex, conjugated."""
    return ops.conj(turned(x)) if type_of(x).dtype in PARTS else turned(x)


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
    _unread(node, 3)
    return [_solution(a, b, left, node.result_type(0)), *_factors(node, a, 1), None]


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
    if type_of(x).shape[-1] == 0:
        return [broadcast_to(number_like(1, x), node.result_type(0).shape), *_factors(node, _factored(node, x), 1)]
    return [linalg.det(made(x)).value, *_factors(node, _factored(node, x), 1)]


@aten("_linalg_slogdet.default")
def log_determinant(node: Node, x: ir.Value) -> list[Any]:
    if type_of(x).shape[-1] == 0:
        return [
            *(broadcast_to(number_like(v, x), node.result_type(0).shape) for v in (1, 0)),
            *_factors(node, _factored(node, x), 2),
        ]
    sign, logarithm = linalg.slogdet(made(x))
    return [sign.value, logarithm.value, *_factors(node, _factored(node, x), 2)]


# ---- LAPACK's factors ---------------------------------------------------------------------------------------------------
@aten("linalg_lu_factor_ex.default", "linalg_lu_factor.default")
def lu_factor(node: Node, x: ir.Value, *, pivot: bool = True, check_errors: bool = False) -> list[Any]:
    rows, columns = type_of(x).shape[-2:]
    if rows != columns or not pivot:
        node.fail("only of square matrices, with pivoting")
    if "_ex" not in node.op:
        return _factors(node, x, 0)
    _unread(node, 2)
    return [*_factors(node, x, 0), None]


@aten("linalg_lu_solve.default")
def lu_solve(
    node: Node, packed: ir.Value, pivots: ir.Value, b: ir.Value, *, left: bool = True, adjoint: bool = False
) -> ir.Value:
    """The x with a x = b, for the factors of a; with x a = b, or of the transpose of a."""
    if node.result_type().elements == 0:
        return ops.full(shape=node.shape, dtype=node.dtype, value=0.0)
    if not left:
        return adjoint_of(_by_factors(packed, pivots, adjoint_of(b), not adjoint))
    return _by_factors(packed, pivots, b, adjoint)


@aten("lu_unpack.default")
def lu_unpack(
    node: Node, packed: ir.Value, pivots: ir.Value, unpack_data: bool = True, unpack_pivots: bool = True
) -> list[Any]:
    """The permutation as a matrix p with x = p l u, and the factors; what is not asked for is empty."""
    rows, columns = type_of(packed).shape[-2:]
    if rows != columns:
        node.fail("only of square matrices")
    nothing = ops.full(shape=(0,), dtype=node.dtype, value=0.0)
    order = _order(made(pivots)).value if unpack_pivots and type_of(packed).elements != 0 else None
    factors = [_unit(_half(packed, ops.le, 0)), _half(packed, ops.ge, 0)] if unpack_data else [nothing] * 2
    empty = broadcast_to(number_like(0, packed), type_of(packed).shape) if unpack_pivots else nothing
    return [empty if order is None else _permutation(order, rows, node.dtype), *factors]


def _permutation(order: ir.Value, n: Dim, dtype: str) -> ir.Value:
    """The matrix that has a 1 in row order[k] of each column k."""
    row = ops.iota(shape=(n, 1), axis=0)
    return convert(ops.eq(row, ops.reshape(order, shape=(*type_of(order).shape[:-1], 1, n))), dtype)


def _by_factors(packed: ir.Value, pivots: ir.Value, b: ir.Value, transposed: bool) -> ir.Value:
    """With a[order] = l u."""
    order = _order(made(pivots))
    wide = type_of(b).shape

    def permuted(x: Tensor, indices: Tensor) -> Tensor:
        batch = (*type_of(x.value).shape[:-2], wide[-2])
        return x.gather(len(wide) - 2, indices.broadcast_to(*batch).unsqueeze(-1).broadcast_to(*type_of(x.value).shape))

    if transposed:
        upper = _triangular(adjoint_of(packed), b, upper=False)
        solved = _triangular(adjoint_of(_unit(packed)), upper, upper=True)
        return permuted(made(solved), order.argsort(-1)).value
    lower = _triangular(packed, permuted(made(b), order).value, upper=False, unitriangular=True)
    return _triangular(packed, lower, upper=True)


def _factored(node: Node, x: ir.Value) -> ir.Value:
    """The matrix that LAPACK factors for a determinant: the transpose of a row-major matrix. torch's gradients rely on it."""
    return turned(x) if node.argument_meta(0).is_contiguous() else x


def _factors(node: Node, x: ir.Value, first: int) -> list[Any]:
    """Both factors in one matrix, and the exchanges of rows, as results `first` and the one behind it; None where nothing reads
    them."""
    if not node.uses(first) and not node.uses(first + 1):
        return [None, None]
    n = type_of(x).shape[-1]
    if type_of(x).elements == 0:
        return [x, ops.full(shape=type_of(x).shape[:-1], dtype="int32", value=0)]
    order, lower, upper = linalg.lu(made(x))
    below = _half(lower.value, ops.le, -1)
    return [ops.add(below, upper.value), convert(_pivots(order, n).value, "int32")]


def _exchanged(rows: Tensor, row: Tensor, step: Tensor, other: Tensor) -> Tensor:
    """Swaps rows `step` and `other` of each batch."""
    return rows.gather(1, (row == step).where(other, (row == other).where(step, row)))


def _pivots(order: Tensor, n: Dim) -> Tensor:
    """LAPACK's pivots [.., n]: for each step the row, from 1, that it swaps with, so that the swaps give `order`."""
    flat = order.reshape(-1, n)
    row = made(ops.iota(shape=(n,), axis=0)).reshape(1, n)
    start = row.broadcast_to(*flat.type.shape)

    def exchange(step: Tensor, going: Tensor, rows: Tensor, pivots: Tensor) -> tuple:
        index = (rows == flat.take(step, 1).unsqueeze(1)).astype("int32").argmax(1, keepdims=True)
        return going, _exchanged(rows, row, step, index), (row == step).where(index + 1, pivots)

    return loop(exchange, (start, start), trips=n)[1].reshape(*order.type.shape)


def _order(pivots: Tensor) -> Tensor:
    """The order of rows that exchanges make: [.., n], int64."""
    n = pivots.type.shape[-1]
    flat = pivots.astype("int64").reshape(-1, n)
    row = made(ops.iota(shape=(n,), axis=0)).reshape(1, n)

    def exchange(step: Tensor, going: Tensor, rows: Tensor) -> tuple:
        return going, _exchanged(rows, row, step, flat.take(step, 1).unsqueeze(1) - 1)

    return loop(exchange, (row.broadcast_to(*flat.type.shape),), trips=n)[0].reshape(*pivots.type.shape)


# ---- factors ------------------------------------------------------------------------------------------------------------
@aten("linalg_cholesky_ex.default", "linalg_cholesky.default", "cholesky.default")
def cholesky(node: Node, x: ir.Value, upper: bool = False, check_errors: bool = False, **keywords: Any) -> Any:
    """The lower factor, or its transpose: of the triangle that it is in. That of a matrix that is not positive definite,
    which torch refuses, has NaNs."""
    upper = keywords.get("upper", upper)
    factor = linalg.cholesky(made(adjoint_of(x) if upper else x)).value
    factor = adjoint_of(factor) if upper else factor
    if "_ex" not in node.op:
        return factor
    _unread(node, 1)
    return [factor, None]


@aten("cholesky_solve.default", "_cholesky_solve_helper.default")
def cholesky_solve(node: Node, b: ir.Value, factor: ir.Value, upper: bool = False) -> ir.Value:
    """x with (l l^H) x = b, or (u^H u) x = b."""
    lower = adjoint_of(factor) if upper else factor
    return _triangular(adjoint_of(lower), _triangular(lower, b, upper=False), upper=True)


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
    return [_permutation(order.value, rows, node.dtype), lower.value, upper.value]
