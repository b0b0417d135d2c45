"""Key-value cache of decoding: a container of tensors, which compiled functions accept and return.

cache = decoder.start(batch=1)                      # grows with each step; or of one size: start(1, capacity=256)
y, cache = decoder(x, cache=cache)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from burn import ops
from burn.dialect.dims import Dim
from burn.errors import TypeMismatch
from burn.tensors import Tensor


@dataclass(frozen=True)
class KeyValueCache:
    """The keys and values of the positions so far. Shapes: keys and values [b, heads, t, d].

    Without `length` all t positions are filled, and `append` makes t larger: a compiled function takes t as a symbolic
    size. With `length` (an int64 number) the first `length` of t = capacity positions are filled, and sizes do not change."""

    keys: Tensor
    values: Tensor
    length: Tensor | None = None

    @classmethod
    def empty(
        cls, batch: Dim, heads: Dim, depth: Dim, capacity: Dim | None = None, dtype: str = "float32"
    ) -> KeyValueCache:
        """An empty cache."""
        nothing = ops.full(shape=(batch, heads, 0 if capacity is None else capacity, depth), dtype=dtype, value=0.0)
        return cls(nothing, nothing, None if capacity is None else ops.full(shape=(), dtype="int64", value=0.0))

    @property
    def past(self) -> Any:
        """The number of filled positions: a size, or the number `length`."""
        return self.keys.shape[2] if self.length is None else self.length

    @property
    def lengths(self) -> Tensor | None:
        """`length` for each sample, int64[b], as the attention op takes it."""
        return None if self.length is None else self.length.reshape(1).broadcast_to(self.keys.shape[0])

    def append(self, keys: Tensor, values: Tensor) -> KeyValueCache:
        """The cache with the keys and values of further positions, [b, heads, s, d]. Raises TypeMismatch for another element
        type, or if s exceeds the capacity. A full cache is an error at run time."""
        for mine, new in ((self.keys, keys), (self.values, values)):
            if mine.dtype != new.dtype or mine.ndim != new.ndim:
                raise TypeMismatch("these keys and values are not of the cache's type", [f"{new.type} to {mine.type}"])
        if self.length is None:
            return KeyValueCache(*(ops.concat([a, b], axis=2) for a, b in ((self.keys, keys), (self.values, values))))
        count, capacity = keys.shape[2], self.keys.shape[2]
        if isinstance(count, int) and isinstance(capacity, int) and count > capacity:
            raise TypeMismatch("the cache is too small", [f"{count} positions at once, of {capacity}"])
        position = (ops.iota(shape=(count,), axis=0) + self.length).reshape(1, 1, -1, 1)
        parts = [
            ops.scatter_elements(mine, position.broadcast_to(*new.shape), new, axis=2)
            for mine, new in ((self.keys, keys), (self.values, values))
        ]
        return KeyValueCache(parts[0], parts[1], self.length + count)


@dataclass(frozen=True)
class LayerCache:
    """The cache of one decoder layer: for its own positions, and for the sequence that it attends to."""

    own: KeyValueCache
    memory: KeyValueCache | None = None
