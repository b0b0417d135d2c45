"""Eigenvalues, singular values, pseudo-inverses, exponentials, and LAPACK's reflectors: the algorithms are burn.linalg's."""

from __future__ import annotations

from typing import Any

import torch

from burn import linalg
from burn.dialect import ops
from burn.dialect.dims import dim_max, product
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten
from burn.importers.torch.ops.linalg import adjoint_of, full
from burn.tensors import Tensor
from burn.tensors.base import made
from burn.tensors.creation import eye
from burn.tensors.linalg import reflectors


def _empty(node: Node, *results: int) -> list[ir.Value]:
    """Results that torch gives no elements."""
    return [full(node.result_type(i), 0) for i in results]


def _unit(node: Node, result: int) -> ir.Value:
    """Unit matrices."""
    type_ = node.result_type(result)
    rows, columns = type_.shape[-2:]
    return eye(rows, columns, dtype=type_.dtype).broadcast_to(*type_.shape).value


# ---- eigenvalues and singular values ------------------------------------------------------------------------------------
@aten("linalg_eig.default")
def eig(node: Node, x: ir.Value) -> list[ir.Value]:
    values, vectors = linalg.eig(made(x))
    return [values.value, vectors.value]


@aten("linalg_eigvals.default", "_linalg_eigvals.default")
def eigvals(node: Node, x: ir.Value) -> ir.Value:
    return linalg.eigvals(made(x)).value


@aten("_linalg_eigh.default")
def eigh(node: Node, x: ir.Value, uplo: str = "L", compute_v: bool = True) -> list[ir.Value]:
    """Of the triangle that `uplo` names."""
    if type_of(x).elements == 0:
        return _empty(node, 0, 1)
    values, vectors = linalg.eigh(made(adjoint_of(x) if uplo.upper() == "U" else x))
    return [values.value, vectors.value if compute_v else _empty(node, 1)[0]]


@aten("_linalg_svd.default")
def svd(
    node: Node, x: ir.Value, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> list[ir.Value]:
    """`driver` chooses between algorithms of a GPU's library."""
    if type_of(x).elements == 0:
        (values,) = _empty(node, 1)
        return [_unit(node, 0), values, _unit(node, 2)] if compute_uv else _empty(node, 0, 1, 2)
    if not compute_uv:
        return [*_empty(node, 0), linalg.svdvals(made(x)).value, *_empty(node, 2)]
    u, s, vh = linalg.svd(made(x), full_matrices)
    return [u.value, s.value, vh.value]


# ---- functions of matrices ----------------------------------------------------------------------------------------------
@aten("linalg_pinv.atol_rtol_tensor", "linalg_pinv.atol_rtol_float")
def pinv(node: Node, x: ir.Value, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> ir.Value:
    """Singular values up to the larger of `atol` and `rtol` times the largest count as 0."""
    type_ = type_of(x)
    if type_.elements == 0:
        return full(node.result_type(), 0)
    given = made(x)
    if hermitian:
        values, vectors = linalg.eigh(given)
        left, right, sizes = vectors, vectors.mH, values.abs()
    else:
        u, values, vh = linalg.svd(given, full_matrices=False)
        left, right, sizes = vh.mH, u.mH, values
    real = sizes.dtype
    least = Tensor(node.scalar(0.0 if atol is None else atol, real))
    if rtol is None:
        epsilon = torch.finfo(getattr(torch, real)).eps
        own = made(ops.mul(node.scalar(dim_max(*type_.shape[-2:]), real), node.scalar(epsilon, real)))
        relative = own if atol is None else (least > 0).where(0.0, own)
    else:
        relative = Tensor(node.scalar(rtol, real))
    cutoff = least.unsqueeze(-1).maximum(relative.unsqueeze(-1) * sizes.max(-1, keepdims=True))
    kept = sizes > cutoff
    inverted = kept.where(kept.where(values, 1.0).reciprocal(), 0.0)
    return ((left * inverted.unsqueeze(-2)) @ right).value


@aten("linalg_pinv.default", "linalg_pinv.rcond_tensor")
def pinv_relative(node: Node, x: ir.Value, rcond: Any, hermitian: bool = False) -> ir.Value:
    return pinv(node, x, rtol=rcond, hermitian=hermitian)


@aten("linalg_matrix_exp.default")
def matrix_exp(node: Node, x: ir.Value) -> ir.Value:
    return x if type_of(x).elements == 0 else linalg.matrix_exp(made(x)).value


# ---- LAPACK's reflectors ------------------------------------------------------------------------------------------------
def _flat(x: ir.Value, axes: int = 2) -> Tensor:
    """With one batch axis before the last `axes`."""
    shape = type_of(x).shape
    return made(x).reshape(product(shape[: len(shape) - axes]), *shape[len(shape) - axes :])


@aten("geqrf.default")
def geqrf(node: Node, x: ir.Value) -> list[ir.Value]:
    """The upper factor with the reflectors below its diagonal, and the reflectors' factors."""
    if type_of(x).elements == 0:
        return _empty(node, 0, 1)
    packed, factors = reflectors.packed(_flat(x))
    return [t.reshape(*node.result_type(i).shape).value for i, t in enumerate((packed, factors))]


@aten("linalg_householder_product.default", "orgqr.default")
def orgqr(node: Node, x: ir.Value, factors: ir.Value) -> ir.Value:
    """The first columns of the reflectors' matmul."""
    shape = type_of(x).shape
    if type_of(x).elements == 0:
        return x
    flat = _flat(x)
    unit = eye(shape[-2], shape[-1], dtype=flat.dtype).broadcast_to(*flat.type.shape)
    return reflectors.multiplied(flat, _flat(factors, 1), unit).reshape(*shape).value


@aten("ormqr.default")
def ormqr(
    node: Node, x: ir.Value, factors: ir.Value, other: ir.Value, left: bool = True, transpose: bool = False
) -> ir.Value:
    """q other, or other q for reflectors of q; `transpose` takes the adjoint of q."""
    if node.result_type().elements == 0:
        return full(node.result_type(), 0)
    result = reflectors.multiplied(_flat(x), _flat(factors, 1), _flat(other), left=left, adjoint=transpose)
    return result.reshape(*node.shape).value
