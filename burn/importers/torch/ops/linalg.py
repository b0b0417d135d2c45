"""Solving and factorising: the algorithms are burn.linalg's, traced into the program.

torch's own operators also give LAPACK's packed factors and row exchanges, for gradients, and the number of the pivot at which
they fail (`info`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from burn import linalg
from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, number, number_like, transpose
from burn.dialect.dims import Dim, dim_min
from burn.dialect.mlir import ir
from burn.dialect.types import PARTS, TensorType, type_of
from burn.importers.torch.node import Node, aten, higher_order
from burn.tensors import Tensor
from burn.tensors.base import made
from burn.tensors.control import loop


def _info(node: Node, index: int, pivots: Callable[[], Tensor]) -> Any:
    """LAPACK's `info` as result `index`, where anything but a check reads it.

    The number, from 1, of the first pivot [.., n] that is not positive, or 0 if all are positive."""
    if not node.uses(index, but=_checks):
        return None
    type_ = node.result_type(index)
    if 0 in node.result_type(0).shape:
        return full(type_, 0)
    found = pivots()
    sound = found > 0
    n = found.type.shape[-1]
    numbers = sound.where(n + 1, made(ops.iota(shape=(n,), axis=0)) + 1)
    first = made(ops.reduce(numbers.value, kind="min", axes=(-1,), keepdims=False))
    return convert((first <= n).where(first, 0).reshape(*type_.shape).value, type_.dtype)


def diagonal(x: ir.Value) -> Tensor:
    return made(x).diagonal(0, -2, -1)


def _pivots_of(x: ir.Value) -> Callable[[], Tensor]:
    """The magnitudes of the pivots of elimination."""
    return lambda: linalg.lu(made(x)).upper.diagonal(0, -2, -1).abs()


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
    return [inverse(node, x), _info(node, 1, _pivots_of(x))]


@aten("linalg_inv.default", "inverse.default")
def inverse(node: Node, x: ir.Value) -> ir.Value:
    """Of a singular matrix, which torch refuses, it has infinities or NaNs."""
    return x if type_of(x).shape[-1] == 0 else linalg.inv(made(x)).value


@aten("_linalg_solve_ex.default")
def solve(node: Node, a: ir.Value, b: ir.Value, *, left: bool = True, check_errors: bool = False) -> list[Any]:
    return [_solution(a, b, left, node.result_type(0)), *_factors(node, a, 1), _info(node, 3, _pivots_of(a))]


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
            *(full(node.result_type(i), v) for i, v in enumerate((1, 0))),
            *_factors(node, _factored(node, x), 2),
        ]
    sign, logarithm = linalg.slogdet(made(x))
    return [sign.value, logarithm.value, *_factors(node, _factored(node, x), 2)]


# ---- LAPACK's factors ---------------------------------------------------------------------------------------------------
@aten("linalg_lu_factor_ex.default", "linalg_lu_factor.default")
def lu_factor(node: Node, x: ir.Value, *, pivot: bool = True, check_errors: bool = False) -> list[Any]:
    _with_pivots(node, pivot)
    if "_ex" not in node.op:
        return _factors(node, x, 0)
    return [*_factors(node, x, 0), _info(node, 2, _pivots_of(x))]


def _with_pivots(node: Node, pivot: bool) -> None:
    if not pivot:
        node.fail("elimination without an exchange of rows is not supported")


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
    *_, rows, columns = type_of(packed).shape
    k = dim_min(rows, columns)
    factors: list[Any] = [full(node.result_type(i), 0) for i in (1, 2)]
    if unpack_data:
        lower, upper = made(packed)._cut(-1, 0, k), made(packed)._cut(-2, 0, k)
        factors = [_unit(_half(lower.value, ops.le, 0)), _half(upper.value, ops.ge, 0)]
    if not unpack_pivots or node.result_type(0).elements == 0:
        return [full(node.result_type(0), 0), *factors]
    return [_permutation(_order(made(pivots), rows).value, rows, node.dtype), *factors]


def full(type_: TensorType, value: float) -> ir.Value:
    return ops.full(shape=type_.shape, dtype=type_.dtype, value=float(value))


def _permutation(order: ir.Value, n: Dim, dtype: str) -> ir.Value:
    """The matrix that has a 1 in row order[k] of each column k."""
    row = ops.iota(shape=(n, 1), axis=0)
    return convert(ops.eq(row, ops.reshape(order, shape=(*type_of(order).shape[:-1], 1, n))), dtype)


def _by_factors(packed: ir.Value, pivots: ir.Value, b: ir.Value, transposed: bool) -> ir.Value:
    """With a[order] = l u."""
    order = _order(made(pivots), type_of(packed).shape[-1])
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
    rows, columns = type_of(x).shape[-2:]
    k = dim_min(rows, columns)
    if type_of(x).elements == 0:
        return [x, ops.full(shape=(*type_of(x).shape[:-2], k), dtype="int32", value=0)]
    order, lower, upper = linalg.lu(made(x))
    below = made(_half(lower.value, ops.le, -1))
    rank = type_of(x).rank
    # Both have the sizes of x once zeros are added: one of the two lacks nothing.
    below = below.pad([*[(0, 0)] * (rank - 1), (0, columns - k)])
    above = upper.pad([*[(0, 0)] * (rank - 2), (0, rows - k), (0, 0)])
    return [ops.add(below.value, above.value), convert(_pivots(order, rows, k).value, "int32")]


def _exchanged(rows: Tensor, row: Tensor, step: Tensor, other: Tensor) -> Tensor:
    """Swaps rows `step` and `other` of each batch."""
    return rows.gather(1, (row == step).where(other, (row == other).where(step, row)))


def _pivots(order: Tensor, n: Dim, steps: Dim) -> Tensor:
    """LAPACK's pivots [.., steps]: for each step the row, from 1, that it swaps with, so that the swaps give `order` [.., n]."""
    flat = order.reshape(-1, n)
    row = made(ops.iota(shape=(n,), axis=0)).reshape(1, n)
    start = row.broadcast_to(*flat.type.shape)

    def exchange(step: Tensor, going: Tensor, rows: Tensor, pivots: Tensor) -> tuple:
        index = (rows == flat.take(step, 1).unsqueeze(1)).astype("int32").argmax(1, keepdims=True)
        return going, _exchanged(rows, row, step, index), (row == step).where(index + 1, pivots)

    found = loop(exchange, (start, start), trips=steps)[1]
    return found._cut(1, 0, steps).reshape(*order.type.shape[:-1], steps)


def _order(pivots: Tensor, n: Dim) -> Tensor:
    """The order of n rows that exchanges [.., k] make: [.., n], int64."""
    *batch, steps = pivots.type.shape
    flat = pivots.astype("int64").reshape(-1, steps)
    row = made(ops.iota(shape=(n,), axis=0)).reshape(1, n)

    def exchange(step: Tensor, going: Tensor, rows: Tensor) -> tuple:
        return going, _exchanged(rows, row, step, flat.take(step, 1).unsqueeze(1) - 1)

    return loop(exchange, (row.broadcast_to(flat.type.shape[0], n),), trips=steps)[0].reshape(*batch, n)


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
    return [factor, _info(node, 1, lambda: diagonal(factor).real)]


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
    """x = p l u; p is the permutation as a matrix."""
    _with_pivots(node, pivot)
    rows = type_of(x).shape[-2]
    order, lower, upper = linalg.lu(made(x))
    return [_permutation(order.value, rows, node.dtype), lower.value, upper.value]
