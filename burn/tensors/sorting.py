"""Sorting, selecting and searching. Results whose size the data decide have a named size in a traced function; outside,
they are computed at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.dims import Dim, plain
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.lifting import Operand, together
from burn.tensors.products import Products
from burn.tensors.tracer import active

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


class Ordered(NamedTuple):
    """Elements in an order, and the places (int64) they came from."""

    values: Tensor
    indices: Tensor


class Distinct(NamedTuple):
    """The distinct elements, sorted; and, for each: where it first occurs, and how often; inverse says for every element
    which of them it is."""

    values: Tensor
    indices: Tensor
    inverse: Tensor
    counts: Tensor


def data_size(hint: str) -> str:
    """The name of a size that the data decide."""
    tracer = active()
    if tracer is None:
        return hint
    name = tracer.fresh(hint)
    tracer.new_size(name)
    return name


class Sorting(Products):
    """Orders."""

    __slots__ = ()

    def _sorted(self, axis: int | None, descending: bool) -> list[Any]:
        x: Tensor = self.ravel() if axis is None or not self.ndim else made(self.value)
        place = x._axis(axis or 0)
        if x.dtype != "bool":
            return build.sort(x.value, axis=place, descending=descending)
        values, places = build.sort(compose.convert(x.value, "uint8"), axis=place, descending=descending)
        return [compose.convert(values, "bool"), places]

    def sort(self, axis: int | None = -1, descending: bool = False) -> Tensor:
        """Sorted along an axis, or all elements in one row (None); NaN counts as largest. With places: `sort_with_indices`."""
        result = made(self._sorted(axis, descending)[0])
        return result if self.ndim or axis is None else result.reshape()

    def argsort(self, axis: int | None = -1, descending: bool = False) -> Tensor:
        """The places (int64) of the elements in sorted order; equal ones keep their order."""
        result = made(self._sorted(axis, descending)[1])
        return result if self.ndim or axis is None else result.reshape()

    def sort_with_indices(self, axis: int = -1, descending: bool = False) -> Ordered:
        """Sorted along an axis, and the places the elements came from."""
        return Ordered(*map(made, self._sorted(self._axis(axis), descending)))

    def topk(self, k: Dim, axis: int = -1, largest: bool = True) -> Ordered:
        """The k largest (or smallest) elements along an axis, in order, and their places."""
        place, k = self._axis(axis), plain(k)
        size = self.type.shape[place] if self.ndim else 1
        if isinstance(k, int) and isinstance(size, int) and not 0 <= k <= size:
            raise TypeMismatch(f"there are not {k} elements to choose", [f"axis {axis} of {self.type} has {size}"])
        compose.check_size(k, "<=", size, "there are so many elements to choose")
        values, places = (made(v) for v in self._sorted(place, largest))
        return Ordered(values._cut(place, 0, k), places._cut(place, 0, k))

    def searchsorted(self, values: Operand, side: str = "left") -> Tensor:
        """Where values (of any shape) belong in this sorted vector: before equal elements ("left") or behind ("right").

        Every value is compared with every element, which is quick for some thousands of them."""
        if self.ndim != 1 or side not in ("left", "right"):
            raise TypeMismatch("searchsorted is of sorted vectors, side left or right", [f"{self.type}, side {side!r}"])
        row, wanted = together(self, values)
        each = wanted.unsqueeze(-1)
        if side == "left":
            before = (row < each) | (each.isnan() & ~row.isnan())
        else:
            before = (row <= each) | each.isnan()
        return before.sum(-1)

    # ---- sizes that the data decide ----------------------------------------------------------------------------------
    def argwhere(self) -> Tensor:
        """The places of the elements that are not zero: [count, rank], int64, in row-major order."""
        x = self if self.ndim else self.reshape(1)
        places = made(build.nonzero(x._truth().value, count=data_size("nonzero"))).permute(1, 0)
        return places if self.ndim else places._cut(1, 0, 0)

    def nonzero(self) -> tuple[Tensor, ...]:
        """The places of the elements that are not zero: an int64 vector for each axis, which index the tensor."""
        if not self.ndim:
            raise TypeMismatch("nonzero is of tensors with axes", [f"not of {self.type}"])
        places = made(build.nonzero(self._truth().value, count=data_size("nonzero")))
        return tuple(places._cut(0, axis, 1).squeeze(0) for axis in range(self.ndim))

    def masked_select(self, mask: Any) -> Tensor:
        """The elements where the mask, which broadcasts to them, is true: a vector."""
        chosen = made(mask.value).broadcast_to(*self.type.shape).ravel()
        return self.ravel().take(chosen.nonzero()[0])

    def unique(self) -> Tensor:
        """The distinct elements, sorted: a vector. With more about them: `unique_with_counts`."""
        return self.unique_with_counts().values

    def unique_with_counts(self) -> Distinct:
        """The distinct elements, sorted, with where they occur and how often."""
        flat = self.ravel()
        bools = flat.dtype == "bool"
        x = compose.convert(flat.value, "uint8") if bools else flat.value
        values, first, inverse, counts = build.unique(x, count=data_size("unique"))
        values = compose.convert(values, "bool") if bools else values
        return Distinct(*map(made, (values, first, inverse, counts)))
