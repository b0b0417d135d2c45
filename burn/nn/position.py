"""Position embeddings: rotary, sinusoidal, learned."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from burn import ops
from burn.dialect.dims import Dim
from burn.errors import TypeMismatch
from burn.nn.checks import Count, DTypeName, Positive, Range
from burn.nn.init import normal
from burn.nn.module import Layer
from burn.nn.parameter import Parameter
from burn.tensors import Tensor, constant

Offset = Dim | Tensor
"""The position of a sequence's first element: a size, or an integer tensor, [] or one number a sequence [b]."""


def positions(length: Dim, offset: Offset) -> Tensor:
    """offset, offset + 1, ... Shapes: offset [] -> [1, length], [b] -> [b, length]; int64."""
    index = ops.iota(shape=(1, length), axis=1)
    if isinstance(offset, Tensor):
        return index + offset.astype("int64").reshape(-1, 1)
    return index if isinstance(offset, int) and offset == 0 else index + offset


def frequencies(dim: int, base: float) -> np.ndarray:
    """base^(-2 i / dim), i = 0 .. dim / 2 - 1: the factors of positions. Computed once, with the layer."""
    return (base ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)).astype(np.float32)


def angles(at: Tensor, rates: np.ndarray) -> Tensor:
    """Each position times each frequency. Shapes: at [b, s], rates [d] -> float32[b, s, d]."""
    return at.astype("float32").unsqueeze(2) * constant(rates)


class RotaryEmbedding(Layer):
    """Rotary embedding: rotates pairs of features by angles proportional to the position, so attention scores depend on
    distances (arXiv:2104.09864). Shapes: x [b, heads, s, d], offset a size or [] or [b] -> the same.

    dim: number of rotated features; default all. Pairs are features (i, dim / 2 + i), or (2 i, 2 i + 1) if
    `interleaved`."""

    def __init__(
        self,
        dim: Positive,
        base: Annotated[float, Range(0, open=True)] = 10000.0,
        interleaved: bool = False,
    ) -> None:
        if dim % 2:
            raise TypeMismatch("rotary embedding takes features in pairs", [f"{dim} is odd"])
        self.dim, self.base, self.interleaved = dim, float(base), interleaved
        self._frequencies = frequencies(dim, self.base)

    def forward(self, x: Tensor, offset: Any = 0) -> Tensor:
        if x.ndim != 4:
            raise TypeMismatch("RotaryEmbedding takes [b, heads, s, d]", [f"not {x.type}"])
        angle = angles(positions(x.shape[2], offset), self._frequencies)
        cos, sin = angle.cos().astype(x.dtype), angle.sin().astype(x.dtype)
        return ops.rotary_embedding(x, cos, sin, interleaved=self.interleaved)

    def extra_repr(self) -> str:
        return f"{self.dim}, base={self.base:g}"


class SinusoidalPositions(Layer):
    """x plus sin(position base^(-2 i / dim)) at features 2 i and the cosine at 2 i + 1 (arXiv:1706.03762). Shapes: x [b, s, dim],
    offset a size or [] or [b] -> the same."""

    def __init__(self, dim: Positive, base: Annotated[float, Range(0, open=True)] = 10000.0) -> None:
        if dim % 2:
            raise TypeMismatch("sinusoidal positions take features in pairs", [f"{dim} is odd"])
        self.dim, self.base = dim, float(base)
        self._frequencies = frequencies(dim, self.base)

    def forward(self, x: Tensor, offset: Any = 0) -> Tensor:
        if x.ndim != 3:
            raise TypeMismatch("SinusoidalPositions takes [b, s, dim]", [f"not {x.type}"])
        angle = angles(positions(x.shape[1], offset), self._frequencies).unsqueeze(3)
        waves = ops.concat([angle.sin(), angle.cos()], axis=3).flatten(2)
        return x + waves.astype(x.dtype)

    def extra_repr(self) -> str:
        return str(self.dim)


class LearnedPositions(Layer):
    """x plus a row of a table for each position. Shapes: x [b, s, dim], offset a size or [] or [b] -> the same; weight [count,
    dim]. A position beyond the table is an error at run time."""

    def __init__(self, count: Count, dim: Count, dtype: DTypeName = "float32") -> None:
        self.weight = Parameter((count, dim), dtype, normal(0.0, 0.02))

    def forward(self, x: Tensor, offset: Any = 0) -> Tensor:
        return x + self.weight.take(positions(x.shape[1], offset))

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.weight.shape))
