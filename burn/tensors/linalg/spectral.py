"""Eigenvalues and singular values, and functions of singular values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect.compose import dim_value
from burn.dialect.dims import dim_max
from burn.dialect.types import WHOLES
from burn.tensors import Tensor, constant
from burn.tensors.algorithms import algorithm
from burn.tensors.base import made
from burn.tensors.concatenation import concat
from burn.tensors.control import check_size
from burn.tensors.creation import zeros
from burn.tensors.gradients import registered, with_derivative
from burn.tensors.linalg import jacobi, schur, spectral_gradients
from burn.tensors.linalg.matrices import as_matrices, restored
from burn.tensors.linalg.orthogonal import householder_qr
from burn.tensors.linalg.results import SVD, Eig, Eigh
from burn.tensors.linalg.triangular import mirrored, solve


@algorithm("batch, n, n")
def _symmetric(x: Tensor) -> tuple[Tensor, ...]:
    return jacobi.symmetric(x)


@algorithm("batch, m, n")
def _singular(x: Tensor) -> tuple[Tensor, ...]:
    return jacobi.singular(x)


@algorithm("batch, m, n")
def _completed(u: Tensor) -> Tensor:
    """Orthonormal columns, after which zeros may follow, as a basis of the whole space: [batch, m, m]."""
    n = u.type.shape[2]
    q, r = householder_qr(u)
    turned = (r._cut(1, 0, n).diagonal(0, 1, 2).real < 0).where(-1.0, 1.0).astype(u.dtype).unsqueeze(1)
    return concat([q._cut(2, 0, n) * turned, q._cut(2, n, u.type.shape[1] - n)], 2)


def _factors(x: Tensor) -> tuple[Tensor, ...]:
    u, s, v = _singular(x)
    return _completed(u), s, v


def eigh(x: Any) -> Eigh:
    """Eigenvalues [.., n] and eigenvectors [.., n, n] of symmetric or Hermitian matrices [.., n, n]. Reads the lower
    triangle only."""
    given = constant(x)
    matrices = mirrored(as_matrices("eigh", given, square=True))
    values, vectors = with_derivative(_symmetric, spectral_gradients.eigh_gradient, matrices)
    n = given.type.shape[-1]
    return Eigh(restored(values, given, n), restored(vectors, given, n, n))


def eigvalsh(x: Any) -> Tensor:
    """The eigenvalues of `eigh`."""
    return eigh(x).values


@algorithm("batch, n, n")
def _general(x: Tensor) -> tuple[Tensor, ...]:
    return schur.eigenvectors(x)


@algorithm("batch, n, n")
def _general_values(x: Tensor) -> Tensor:
    return schur.eigenvalues(x)


def _eig_gradient(
    operands: tuple[Tensor], results: tuple[Tensor, Tensor], cotangents: Sequence[Tensor | None]
) -> tuple[Tensor]:
    return spectral_gradients.eig_gradient(operands, results, cotangents, solve)


def eig(x: Any) -> Eig:
    """Eigenvalues [.., n] and eigenvectors [.., n, n] of square matrices [.., n, n]: complex numbers, in no particular order.
    Of a real matrix they are real or pairs of conjugates. NaN for a matrix with infinities or NaNs. Meant for up to some hundred
    rows: of 100 they take tenths of a second, of 400 a hundred times as long. Sources: `burn/tensors/linalg/schur.py`."""
    given = constant(x)
    matrices = as_matrices("eig", given, square=True)
    *batch, n, _ = given.type.shape
    if matrices.type.elements == 0:
        dtype = WHOLES.get(matrices.dtype, matrices.dtype)
        return Eig(zeros((*batch, n), dtype=dtype), zeros((*batch, n, n), dtype=dtype))
    values, vectors = with_derivative(_general, _eig_gradient, matrices)
    return Eig(values.reshape(*batch, n), vectors.reshape(*batch, n, n))


def eigvals(x: Any) -> Tensor:
    """The eigenvalues of `eig`."""
    given = constant(x)
    matrices = as_matrices("eigvals", given, square=True)
    if registered() is not None or matrices.type.elements == 0:  # the derivative needs the vectors
        return eig(given).values
    return _general_values(matrices).reshape(*given.type.shape[:-1])


def svd(x: Any, full_matrices: bool = True) -> SVD:
    """Singular values and vectors of matrices [.., m, n]: u [.., m, m], s [.., k], vh [.., n, n], k = min(m, n); without
    full_matrices u [.., m, k] and vh [.., k, n]. Of sizes that are named, m must turn out to be at least n."""
    given = constant(x)
    wide = as_matrices("svd", given)
    m, n = given.type.shape[-2:]
    if isinstance(m, int) and isinstance(n, int) and m < n:
        u, s, vh = svd(given.mT, full_matrices)
        return SVD(vh.mT, s, u.mT)
    check_size(m, ">=", n, "the singular values of a matrix with more columns than rows, whose sizes are named")
    u, s, v = with_derivative(_factors, spectral_gradients.svd_gradient, wide)
    columns = m if full_matrices else n
    return SVD(restored(u._cut(2, 0, columns), given, m, columns), restored(s, given, n), restored(v.mH, given, n, n))


def svdvals(x: Any) -> Tensor:
    """The singular values of matrices [.., m, n], the largest first: [.., min(m, n)]."""
    given = constant(x)
    wide = as_matrices("svdvals", given)
    m, n = given.type.shape[-2:]
    if isinstance(m, int) and isinstance(n, int) and m < n:
        return svdvals(given.mT)
    check_size(m, ">=", n, "the singular values of a matrix with more columns than rows, whose sizes are named")
    return restored(with_derivative(_factors, spectral_gradients.svd_gradient, wide)[1], given, n)


def _cutoff(x: Tensor, s: Tensor, rtol: float | None) -> Tensor:
    """The size up to which singular values count as 0: numpy's, unless it is given relative to the largest."""
    near = jacobi.EPSILON.get(x.dtype, jacobi.EPSILON["float32"]) if rtol is None else rtol
    longest = made(dim_value(dim_max(*x.type.shape[-2:]), s.dtype)) if rtol is None else 1.0
    return s.max(-1, keepdims=True) * longest * near


def pinv(x: Any, rtol: float | None = None) -> Tensor:
    """The Moore-Penrose inverses of matrices [.., m, n]: [.., n, m]. Singular values up to rtol times the largest count as 0;
    max(m, n) times the element type's epsilon, by default."""
    given = constant(x)

    def inverses(x: Tensor) -> tuple[Tensor]:
        u, s, vh = svd(x, full_matrices=False)
        kept = s > _cutoff(given, s, rtol)
        inverted = kept.where(kept.where(s, 1.0).reciprocal(), 0.0)
        return ((vh.mH * inverted.unsqueeze(-2)).matmul(u.mH),)

    return with_derivative(inverses, spectral_gradients.pinv_gradient, given._field())[0]


def matrix_rank(x: Any, rtol: float | None = None) -> Tensor:
    """How many singular values of matrices [.., m, n] count as more than 0, as in `pinv`: int64 [..]."""
    given = constant(x)
    s = svdvals(given)
    return (s > _cutoff(given, s, rtol)).sum(-1)


def cond(x: Any) -> Tensor:
    """The largest singular value of matrices over the smallest."""
    s = svdvals(x)
    return s.max(-1) / s.min(-1)
