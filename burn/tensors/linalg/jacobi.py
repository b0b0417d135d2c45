"""Jacobi's rotations: eigenvalues of symmetric matrices, and singular values.

A rotation makes a pair of columns orthogonal. A sweep rotates every pair; sweeps repeat until no pair needs a rotation. The pairs
of a round share no column, so a round is a few operations on whole matrices. In round r column i is paired with column
(r - i) mod n, so that n rounds pair every two columns once, for any n. Sources: Golub and Van Loan, "Matrix Computations"
(4th edition), 8.5 and 8.6.3; Demmel and Veselic, "Jacobi's method is more accurate than QR" (1992).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.dims import Dim
from burn.tensors.base import made
from burn.tensors.control import loop
from burn.tensors.creation import eye

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor

SWEEPS = 40
"""More than any matrix needs: convergence is quadratic, and 6 to 12 are usual."""

EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-23, "complex128": 2.0**-52}


def symmetric(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues [batch, n], rising, and eigenvectors [batch, n, n], in columns, of symmetric or Hermitian matrices."""
    batch, n, _ = x.type.shape
    size = _largest(x)
    scaled = x / size
    near = EPSILON[x.dtype] * _squared(scaled).sum((1, 2)).sqrt().unsqueeze(1)

    def turn(step: Tensor, matrix: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        partner = _partners(step, n)
        diagonal = matrix.diagonal(0, 1, 2).real
        indices = partner.reshape(1, n, 1).broadcast_to(batch, n, 1)
        shared = matrix.gather(2, indices).squeeze(2)
        cosine, sine = _rotation(diagonal, diagonal.take(partner, 1), shared, partner)
        matrix = _turned(matrix, partner, cosine, sine)
        matrix = _turned(matrix.mH, partner, cosine, sine).mH
        size_shared = (partner == _index(n)).where(0.0, shared.abs())
        return matrix, _turned(vectors, partner, cosine, sine), (size_shared > near).any()

    start = eye(n, dtype=x.dtype).broadcast_to(batch, n, n)
    matrix, vectors = _swept(turn, n, scaled, start)
    values = matrix.diagonal(0, 1, 2).real
    order = values.argsort(1)
    return values.gather(1, order) * size.squeeze(2), _columns(vectors, order)


def singular(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x [batch, m, n], m >= n, as u * values @ v.mH: u [batch, m, n], the values [batch, n], falling, v [batch, n, n]. Columns of
    u are 0 where the values are, next to the largest."""
    batch, m, n = x.type.shape
    size = _largest(x)
    near = EPSILON[x.dtype]

    def turn(step: Tensor, matrix: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        partner = _partners(step, n)
        squares = _squared(matrix).sum(1)
        shared = (matrix.conj() * matrix.take(partner, 2)).sum(1)
        others = squares.take(partner, 1)
        cosine, sine = _rotation(squares, others, shared, partner)
        matrix, vectors = _turned(matrix, partner, cosine, sine), _turned(vectors, partner, cosine, sine)
        size_shared = (partner == _index(n)).where(0.0, shared.abs())
        return matrix, vectors, (size_shared > near * squares.sqrt() * others.sqrt()).any()

    start = eye(n, dtype=x.dtype).broadcast_to(batch, n, n)
    matrix, vectors = _swept(turn, n, x / size, start)
    values = _squared(matrix).sum(1).sqrt()
    order = values.argsort(1, descending=True)
    values, matrix, vectors = values.gather(1, order), _columns(matrix, order), _columns(vectors, order)
    least = values.max(1, keepdims=True) * made(compose.dim_value(m, values.dtype)) * near
    kept = values > least
    u = kept.unsqueeze(1).where(matrix / kept.where(values, 1.0).unsqueeze(1), 0.0)
    return u, values * size.squeeze(2), vectors


def _swept(
    turn: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]], n: Dim, matrix: Tensor, vectors: Tensor
) -> tuple[Tensor, Tensor]:
    """Runs sweeps of n rounds until one finds nothing to rotate."""

    def sweep(count: Tensor, going: Tensor, matrix: Tensor, vectors: Tensor) -> tuple:
        def round_(step: Tensor, still: Tensor, matrix: Tensor, vectors: Tensor, found: Tensor) -> tuple:
            matrix, vectors, turned = turn(step, matrix, vectors)
            return still, matrix, vectors, found | turned

        matrix, vectors, found = loop(round_, (matrix, vectors, count < 0), trips=n)
        return going & found, matrix, vectors

    matrix, vectors = loop(sweep, (matrix, vectors), trips=SWEEPS)
    return matrix, vectors


def _rotation(own: Tensor, others: Tensor, shared: Tensor, partner: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and (signed) sine for every column, of the rotation that zeroes the inner product of a pair. Both columns use the
    first one's numbers: with different rounding they would be rotated by different angles. Complex columns
    rotate by the magnitude, and the sine has the opposite phase."""
    index = _index(partner.type.shape[0])
    first = index < partner
    shared = first.where(shared, shared.take(partner, 1).conj())
    if shared.is_complex:
        cosine, sine = _rotation(own, others, shared.abs(), partner)
        return cosine, sine * shared.sign().conj()
    between = first.where(others - own, own - others)
    idle = (shared == 0) | (index == partner)
    slope = between / (2.0 * idle.where(1.0, shared))
    gentle = 1.0 / (slope.abs() + slope.hypot(1.0))
    tangent = idle.where(0.0, (slope < 0).where(-gentle, gentle))
    cosine = tangent.hypot(1.0).reciprocal()
    sine = tangent * cosine
    return cosine, first.where(-sine, sine)


def _turned(x: Tensor, partner: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Every column rotated with its partner."""
    return x * cosine.unsqueeze(1) + x.take(partner, 2) * sine.unsqueeze(1)


def _squared(x: Tensor) -> Tensor:
    """The squared magnitudes."""
    return (x * x.conj()).real if x.is_complex else x.square()


def _partners(step: Tensor, n: Dim) -> Tensor:
    """The partner of each column in a round."""
    return (step - _index(n)) % made(compose.dim_value(n))


def _index(n: Dim) -> Tensor:
    return made(build.iota(shape=(n,), axis=0))


def _largest(x: Tensor) -> Tensor:
    """The largest magnitude of each matrix, or 1 for a matrix of zeros: [batch, 1, 1]. Scaled by it, squares neither overflow nor
    vanish."""
    size = x.abs().norm(float("inf"), (1, 2), keepdims=True)
    return (size == 0).where(1.0, size)


def _columns(x: Tensor, order: Tensor) -> Tensor:
    """The columns of each matrix in an order of its own."""
    return x.gather(2, order.unsqueeze(1).broadcast_to(*x.type.shape))
