"""`Rows`: the part of a batch's tensor that a process reads, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.data import Loader
from burn.data.plan import Part, Piece
from burn.tensors import trees

if TYPE_CHECKING:
    from burn.distributed.mesh import Mesh


class Rows:
    """Rows [start, start + len(array)) of a tensor with `total` rows. Its shape is that of the whole tensor."""

    __slots__ = ("array", "start", "total")

    def __init__(self, array: np.ndarray, start: int, total: int) -> None:
        self.array, self.start, self.total = array, start, total

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.total, *self.array.shape[1:])

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    def numpy(self) -> np.ndarray:
        """The rows of this process."""
        return self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is None:  # numpy 1 does not know the value
            return np.asarray(self.array, dtype=dtype)
        return np.array(self.array, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"Rows({self.start}:{self.start + len(self.array)} of {list(self.shape)})"


def batches(mesh: Mesh, data: Any, whole_rest: bool = False) -> Iterator[Any]:
    """See `Mesh.batches`. whole_rest: a last batch whose rows the devices do not divide is read whole by every process; otherwise
    it is an error before the first batch."""
    if not isinstance(data, Loader):
        yield from data
        return
    blocks = mesh.count(mesh.batch)
    first, last = mesh.part(blocks)
    for piece in data.parts(Part(first, last, blocks, whole_rest)):
        yield piece.values if piece.is_whole else _rows(piece)


def _rows(piece: Piece) -> Any:
    """A batch whose arrays are `Rows`."""
    leaves, structure = trees.flatten(piece.values, trees.is_array)
    return trees.unflatten(structure, [Rows(leaf, piece.start, piece.total) for leaf in leaves])
