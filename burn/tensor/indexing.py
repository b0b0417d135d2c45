"""Indexing and slicing as in numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.dims import Expr
from burn.dialect.shape import slice_bounds
from burn.errors import TypeMismatch
from burn.tensor.base import Base, made
from burn.tensor.lifting import lift
from burn.tensor.operators import Operators

if TYPE_CHECKING:
    from burn.tensor.tensor import Tensor


class Indexing(Operators):
    """Reading at places."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Tensor:
        """numpy's basic indexing (numbers, slices, None, ...), bounds may be symbolic; at most one integer tensor, which
        takes the place of its axis by its own axes."""
        items = _full_index(self.ndim, index if isinstance(index, tuple) else (index,))
        starts, sizes, steps, kept, gathered = [], [], [], [], None
        axis = 0
        for item in items:
            if item is None:
                kept.append(1)
                continue
            dim = self.shape[axis]
            if isinstance(item, slice):
                step = 1 if item.step is None else item.step
                start, size = slice_bounds(dim, item.start, item.stop, step)
                kept.append(size)
            elif isinstance(item, Base):
                start, size, step = 0, dim, 1
                gathered = (len(kept), item)
                kept.append(dim)
            elif isinstance(item, (int, Expr)) and not isinstance(item, bool):
                start, size, step = (item if not isinstance(item, int) or item >= 0 else dim + item), 1, 1
            else:
                raise TypeMismatch("a tensor cannot be indexed so", [f"with a {type(item).__name__}"])
            starts.append(start)
            sizes.append(size)
            steps.append(step)
            axis += 1
        x = self.value
        if any(starts) or tuple(sizes) != self.shape or set(steps) > {1}:
            x = build.slice(x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
        x = compose.reshape(x, tuple(kept))
        if gathered is not None:
            x = build.gather(x, gathered[1].value, axis=gathered[0])
        return made(x)

    def take(self, indices: Tensor | np.ndarray | int, axis: int = 0) -> Tensor:
        """Slices along an axis at the given places (burn.ops.gather); a number takes the axis away."""
        return made(build.gather(self.value, lift(indices, "int64").value, axis=self._axis(axis)))


def _full_index(rank: int, index: tuple[Any, ...]) -> list[Any]:
    """An index with one entry for each axis (and None for new axes)."""
    taken = sum(1 for item in index if item is not None and item is not Ellipsis)
    dots = [i for i, item in enumerate(index) if item is Ellipsis]
    if taken > rank or len(dots) > 1 or sum(isinstance(item, Base) for item in index) > 1:
        raise TypeMismatch("a tensor cannot be indexed so", [f"{len(index)} entries for {rank} axes"])
    rest = [slice(None)] * (rank - taken)
    if not dots:
        return [*index, *rest]
    return [*index[: dots[0]], *rest, *index[dots[0] + 1 :]]
