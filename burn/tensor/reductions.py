"""Methods that reduce axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burn.dialect import compose
from burn.dialect import ops as build
from burn.tensor.base import made
from burn.tensor.shapes import Shapes

if TYPE_CHECKING:
    from burn.tensor.tensor import Tensor


class Reductions(Shapes):
    """Reducing axes to a number each."""

    __slots__ = ()

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("sum", axis, keepdims)

    def prod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("prod", axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("max", axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("min", axis, keepdims)

    def any(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("any", axis, keepdims)

    def all(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("all", axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The mean in the tensor's own element type."""
        return made(compose.mean(self.value, self._axes(axis), keepdims))

    def argmax(self, axis: int, keepdims: bool = False) -> Tensor:
        return made(build.arg_reduce(self.value, kind="max", axis=self._axis(axis), keepdims=keepdims))

    def argmin(self, axis: int, keepdims: bool = False) -> Tensor:
        return made(build.arg_reduce(self.value, kind="min", axis=self._axis(axis), keepdims=keepdims))

    def softmax(self, axis: int = -1) -> Tensor:
        return made(build.softmax(self.value, axis=self._axis(axis)))

    def _reduce(self, kind: str, axis: int | Sequence[int] | None, keepdims: bool) -> Tensor:
        return made(build.reduce(self.value, kind=kind, axes=self._axes(axis), keepdims=keepdims))
