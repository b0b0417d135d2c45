"""Products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from burn.dialect import ops as build
from burn.dialect.types import broadcast_shapes
from burn.errors import TypeMismatch
from burn.tensor.base import Base, made
from burn.tensor.lifting import lift
from burn.tensor.reductions import Reductions

if TYPE_CHECKING:
    from burn.tensor.tensor import Tensor


class Products(Reductions):
    """Sums of products."""

    __slots__ = ()

    def __matmul__(self, other: Base | np.ndarray) -> Tensor:
        return self.matmul(other)

    def __rmatmul__(self, other: Base | np.ndarray) -> Tensor:
        return lift(other).matmul(self)

    def matmul(self, other: Base | np.ndarray) -> Tensor:
        """numpy's matmul: the last two axes are matrices, a vector gets an axis of its own, the others broadcast."""
        left, right = self, lift(other)
        a, b = left.type, right.type
        if not a.rank or not b.rank:
            raise TypeMismatch("matmul takes vectors and matrices", [f"not {a} and {b}"])
        if b.rank <= 2:
            contract = {"lhs_contract": (a.rank - 1,), "rhs_contract": (max(b.rank - 2, 0),)}
            return made(build.dot_general(left.value, right.value, **contract))
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
        return made(build.dot_general(left.value, right.value, **axes))
