"""Methods that rearrange elements: reshaping, permuting, broadcasting, converting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burn.dialect import compose, dims
from burn.errors import TypeMismatch
from burn.tensor.base import Base, made, sequence

if TYPE_CHECKING:
    from burn.tensor.tensor import Tensor


class Shapes(Base):
    """Rearranging elements."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in row-major order; one size may be -1."""
        wanted = sequence(shape)
        if -1 in wanted:
            known = dims.product(d for d in wanted if d != -1)
            rest = dims.exact_div(self.size, known) if known != 0 else None
            if rest is None or wanted.count(-1) > 1:
                raise TypeMismatch("cannot reshape", [f"{self!r} to [{', '.join(map(str, wanted))}]"])
            wanted = tuple(rest if d == -1 else d for d in wanted)
        return made(compose.reshape(self.value, wanted))

    def flatten(self, start: int = 0, end: int = -1) -> Tensor:
        """Axes start to end, inclusive, as one."""
        first, last = self._axis(start), self._axis(end)
        return self.reshape(*self.shape[:first], dims.product(self.shape[first : last + 1]), *self.shape[last + 1 :])

    def squeeze(self, *axes: int) -> Tensor:
        """Without these axes of size 1."""
        gone = {self._axis(a) for a in axes}
        return self.reshape(*(d for i, d in enumerate(self.shape) if i not in gone))

    def unsqueeze(self, axis: int) -> Tensor:
        """With a new axis of size 1."""
        place = axis if axis >= 0 else self.ndim + 1 + axis
        return self.reshape(*self.shape[:place], 1, *self.shape[place:])

    def permute(self, *axes: Any) -> Tensor:
        """Result axis i is axis axes[i]."""
        return made(compose.transpose(self.value, tuple(self._axis(a) for a in sequence(axes))))

    def transpose(self, first: int, second: int) -> Tensor:
        """Two axes exchanged."""
        order = list(range(self.ndim))
        a, b = self._axis(first), self._axis(second)
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    @property
    def T(self) -> Tensor:
        """A matrix, transposed."""
        if self.ndim != 2:
            raise TypeMismatch("T is of matrices", [f"not of {self!r}; use transpose or permute"])
        return self.permute(1, 0)

    def broadcast_to(self, *shape: Any) -> Tensor:
        return made(compose.broadcast_to(self.value, sequence(shape)))

    def astype(self, dtype: str) -> Tensor:
        """Elements converted; see burn.ops.cast."""
        return made(compose.convert(self.value, dtype))
