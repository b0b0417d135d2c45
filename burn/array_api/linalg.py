"""The extension `linalg` of the array API standard. Matrices are on the last two axes, all axes before them are batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from burn import linalg
from burn.array_api.linear import matmul, matrix_transpose, tensordot, vecdot
from burn.array_api.statistics import sum as _sum
from burn.linalg import inv as _inv
from burn.tensors import Tensor, constant


class EigResult(NamedTuple):
    """Eigenvalues, and in columns eigenvectors of length 1; both complex."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """Eigenvalues, the least first, and in columns orthonormal eigenvectors."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """x = Q @ R; the columns of Q are orthonormal, R is upper triangular."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """det(x) = sign * exp(logabsdet)."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """x = U * S @ Vh: the columns of U and the rows of Vh are orthonormal, S are the singular values, the largest first."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factors of symmetric positive definite matrices: lower ones l with l @ l^H = x, or upper ones u with
    u^H @ u = x. Reads the triangle that it returns."""
    if upper:
        return linalg.cholesky(constant(x).mT.conj()).mT.conj()
    return linalg.cholesky(x)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The vector cross product of 3 elements along an axis; the other axes broadcast."""
    a, b = constant(x1), constant(x2)
    return a.moveaxis(axis, -1).cross(b.moveaxis(axis, -1)).moveaxis(-1, axis)


def det(x: Tensor, /) -> Tensor:
    """The determinants of square matrices."""
    return linalg.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices, as a last axis."""
    return constant(x).diagonal(offset, -2, -1)


def eig(x: Tensor, /) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices. Both are complex."""
    return EigResult(*linalg.eig(x))


def eigvals(x: Tensor, /) -> Tensor:
    """The eigenvalues of square matrices. They are complex."""
    return linalg.eigvals(x)


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    return EighResult(*linalg.eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """The eigenvalues of symmetric matrices, the least first."""
    return linalg.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """The inverses of square matrices."""
    return _inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norms of matrices: "fro", 1, -1, inf, -inf, or of their singular values: 2, -2, "nuc"."""
    return linalg.norm(x, ord or "fro", (-2, -1), keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Square matrices multiplied n times; their inverses for negative n."""
    return linalg.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are larger than rtol times the largest; max(m, n) times the type's epsilon, by default."""
    return linalg.matrix_rank(x, rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The outer product of two vectors."""
    return linalg.outer(x1, x2)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverses; singular values up to rtol times the largest count as 0."""
    return linalg.pinv(x, rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """Orthonormal and upper triangular factors, "reduced" or "complete"."""
    return QRResult(*linalg.qr(x, mode))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """The determinants of square matrices as a sign and the logarithm of the magnitude."""
    return SlogdetResult(*linalg.slogdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The x with x1 @ x = x2 for square matrices x1; x2 is one vector, or matrices."""
    return linalg.solve(x1, x2)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular values and vectors."""
    return SVDResult(*linalg.svd(x, full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values, the largest first."""
    return linalg.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums of the diagonals of matrices."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor, /, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """The norms of vectors along axes, or of all elements: (sum |x|^ord)^(1/ord); the largest or smallest magnitude for inf or
    -inf; the number of elements that are not zero for 0."""
    return constant(x).norm(ord, axis, keepdims)


__all__ = [
    "cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace",
    "vecdot", "vector_norm",
]  # fmt: skip
