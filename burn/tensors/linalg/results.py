"""The results of factorisations, as named tuples."""

from __future__ import annotations

from typing import NamedTuple

from burn.tensors import Tensor


class LU(NamedTuple):
    """x[.., permutation, :] = lower @ upper; lower has ones on its diagonal."""

    permutation: Tensor
    lower: Tensor
    upper: Tensor


class QR(NamedTuple):
    """x = q @ r; the columns of q are orthonormal, r is upper triangular."""

    q: Tensor
    r: Tensor


class SVD(NamedTuple):
    """x = u * s @ vh: the columns of u and the rows of vh are orthonormal, s are the singular values, the largest first."""

    u: Tensor
    s: Tensor
    vh: Tensor


class Eigh(NamedTuple):
    """x @ vectors = vectors * values: the eigenvalues, the least first; in columns orthonormal eigenvectors."""

    values: Tensor
    vectors: Tensor


class Eig(NamedTuple):
    """x @ vectors = vectors * values: the eigenvalues, in columns eigenvectors of length 1; both complex."""

    values: Tensor
    vectors: Tensor


class SLogDet(NamedTuple):
    """det(x) = sign * exp(logarithm)."""

    sign: Tensor
    logarithm: Tensor
