"""Multi-head attention."""

from __future__ import annotations

from burn import ops
from burn.nn.linear import Linear
from burn.nn.module import Module
from burn.tensor import Tensor


class MultiheadAttention(Module):
    """Attention of `query` to `key` and `value` in several heads (arXiv:1706.03762).

    Shapes: query [b, s, dim], key and value [b, t, dim], mask broadcast to [b, heads, s, t] (bool: True takes part; or
    added to the scores) -> [b, s, dim]."""

    def __init__(self, dim: int, heads: int, bias: bool = True, dtype: str = "float32") -> None:
        self.heads, self.depth = heads, dim // heads
        self.query = Linear(dim, dim, bias, dtype=dtype)
        self.key = Linear(dim, dim, bias, dtype=dtype)
        self.value = Linear(dim, dim, bias, dtype=dtype)
        self.output = Linear(dim, dim, bias, dtype=dtype)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        q, k, v = self._split(self.query(query)), self._split(self.key(key)), self._split(self.value(value))
        y = ops.attention(q, k, v, mask, scale=self.depth**-0.5, causal=causal).permute(0, 2, 1, 3)
        return self.output(y.flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.heads, self.depth).permute(0, 2, 1, 3)
