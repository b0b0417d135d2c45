"""Base of layers over one, two or three spatial axes, whose sizes are one number for all axes or one for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from burn.errors import TypeMismatch
from burn.nn.checks import Pads
from burn.nn.module import Layer
from burn.tensors import Tensor

T = TypeVar("T")


class Spatial(Layer):
    """Base of layers over x [N, C, d..] with `AXES` spatial axes."""

    AXES: ClassVar[int]

    def _each(self, value: T | Sequence[T]) -> tuple[T, ...]:
        if not isinstance(value, (tuple, list)):
            return (value,) * self.AXES  # type: ignore[return-value]
        if len(value) != self.AXES:
            raise TypeMismatch(
                f"{type(self).__name__} has {self.AXES} spatial axes", [f"{value!r} has {len(value)} entries"]
            )
        return tuple(value)

    def _pads(self, padding: Pads) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Before and after each axis: a number, or one for each axis, or a pair for each."""
        pairs = [(p, p) if isinstance(p, int) else tuple(p) for p in self._each(padding)]  # type: ignore[arg-type]
        return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)

    def _check(self, x: Tensor) -> None:
        """Raises TypeMismatch unless x has a batch, channels and the spatial axes."""
        if x.ndim != self.AXES + 2:
            axes = ", ".join(["N", "C", *"DHW"[3 - self.AXES :]])
            raise TypeMismatch(f"{type(self).__name__} takes [{axes}]", [f"not {x.type}"])
