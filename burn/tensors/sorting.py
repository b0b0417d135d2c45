"""Sorting, selection and search. Results of data-dependent size have a named size in a traced function; outside,
they are computed at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.dims import Dim, plain
from burn.dialect.searching import positions
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.contractions import Contractions
from burn.tensors.promotion import Operand, constant, together
from burn.tensors.tracer import active

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


class Ordered(NamedTuple):
    """Ordered elements, and their indices (int64) in the operand."""

    values: Tensor
    indices: Tensor


class Distinct(NamedTuple):
    """The distinct elements, sorted, with the index of the first occurrence and the count of each. inverse: for every element
    its index among the distinct ones."""

    values: Tensor
    indices: Tensor
    inverse: Tensor
    counts: Tensor


def data_size(hint: str) -> str:
    """A new name for a data-dependent size."""
    tracer = active()
    if tracer is None:
        return hint
    name = tracer.fresh(hint)
    tracer.new_size(name)
    return name


class Sorting(Contractions):
    """Sorting, selection and search."""

    __slots__ = ()

    def _sorted(self, axis: int | None, descending: bool) -> list[Any]:
        x: Tensor = self.ravel() if axis is None or not self.ndim else made(self.value)
        position = x._axis(axis or 0)
        if x.dtype != "bool":
            return build.sort(x.value, axis=position, descending=descending)
        values, indices = build.sort(compose.convert(x.value, "uint8"), axis=position, descending=descending)
        return [compose.convert(values, "bool"), indices]

    def sort(self, axis: int | None = -1, descending: bool = False) -> Tensor:
        """Sorted along an axis, or all elements as one vector (None); NaN counts as largest. See `sort_with_indices`."""
        result = made(self._sorted(axis, descending)[0])
        return result if self.ndim or axis is None else result.reshape()

    def argsort(self, axis: int | None = -1, descending: bool = False) -> Tensor:
        """The indices (int64) of the elements in sorted order; the sort is stable."""
        result = made(self._sorted(axis, descending)[1])
        return result if self.ndim or axis is None else result.reshape()

    def sort_with_indices(self, axis: int = -1, descending: bool = False) -> Ordered:
        """Sorted along an axis, and the indices of the elements in the operand."""
        return Ordered(*map(made, self._sorted(self._axis(axis), descending)))

    def topk(self, k: Dim, axis: int = -1, largest: bool = True) -> Ordered:
        """The k largest (or smallest) elements along an axis, in order, and their indices."""
        position, k = self._present_axis(axis), plain(k)
        size = self.type.shape[position] if self.ndim else 1
        if isinstance(k, int) and isinstance(size, int) and not 0 <= k <= size:
            raise TypeMismatch(f"there are not {k} elements to choose", [f"axis {axis} of {self.type} has {size}"])
        compose.check_size(k, "<=", size, "there are so many elements to choose")
        values, indices = (made(v) for v in self._sorted(position, largest))
        return Ordered(values._cut(position, 0, k), indices._cut(position, 0, k))

    def searchsorted(self, values: Operand, side: str = "left") -> Tensor:
        """Where values (of any shape) belong in this sorted vector: before equal elements ("left") or behind ("right"). NaN
        belongs behind all numbers.

        A binary search. A vector of dynamic size is compared with every value, which is quick for some thousands of them."""
        if self.ndim != 1 or side not in ("left", "right"):
            raise TypeMismatch("searchsorted is of sorted vectors, side left or right", [f"{self.type}, side {side!r}"])
        row, wanted = together(self, values)
        return made(positions(row.value, wanted.value, right=side == "right", nans_last=True))

    def isin(self, elements: Operand, invert: bool = False) -> Tensor:
        """True where the element occurs among `elements` (of any shape); with `invert`, where it does not. NaN occurs nowhere.

        Every element is compared with every other one, which is quick for some thousands of them."""
        x, wanted = together(self, constant(elements) if isinstance(elements, (list, tuple)) else elements)
        found = (x.unsqueeze(-1) == wanted.ravel()).any(-1)
        return ~found if invert else found

    # ---- data-dependent sizes ----------------------------------------------------------------------------------------
    def argwhere(self) -> Tensor:
        """The indices of the elements that are not zero: [count, rank], int64, in row-major order."""
        x = self if self.ndim else self.reshape(1)
        indices = made(build.nonzero(x._truth().value, count=data_size("nonzero"))).permute(1, 0)
        return indices if self.ndim else indices._cut(1, 0, 0)

    def nonzero(self) -> tuple[Tensor, ...]:
        """The indices of the elements that are not zero: an int64 vector for each axis, which index the tensor."""
        if not self.ndim:
            raise TypeMismatch("nonzero is of tensors with axes", [f"not of {self.type}"])
        indices = made(build.nonzero(self._truth().value, count=data_size("nonzero")))
        return tuple(indices._cut(0, axis, 1).squeeze(0) for axis in range(self.ndim))

    def masked_select(self, mask: Any) -> Tensor:
        """The elements where the mask, which broadcasts to them, is true: a vector."""
        chosen = made(mask.value).broadcast_to(*self.type.shape).ravel()
        return self.ravel().take(chosen.nonzero()[0])

    def unique(self) -> Tensor:
        """The distinct elements, sorted: a vector. See `unique_with_counts`."""
        return self.unique_with_counts().values

    def unique_with_counts(self) -> Distinct:
        """The distinct elements, sorted, with their first indices, inverse and counts."""
        flat = self.ravel()
        bools = flat.dtype == "bool"
        x = compose.convert(flat.value, "uint8") if bools else flat.value
        values, first, inverse, counts = build.unique(x, count=data_size("unique"))
        values = compose.convert(values, "bool") if bools else values
        return Distinct(*map(made, (values, first, inverse, counts)))
