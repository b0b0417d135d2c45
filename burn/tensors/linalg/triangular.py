"""Triangular factors (LU, Cholesky), and the systems that they solve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burn.dialect.dims import dim_min, product
from burn.dialect.types import broadcast_shapes
from burn.errors import TypeMismatch
from burn.tensors import Tensor, constant
from burn.tensors.algorithms import algorithm
from burn.tensors.control import loop
from burn.tensors.creation import eye, ones, zeros
from burn.tensors.gradients import with_derivative
from burn.tensors.linalg.matrices import as_matrices, column_of, index_along, restored, row_of
from burn.tensors.linalg.results import LU
from burn.tensors.promotion import together


def _pivot_size(x: Tensor) -> Tensor:
    """The magnitude by which LAPACK chooses pivots: of complex numbers the sum of both parts' magnitudes."""
    return x.real.abs() + x.imag.abs() if x.is_complex else x.abs()


@algorithm("batch, m, n")
def packed_lu(x: Tensor) -> tuple[Tensor, ...]:
    """Elimination with the largest pivot of each column: both factors in one matrix, the rows' order, and its sign."""
    batch, m, n = x.type.shape
    row, columns = index_along(m, 1, -1), index_along(n, 1, -1)

    def eliminate(step: Tensor, going: Tensor, matrix: Tensor, order: Tensor, sign: Tensor) -> tuple:
        candidates = (row >= step).where(_pivot_size(column_of(matrix, step)), -1.0)
        pivot = candidates.argmax(1, keepdims=True)  # [batch, 1]
        source = (row == step).where(pivot, (row == pivot).where(step, row))  # swaps the two rows
        order = order.gather(1, source)
        matrix = matrix.gather(1, source.unsqueeze(-1).broadcast_to(batch, m, n))
        sign = (pivot.squeeze(1) == step).where(sign, -sign)
        pivots, column = row_of(matrix, step), column_of(matrix, step)
        top = pivots.take(step, 1).unsqueeze(1)
        factor = (row > step).where(column / (top == 0).where(1.0, top), 0.0)  # a column of zeros has none
        right = (columns > step).where(pivots, 0.0)
        matrix = matrix - factor.unsqueeze(2) * right.unsqueeze(1)
        kept = (row > step).where(factor, column).unsqueeze(2)
        return going, (index_along(n, 1, 1, -1) == step).where(kept, matrix), order, sign

    order = row.broadcast_to(batch, m)
    sign = ones(batch, dtype=x.dtype)
    return loop(eliminate, (x, order, sign), trips=dim_min(m, n))


def lu(x: Any) -> LU:
    """The factors of matrices [.., m, n]: permutation [.., m] int64, lower [.., m, k] and upper [.., k, n], k = min(m, n)."""
    given = constant(x)
    packed, order, _ = packed_lu(as_matrices("lu", given))
    m, n = given.type.shape[-2:]
    k = dim_min(m, n)
    lower = packed._cut(2, 0, k).tril(-1) + (index_along(m, -1, 1) == index_along(k, 1, -1)).astype(packed.dtype)
    return LU(
        restored(order, given, m), restored(lower, given, m, k), restored(packed._cut(1, 0, k).triu(), given, k, n)
    )


@algorithm("batch, n, n")
def _cholesky(x: Tensor) -> Tensor:
    _, n, _ = x.type.shape
    row = index_along(n, 1, -1)

    def column(step: Tensor, going: Tensor, lower: Tensor) -> tuple:
        rest = column_of(x, step) - (lower * row_of(lower, step).conj().unsqueeze(1)).sum(2)
        root = rest.take(step, 1).unsqueeze(1).real.sqrt()
        here = (row >= step).where(rest / root, 0.0)
        return going, (index_along(n, 1, 1, -1) == step).where(here.unsqueeze(2), lower)

    return loop(column, (zeros(x.type.shape, dtype=x.dtype),), trips=n)[0]


def cholesky(x: Any) -> Tensor:
    """The lower triangular factors l with l @ l.mH = x of symmetric (Hermitian) positive definite matrices [.., n, n]. Reads
    the lower triangle only. The factor of a matrix that is not positive definite has NaNs."""
    given = constant(x)
    return restored(_cholesky(mirrored(as_matrices("cholesky", given, square=True))), given, *given.type.shape[-2:])


def hermitian(x: Tensor) -> tuple[Tensor]:
    """Symmetric or Hermitian matrices from lower triangles; imaginary parts of the diagonal are not read."""
    low = x.tril(-1)
    diagonal = x.tril().triu()
    if x.is_complex:
        diagonal = diagonal.real.astype(x.dtype)
    return (low + diagonal + low.mH,)


def mirrored(x: Tensor) -> Tensor:
    """Symmetric or Hermitian matrices from their lower triangles. Both triangles share the gradient, as in PyTorch and JAX."""
    (result,) = with_derivative(
        hermitian,
        lambda _, results, cotangents: ((cotangents[0] + cotangents[0].mH) * 0.5,),
        x,
    )
    return result


@algorithm("batch, n, n", "batch, n, k")
def _substitute(x: Tensor, b: Tensor) -> Tensor:
    """Forward substitution with lower triangular matrices."""
    _, n, _ = x.type.shape
    row, column = index_along(n, 1, -1, 1), index_along(n, 1, -1)

    def solve_row(step: Tensor, going: Tensor, solution: Tensor) -> tuple:
        here = row_of(x, step)
        left = (column < step).where(here, 0.0)  # the upper triangle may hold anything, NaN included
        known = (left.unsqueeze(2) * solution).sum(1)
        value = (row_of(b, step) - known) / here.take(step, 1).unsqueeze(1)
        return going, (row == step).where(value.unsqueeze(1), solution)

    return loop(solve_row, (zeros(b.type.shape, dtype=b.dtype),), trips=n)[0]


def triangular_solution(x: Tensor, b: Tensor, upper: bool) -> Tensor:
    """An upper triangular system is a lower one with rows and columns in reverse."""
    return _substitute(x.flip((1, 2)), b.flip(1)).flip(1) if upper else _substitute(x, b)


def _systems(name: str, a: Any, b: Any) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """Matrices [batch, n, n], right-hand sides [batch, n, k], and how a solution becomes a result."""
    left, right = together(constant(a), constant(b), floating=True)
    if left.ndim < 2 or left.type.shape[-1] != left.type.shape[-2]:
        raise TypeMismatch(f"{name} is of square matrices", [f"not of {left.type}"])
    n, vector = left.type.shape[-1], right.ndim == 1
    if not right.ndim or (
        (size := right.type.shape[0 if vector else -2]) != n and isinstance(size, int) and isinstance(n, int)
    ):
        raise TypeMismatch(f"{name} needs right-hand sides of {n} rows", [f"not {right.type} for {left.type}"])
    columns = right.unsqueeze(-1) if vector else right
    try:
        batch = broadcast_shapes(left.type.shape[:-2], columns.type.shape[:-2])
    except ValueError as error:
        raise TypeMismatch(f"the batches of {name} do not fit", [str(error)]) from None
    k = columns.type.shape[-1]
    x = left.broadcast_to(*batch, n, n)._wide().reshape(product(batch), n, n)
    y = columns.broadcast_to(*batch, n, k)._wide().reshape(product(batch), n, k)

    def shaped(solution: Tensor) -> Tensor:
        whole = solution.reshape(*batch, n, k).astype(left.dtype)
        return whole.squeeze(-1) if vector else whole

    return x, y, shaped


def solve_triangular(a: Any, b: Any, upper: bool = False) -> Tensor:
    """The x with a @ x = b for triangular matrices a [.., n, n]; the other triangle is not read. b is [.., n, k], or one
    vector [n]."""
    x, y, shaped = _systems("solve_triangular", a, b)
    return shaped(triangular_solution(x, y, upper))


def solve(a: Any, b: Any) -> Tensor:
    """The x with a @ x = b for square matrices [.., n, n]; b [.., n, k], or one vector [n]. Of a singular matrix the
    solution has infinities or NaNs."""
    x, y, shaped = _systems("solve", a, b)
    packed, order, _ = packed_lu(x)
    lower = packed.tril(-1) + eye(x.type.shape[-1], dtype=x.dtype)
    permuted = y.gather(1, order.unsqueeze(-1).broadcast_to(*y.type.shape))
    return shaped(triangular_solution(packed, triangular_solution(lower, permuted, upper=False), upper=True))


def inv(x: Any) -> Tensor:
    """The inverses of square matrices [.., n, n]. That of a singular matrix has infinities or NaNs."""
    given = constant(x)
    as_matrices("inv", given, square=True)
    n = given.type.shape[-1]
    return solve(given, eye(n, dtype=given._field().dtype))
