"""How the rhs of a packed contraction is laid out in memory: `Encoding`.

Logical contractions (`dot_general`, `conv`, `block_dot`) have no layout. The pass `pack` replaces them by packed ops (packed.py),
as IREE does with its encodings and `linalg.mmt4d`.
"""

from __future__ import annotations

from dataclasses import dataclass

from burn.dialect.dims import Dim


@dataclass(frozen=True)
class Encoding:
    """A matrix [batch.., k.., columns] in panels of a few columns: [batch.., panels, k.., width]. Zeros fill up the last panel.

    With `interleaved` r > 1, r elements of the last depth axis are adjacent, as instructions that multiply bytes read them:
    [batch.., panels, k.., k / r, width, r]."""

    columns: int
    interleaved: int = 1

    def depth(self, shape: tuple[Dim, ...], batch: int) -> tuple[Dim, ...]:
        """The depth axes of a packed shape with so many batch axes, in elements."""
        if self.interleaved == 1:
            return shape[batch + 1 : -1]
        return (*shape[batch + 1 : -3], shape[-3] * self.interleaved)

    def logical(self, shape: tuple[Dim, ...], batch: int) -> tuple[Dim, ...]:
        """The shape before packing: [batch.., k.., columns]."""
        return (*shape[:batch], *self.depth(shape, batch), self.columns)

    @property
    def width_axis(self) -> int:
        """The axis of a packed shape that counts the columns of a panel, from the end."""
        return -1 if self.interleaved == 1 else -2
