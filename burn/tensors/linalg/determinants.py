"""Determinants. Their derivative is the cofactor matrix, also of singular matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect import ops as build
from burn.tensors import Tensor, constant
from burn.tensors.base import made
from burn.tensors.creation import eye
from burn.tensors.gradients import stop_gradient, with_derivative
from burn.tensors.linalg.matrices import as_matrices, index_along, restored
from burn.tensors.linalg.results import SLogDet
from burn.tensors.linalg.spectral import svd
from burn.tensors.linalg.triangular import inv, packed_lu


def _determinants(x: Tensor) -> tuple[Tensor]:
    packed, _, sign = packed_lu(x)
    return (packed.diagonal(0, 1, 2).prod(-1) * sign,)


def _det_gradient(
    operands: tuple[Tensor, ...], results: tuple[Tensor, ...], cotangents: Sequence[Tensor | None]
) -> tuple[Tensor]:
    """The cofactor matrix. For regular A it is det(A) A^-T. Elimination of a singular A stops at a column of zeros; there it is
    det(u v^T) u diag(p) v^T. Here p[i] multiplies all singular values but the i-th. Both formulas are computed, each with the
    other's matrices replaced by regular ones. Of complex matrices the cotangent is multiplied by the conjugate."""
    (x,), (value,), (g,) = operands, results, cotangents
    assert g is not None
    n = x.type.shape[1]
    singular = (value == 0).reshape(-1, 1, 1)
    regular = eye(n, dtype=x.dtype) * (index_along(n, -1).astype(x.dtype) + 1.0)  # no two singular values alike
    inverses = (inv(singular.where(regular, x)).mT * value.reshape(-1, 1, 1)).conj()
    u, s, vh = svd(singular.where(x, regular), full_matrices=False)
    before, behind = (
        made(build.cumulative(s.value, kind="prod", axis=1, exclusive=True, reverse=r)) for r in (False, True)
    )
    (sign,) = _determinants(stop_gradient(u @ vh))  # 1 or -1, on all matrices nearby
    cofactors = (u * (before * behind * sign.conj().unsqueeze(1)).unsqueeze(1)) @ vh
    return (g.reshape(-1, 1, 1) * singular.where(cofactors, inverses),)


def det(x: Any) -> Tensor:
    """The determinants of square matrices: [.., n, n] -> [..]."""
    given = constant(x)
    matrices = as_matrices("det", given, square=True)
    if matrices.type.shape[1] == 0:
        return restored(_determinants(matrices)[0], given)
    return restored(with_derivative(_determinants, _det_gradient, matrices)[0], given)


def slogdet(x: Any) -> SLogDet:
    """The determinants of square matrices as a sign and the logarithm of the magnitude, which do not overflow."""
    given = constant(x)
    packed, _, sign = packed_lu(as_matrices("slogdet", given, square=True))
    pivots = packed.diagonal(0, 1, 2)
    return SLogDet(restored(pivots.sign().prod(-1) * sign, given), restored(pivots.abs().log().sum(-1), given))
