"""Methods that give the same elements another shape: reshaping, permuting, broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from burn.dialect import compose, dims, ops
from burn.errors import TypeMismatch
from burn.tensors.activations import Activations
from burn.tensors.base import made, sequence

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor


class Shapes(Activations):
    """Rearranging axes."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in row-major order; one size may be -1."""
        wanted = _filled(self.type.elements, sequence(shape))
        if wanted is None:
            raise TypeMismatch("cannot reshape", [f"{self.type} to [{', '.join(map(str, sequence(shape)))}]"])
        return made(compose.reshape(self.value, wanted))

    def flatten(self, start: int = 0, end: int = -1) -> Tensor:
        """Axes start to end, inclusive, as one."""
        first, last = self._axis(start), self._axis(end)
        return self.reshape(
            *self.type.shape[:first], dims.product(self.type.shape[first : last + 1]), *self.type.shape[last + 1 :]
        )

    def ravel(self) -> Tensor:
        """All axes as one."""
        return self.reshape(self.type.elements)

    def unflatten(self, axis: int, *sizes: Any) -> Tensor:
        """One axis split into axes of these sizes. One size may be -1."""
        position = self._present_axis(axis)
        wanted = _filled(self.type.shape[position], sequence(sizes))
        if wanted is None:
            raise TypeMismatch("cannot unflatten", [f"axis {axis} of {self.type} to {list(sequence(sizes))}"])
        return self.reshape(*self.type.shape[:position], *wanted, *self.type.shape[position + 1 :])

    def squeeze(self, *axes: int) -> Tensor:
        """Removes these axes of size 1; by default all axes of static size 1. Raises TypeMismatch for
        an axis of another size."""
        gone = set(self._axes(sequence(axes)))
        if not axes:
            gone = {i for i, d in enumerate(self.type.shape) if d == 1}
        wrong = [i for i in sorted(gone) if isinstance(self.type.shape[i], int) and self.type.shape[i] != 1]
        if wrong:
            raise TypeMismatch("only axes of size 1 are squeezed", [f"not axes {wrong} of {self.type}"])
        return self.reshape(*(d for i, d in enumerate(self.type.shape) if i not in gone))

    def unsqueeze(self, axis: int) -> Tensor:
        """Inserts an axis of size 1, at this position of the result."""
        position = axis if axis >= 0 else self.ndim + 1 + axis
        if not 0 <= position <= self.ndim:
            raise TypeMismatch(f"a new axis cannot be at {axis}", [f"of {self.type}"])
        return self.reshape(*self.type.shape[:position], 1, *self.type.shape[position:])

    expand_dims = unsqueeze

    def atleast_1d(self) -> Tensor:
        """A scalar as a vector of one element; others as they are."""
        return self.reshape(*self.type.shape) if self.ndim else self.reshape(1)

    def atleast_2d(self) -> Tensor:
        """A vector as a row, a scalar as a matrix of one element; others as they are."""
        return self.reshape(*(1,) * (2 - self.ndim), *self.type.shape)

    def permute(self, *axes: Any) -> Tensor:
        """Result axis i is axis axes[i]; without axes, in reverse order."""
        order = tuple(self._axis(a) for a in sequence(axes)) if axes else tuple(reversed(range(self.ndim)))
        return made(compose.transpose(self.value, order))

    def transpose(self, first: int, second: int) -> Tensor:
        """Two axes exchanged (numpy's `swapaxes`; numpy's `transpose` is `permute` here)."""
        order = list(range(self.ndim))
        a, b = self._axis(first), self._axis(second)
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    swapaxes = transpose

    def moveaxis(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """Axes moved to other positions; the rest keep their order."""
        sources, positions = self._axes(source), self._axes(destination)
        if len(sources) != len(positions):
            raise TypeMismatch(
                "moveaxis needs a position for each axis", [f"{len(sources)} axes, {len(positions)} positions"]
            )
        order = [axis for axis in range(self.ndim) if axis not in sources]
        for position, axis in sorted(zip(positions, sources, strict=True)):
            order.insert(position, axis)
        return self.permute(order)

    def clone(self) -> Tensor:
        """A tensor with the same elements, which a later x[i] = v to one of the two does not change in the other one."""
        return self._present()

    contiguous = clone

    def detach(self) -> Tensor:
        """A tensor with the same elements, which derivatives do not pass (`burn.stop_gradient`)."""
        return made(ops.stop_gradient(self.value))

    def t(self) -> Tensor:
        """A matrix, transposed; a vector or a number as it is."""
        if self.ndim > 2:
            raise TypeMismatch("t is of matrices", [f"not of {self.type}; use mT, transpose or permute"])
        return self.permute()

    @property
    def T(self) -> Tensor:
        """A matrix, transposed."""
        if self.ndim != 2:
            raise TypeMismatch("T is of matrices", [f"not of {self.type}; use mT, transpose or permute"])
        return self.permute(1, 0)

    @property
    def mT(self) -> Tensor:
        """The matrices on the last two axes, transposed."""
        if self.ndim < 2:
            raise TypeMismatch("mT is of matrices", [f"not of {self.type}"])
        return self.transpose(-1, -2)

    @property
    def mH(self) -> Tensor:
        """The matrices on the last two axes, transposed and conjugated; of real tensors the same as `mT`."""
        return self.conj().mT

    def broadcast_to(self, *shape: Any) -> Tensor:
        """Axes of size 1, and new ones in front, repeated to this shape."""
        return made(compose.broadcast_to(self.value, sequence(shape)))

    def expand(self, *shape: Any) -> Tensor:
        """As `broadcast_to`; a size of -1 keeps the axis as it is."""
        wanted = sequence(shape)
        own = (None,) * (len(wanted) - self.ndim) + self.type.shape
        if len(wanted) < self.ndim or any(d == -1 and o is None for d, o in zip(wanted, own, strict=True)):
            raise TypeMismatch("cannot expand", [f"{self.type} to {list(wanted)}"])
        return self.broadcast_to(*(o if d == -1 else d for d, o in zip(wanted, own, strict=True)))


def _filled(elements: dims.Dim, wanted: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A shape with -1 replaced by its size; None if there is none. Divisibility of a named size is checked at run
    time: a reshape compares the numbers of elements."""
    if -1 not in wanted:
        return wanted
    known = dims.product(d for d in wanted if d != -1)
    if wanted.count(-1) > 1 or known == 0:
        return None
    rest = dims.exact_div(elements, known)
    if rest is None and isinstance(elements, int) and isinstance(known, int):
        return None
    rest = dims.floordiv(elements, known) if rest is None else rest
    return tuple(rest if d == -1 else d for d in wanted)
