"""Derivatives of eigenvectors, singular vectors and pseudo-inverses by their closed forms.

Step-by-step differentiation of Jacobi's rotations would lose the gradients through pairs of columns that are never rotated: at
diagonal matrices, the derivatives with respect to all off-diagonal elements. The vectors of equal values have no derivative, as
any basis of their space will do. A formula that divides by a difference of equal values takes 0 instead of the quotient: what
would rotate the basis within the space counts as constant, as in JAX's svd. Derivatives stay finite, and are exact for functions
of the values, and of the space as a whole. The same holds for the left vectors of singular values of 0. Two vectors whose
cotangents are zero are not divided, so that the first components of a matrix of low rank have derivatives. Sources: Giles,
"Collected matrix derivative results" (2008); Townsend, "Differentiating the singular value decomposition" (2016); Golub and
Pereyra, "The differentiation of pseudo-inverses" (1973). For general matrices: Boeddeker et al., "On the computation of
complex-valued gradients with application to statistically optimum beamforming" (2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from burn.dialect import compose
from burn.tensors.base import made
from burn.tensors.creation import eye
from burn.tensors.linalg.jacobi import EPSILON

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


def eigh_gradient(
    operands: tuple[Tensor], results: tuple[Tensor, Tensor], cotangents: Sequence[Tensor | None]
) -> tuple[Tensor]:
    """V (diag(l) + skew(V^H W) / (2 E)) V^H for cotangents l of the values and W of the vectors V; symmetric.

    E[i, j] is the difference of values j and i."""
    values, vectors = results
    inner = None if cotangents[0] is None else _diagonal(cotangents[0])
    if cotangents[1] is not None:
        turned = _skew(vectors.mH @ cotangents[1]) * _inverse_gaps(values, cotangents[1]) * 0.5
        inner = turned if inner is None else inner + turned
    assert inner is not None
    return (vectors @ inner @ vectors.mH,)


def eig_gradient(
    operands: tuple[Tensor],
    results: tuple[Tensor, Tensor],
    cotangents: Sequence[Tensor | None],
    solve: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Tensor]:
    """V^-H (diag(l) + (V^H W - V^H V diag(V^H W)) / E^*) V^H for cotangents l of the values and W of the vectors V.

    Its real part for a real matrix. E[i, j] is the difference of values j and i. The vectors have length 1 and any phase: of the
    diagonal of V^H W the real part counts. A function that depends on the phase has no derivative. A defective matrix has none
    either: V is singular, and results are huge, infinite or NaN."""
    (x,), (values, vectors) = operands, results
    inner = None if cotangents[0] is None else _diagonal(cotangents[0])
    if cotangents[1] is not None:
        along = vectors.mH @ cotangents[1]
        lengths = along.diagonal(0, 1, 2).real.unsqueeze(1)
        across = (along - (vectors.mH @ vectors) * lengths) * _inverse_gaps(values, cotangents[1]).conj()
        inner = across if inner is None else inner + across
    assert inner is not None
    result = solve(vectors.mH, inner @ vectors.mH)
    return (result if x.is_complex else result.real,)


def svd_gradient(
    operands: tuple[Tensor], results: tuple[Tensor, Tensor, Tensor], cotangents: Sequence[Tensor | None]
) -> tuple[Tensor]:
    """Of matrices [batch, m, n], m >= n, with u [batch, m, m or n], s and v. The columns that complete u, which are any
    orthonormal ones, owe nothing."""
    (x,) = operands
    n = x.type.shape[2]
    whole, s, v = results
    u = whole._cut(2, 0, n)
    inner = None if cotangents[1] is None else _diagonal(cotangents[1])
    of_u = None if cotangents[0] is None else cotangents[0]._cut(2, 0, n)
    for vectors, g, left in ((u, of_u, False), (v, cotangents[2], True)):
        if g is None:
            continue
        turned = _skew(vectors.mH @ g) * _inverse_gaps(s * s, g) * s.unsqueeze(2 if left else 1)
        inner = turned if inner is None else inner + turned
    if of_u is not None and x.is_complex:  # the phase that both vectors of a pair share
        some = _nonzero(s)
        phases = some.where(_skew(u.mH @ of_u).diagonal(0, 1, 2) / (some.where(s, 1.0) * 2.0), 0.0)
        inner = phases.unsqueeze(2) * eye(n, dtype=x.dtype) + inner
    assert inner is not None
    result = u @ inner
    if of_u is not None and x.type.shape[1] != n:
        some = _nonzero(s).unsqueeze(1)
        beside = some.where(of_u / some.where(s.unsqueeze(1), 1.0), 0.0)
        result = result + (beside - u @ (u.mH @ beside))
    return (result @ v.mH,)


def pinv_gradient(
    operands: tuple[Tensor], results: tuple[Tensor], cotangents: Sequence[Tensor | None]
) -> tuple[Tensor]:
    """-P^H G P^H + (1 - A P) G^H P P^H + P^H P G^H (1 - P A) for the pseudo-inverse P of A.

    Holds while the rank stays the same."""
    (a,), (p,), (g,) = operands, results, cotangents
    assert g is not None
    m, n = a.type.shape[-2:]
    beside = eye(m, dtype=a.dtype) - a @ p
    around = eye(n, dtype=a.dtype) - p @ a
    return (beside @ g.mH @ (p @ p.mH) + (p.mH @ p) @ g.mH @ around - p.mH @ g @ p.mH,)


def _skew(x: Tensor) -> Tensor:
    return x - x.mH


def _inverse_gaps(values: Tensor, cotangent: Tensor) -> Tensor:
    """1 / (value j - value i): [batch, n] -> [batch, n, n]. It is 0 on the diagonal, for values that are equal but for
    rounding, and where columns i and j of the vectors' cotangent [batch, m, n] are both zero."""
    unused = (cotangent == 0).all(1)
    differences = values.unsqueeze(1) - values.unsqueeze(2)
    size = values.type.shape[1]
    near = values.abs().norm(float("inf"), 1, keepdims=True).unsqueeze(2) * EPSILON[values.dtype]
    equal = differences.abs() <= near * made(compose.dim_value(size, near.dtype))
    zero = eye(size, dtype="bool") | (unused.unsqueeze(1) & unused.unsqueeze(2)) | equal
    return zero.where(0.0, zero.where(1.0, differences).reciprocal())


def _nonzero(s: Tensor) -> Tensor:
    """True for singular values that are more than rounding of the largest: [batch, n]."""
    near = s.norm(float("inf"), 1, keepdims=True) * EPSILON[s.dtype] * made(compose.dim_value(s.type.shape[1], s.dtype))
    return s > near


def _diagonal(x: Tensor) -> Tensor:
    """[batch, n] -> [batch, n, n]."""
    return x.unsqueeze(2) * eye(x.type.shape[1], dtype=x.dtype)
