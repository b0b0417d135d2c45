"""Orthogonal factors by Householder's reflectors, and least squares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect.dims import dim_min
from burn.errors import TypeMismatch
from burn.tensors import Tensor, constant
from burn.tensors.algorithms import algorithm
from burn.tensors.concatenation import concat
from burn.tensors.control import loop
from burn.tensors.creation import eye, zeros
from burn.tensors.gradients import with_derivative
from burn.tensors.linalg import reflectors
from burn.tensors.linalg.matrices import as_matrices, column_of, restored
from burn.tensors.linalg.results import QR
from burn.tensors.linalg.triangular import hermitian, solve_triangular, triangular_solution
from burn.tensors.promotion import together


@algorithm("batch, m, n")
def householder_qr(x: Tensor) -> tuple[Tensor, ...]:
    """q [batch, m, m] and r [batch, m, n] by Householder's reflectors, one a column."""
    batch, m, n = x.type.shape

    def reflect(step: Tensor, going: Tensor, q: Tensor, r: Tensor) -> tuple:
        vector, factor, _ = reflectors.reflector(column_of(r, step), step)
        r = reflectors.from_left(vector, factor.conj(), r)
        return going, reflectors.from_right(q, vector, factor), r

    start = eye(m, dtype=x.dtype).broadcast_to(batch, m, m)
    return loop(reflect, (start, x), trips=dim_min(m, n))


def _qr_gradient(
    operands: tuple[Tensor, ...], results: tuple[Tensor, ...], cotangents: Sequence[Tensor | None]
) -> tuple[Tensor]:
    """(Q' + Q sym(R R'^H - Q'^H Q)) R^-H for cotangents Q' and R', where sym mirrors the lower triangle.

    Columns to the right of a square R have gradients through q alone. Step-by-step differentiation would lose the gradient of a
    column that is 0 below the diagonal. Source: Walter and Lehmann 2012."""
    (x,), (q, r) = operands, results
    _, m, n = x.type.shape
    k = dim_min(m, n)
    if cotangents[0] is not None and q.type.shape[2] != k:
        raise TypeMismatch("the columns that complete q have no derivative", ["give qr the mode 'reduced'"])
    q, r = q._cut(2, 0, k), r._cut(1, 0, k)
    of_r = zeros(r.type.shape, dtype=x.dtype) if cotangents[1] is None else cotangents[1]._cut(1, 0, k)
    behind = of_r._cut(2, k, n - k)
    of_q = x._cut(2, k, n - k) @ behind.mH
    if cotangents[0] is not None:
        of_q = of_q + cotangents[0]
    square = r._cut(2, 0, k)
    (mirrored,) = hermitian(square @ of_r._cut(2, 0, k).mH - of_q.mH @ q)
    before = triangular_solution(square, (of_q + q @ mirrored).mH, upper=True).mH
    return (concat([before, q @ behind], 2),)


def qr(x: Any, mode: str = "reduced") -> QR:
    """x [.., m, n] = q [.., m, k] @ r [.., k, n], k = min(m, n), or m with mode "complete"."""
    if mode not in ("reduced", "complete"):
        raise TypeMismatch("qr's mode is reduced or complete", [f"not {mode!r}"])
    given = constant(x)
    m, n = given.type.shape[-2:] if given.ndim >= 2 else (0, 0)
    k = dim_min(m, n) if mode == "reduced" else m

    def factors(x: Tensor) -> tuple[Tensor, ...]:
        q, r = householder_qr(x)
        return q._cut(2, 0, k), r._cut(1, 0, k).triu()

    q, r = with_derivative(factors, _qr_gradient, as_matrices("qr", given))
    return QR(restored(q, given, m, k), restored(r, given, k, n))


def lstsq(a: Any, b: Any) -> Tensor:
    """The x [n] or [n, k] for which a @ x comes nearest to b, for a matrix [m, n] of full rank, m >= n."""
    left, right = together(constant(a), constant(b), floating=True)
    rows, columns = left.type.shape if left.ndim == 2 else (None, None)
    small = isinstance(rows, int) and isinstance(columns, int) and rows < columns
    if rows is None or small or right.ndim not in (1, 2):
        raise TypeMismatch(
            "lstsq takes a matrix of at least as many rows as columns", [f"{left.type} and {right.type}"]
        )
    q, r = qr(left)
    return solve_triangular(r, q.mH.matmul(right), upper=True)
