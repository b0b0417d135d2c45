"""Matmuls and contractions. Each becomes one `dot_general`, or an outer product of elements.

Floats of 16 bits accumulate in float32, integers in their own type (at least int32)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect import dims
from burn.dialect import ops as build
from burn.dialect.types import broadcast_shapes
from burn.errors import TypeMismatch
from burn.tensors.base import Base, made
from burn.tensors.creation import broadcast_tensors
from burn.tensors.promotion import lift, together
from burn.tensors.statistics import Statistics

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor

Factor = Base | np.ndarray


class Contractions(Statistics):
    """Matmuls and contractions."""

    __slots__ = ()

    def __matmul__(self, other: Factor) -> Tensor:
        return self.matmul(other)

    def __rmatmul__(self, other: Factor) -> Tensor:
        return lift(other).matmul(self)

    def matmul(self, other: Factor) -> Tensor:
        """numpy's matmul: the last two axes are matrices, a vector gets a temporary axis, the other axes broadcast."""
        left, right = together(self, other)
        a, b = left.type, right.type
        if not a.rank or not b.rank:
            raise TypeMismatch("matmul takes vectors and matrices", [f"not {a} and {b}"])
        if b.rank <= 2:
            contract = {"lhs_contract": (a.rank - 1,), "rhs_contract": (max(b.rank - 2, 0),)}
            return _dot(left, right, **contract)
        if a.rank == 1:
            return left.unsqueeze(0).matmul(right).squeeze(-2)
        try:
            batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError as error:
            raise TypeMismatch("cannot multiply", [str(error)]) from None
        n = len(batch)
        axes = {
            "lhs_batch": tuple(range(n)),
            "rhs_batch": tuple(range(n)),
            "lhs_contract": (n + 1,),
            "rhs_contract": (n,),
        }
        left, right = left.broadcast_to(*batch, *a.shape[-2:]), right.broadcast_to(*batch, *b.shape[-2:])
        return _dot(left, right, **axes)

    mm = bmm = matmul

    def matvec(self, vector: Factor) -> Tensor:
        """Matrices times vectors: [.., m, n] and [.., n] -> [.., m]; the leading axes broadcast."""
        right = lift(vector)
        return self.matmul(right.unsqueeze(-1)).squeeze(-1)

    def dot(self, other: Factor) -> Tensor:
        """numpy's dot: contracts the last axis of self with the last but one (or only) of other; a scalar multiplies."""
        left, right = together(self, other)
        if not left.ndim or not right.ndim:
            return left * right
        return _dot(left, right, lhs_contract=(left.ndim - 1,), rhs_contract=(max(right.ndim - 2, 0),))

    def inner(self, other: Factor) -> Tensor:
        """Contracts the last axis of both: [.., k] and [.., k] -> [.., ..]."""
        left, right = together(self, other)
        if not left.ndim or not right.ndim:
            return left * right
        return _dot(left, right, lhs_contract=(left.ndim - 1,), rhs_contract=(right.ndim - 1,))

    def vdot(self, other: Factor) -> Tensor:
        """The inner product of all elements in row-major order, with the conjugates of self."""
        return self.conj().ravel().dot(lift(other).ravel())

    def outer(self, other: Factor) -> Tensor:
        """The outer product of all elements: a matrix."""
        left, right = together(self, other)
        return left.reshape(left.type.elements, 1) * right.reshape(1, right.type.elements)

    def kron(self, other: Factor) -> Tensor:
        """The Kronecker product: each element of self times the whole of other."""
        left, right = together(self, other)
        rank = max(left.ndim, right.ndim)
        a = (*(1,) * (rank - left.ndim), *left.type.shape)
        b = (*(1,) * (rank - right.ndim), *right.type.shape)
        x = left.reshape(*(d for size in a for d in (size, 1)))
        y = right.reshape(*(d for size in b for d in (1, size)))
        return (x * y).reshape(*(p * q for p, q in zip(a, b, strict=True)))

    def tensordot(self, other: Factor, axes: int | Sequence[Any] = 2) -> Tensor:
        """Contracts several axes: the last `axes` of self with the first of other, or the axes listed for
        each, ([1, 0], [0, 1]). The result has the other axes of self, then those of other."""
        left, right = together(self, other)
        if isinstance(axes, int):
            if not 0 <= axes <= min(left.ndim, right.ndim):
                raise TypeMismatch("tensordot has too few axes", [f"{axes} axes of {left.type} and {right.type}"])
            first, second = tuple(range(left.ndim - axes, left.ndim)), tuple(range(axes))
        else:
            first, second = left._axes(axes[0]), right._axes(axes[1])
        if len(first) != len(second):
            raise TypeMismatch("tensordot needs as many axes of one as of the other", [f"{first} and {second}"])
        return _dot(left, right, lhs_contract=first, rhs_contract=second)

    def cross(self, other: Factor, axis: int = -1) -> Tensor:
        """The cross product of vectors of 3 elements along an axis."""
        left, right = together(self, other)
        a, b = left.moveaxis(axis, -1), right.moveaxis(axis, -1)
        if a.type.shape[-1] != 3 or b.type.shape[-1] != 3:
            raise TypeMismatch("the cross product is of vectors of 3 elements", [f"not {left.type} and {right.type}"])
        ahead, behind = (lambda x: x.roll(-1, -1)), (lambda x: x.roll(1, -1))
        return (ahead(a) * behind(b) - behind(a) * ahead(b)).moveaxis(-1, axis)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The sum of the diagonal."""
        return self.diagonal(offset, axis1, axis2).sum(-1)

    def cosine_similarity(self, other: Factor, axis: int = -1, eps: float = 1e-8) -> Tensor:
        """The cosine of the angle between vectors along an axis of the shape that both broadcast to; norms count as at least eps
        (torch's definition)."""
        a, b = together(self, other, floating=True)
        a, b = broadcast_tensors(a, b)
        lengths = a.norm(2, axis, True).clip(eps), b.norm(2, axis, True).clip(eps)
        return ((a / lengths[0]) * (b / lengths[1])).sum(axis)


def _dot(left: Tensor, right: Tensor, **axes: tuple[int, ...]) -> Tensor:
    if left.dtype == "bool":
        return _dot(left.astype("int32"), right.astype("int32"), **axes) != 0
    for a, b in zip(axes["lhs_contract"], axes["rhs_contract"], strict=True):
        sizes = left.type.shape[a], right.type.shape[b]
        if dims.symbols(sizes[0]) or dims.symbols(sizes[1]) or sizes[0] == sizes[1]:
            continue
        text = f"axis {a} of {left.type} and axis {b} of {right.type} must be of one size"
        raise TypeMismatch("cannot multiply", [text])
    return made(build.dot_general(left.value, right.value, **axes))
