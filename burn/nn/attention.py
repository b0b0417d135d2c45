"""Multi-head attention: to the sequence itself or to another, with shared key heads, masks, rotary positions and a cache."""

from __future__ import annotations

from typing import Any

from burn import ops
from burn.dialect.dims import Dim
from burn.errors import TypeMismatch
from burn.nn.cache import KeyValueCache
from burn.nn.checks import Count, DTypeName, Positive, Probability
from burn.nn.dropout import Dropout
from burn.nn.linear import Linear
from burn.nn.module import Layer
from burn.nn.position import RotaryEmbedding
from burn.random import next_key
from burn.tensors import Tensor


class MultiheadAttention(Layer):
    """Multi-head attention (arXiv:1706.03762). key defaults to query, and value to key. A query without a permitted key gives
    zeros.

    Shapes: query [b, s, dim], key [b, t, key_dim], value [b, t, value_dim], mask broadcast to [b, heads, s, t] (bool: True takes
    part, which is the opposite of torch; or added to the scores), key_mask [b, t] bool -> [b, s, dim].

    `kv_heads`: number of heads of keys and values, each shared by heads / kv_heads query heads (arXiv:2305.13245).
    `causal`: position i attends to positions up to i. `rotary`: rotary position embedding of queries and keys. `cache`: keys and
    values of earlier positions; the result is then (y, the extended cache). `dropout`: of attention weights, in training."""

    def __init__(
        self,
        dim: Count,
        heads: Positive,
        bias: bool = True,
        dtype: DTypeName = "float32",
        *,
        key_dim: Count | None = None,
        value_dim: Count | None = None,
        kv_heads: Positive | None = None,
        head_dim: Positive | None = None,
        dropout: Probability = 0.0,
    ) -> None:
        self.heads, self.kv_heads = heads, heads if kv_heads is None else kv_heads
        if head_dim is None and dim % heads:
            raise TypeMismatch("MultiheadAttention cannot split its features", [f"{dim} into {heads} heads"])
        if heads % self.kv_heads:
            raise TypeMismatch("MultiheadAttention cannot share its key heads", [f"{self.kv_heads} by {heads} heads"])
        self.depth = dim // heads if head_dim is None else head_dim
        key_dim = dim if key_dim is None else key_dim
        self.query = Linear(dim, self.heads * self.depth, bias, dtype=dtype)
        self.key = Linear(key_dim, self.kv_heads * self.depth, bias, dtype=dtype)
        self.value = Linear(key_dim if value_dim is None else value_dim, self.kv_heads * self.depth, bias, dtype=dtype)
        self.output = Linear(self.heads * self.depth, dim, bias, dtype=dtype)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        *,
        key_mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        rotary: RotaryEmbedding | None = None,
        dropout_key: Tensor | None = None,
    ) -> Any:
        _check(self, query, key, value)
        key = query if key is None else key
        value = key if value is None else value
        past: Any = 0 if cache is None else cache.past
        q, k = self._split(self.query(query), self.heads), self._split(self.key(key), self.kv_heads)
        v = self._split(self.value(value), self.kv_heads)
        if rotary is not None:
            q, k = rotary(q, past), rotary(k, past)
        lengths = None
        if cache is not None:
            cache = cache.append(k, v)
            k, v, lengths = cache.keys, cache.values, cache.lengths
        y = self._attend(q, k, v, _with_key_mask(mask, key_mask), lengths, causal, past, dropout_key)
        return y if cache is None else (y, cache)

    def start(self, batch: Dim, capacity: Dim | None = None) -> KeyValueCache:
        """An empty cache: one that grows, or one of a fixed capacity."""
        return KeyValueCache.empty(batch, self.kv_heads, self.depth, capacity, self.key.dtype)

    def project(self, key: Tensor, value: Tensor | None = None) -> KeyValueCache:
        """The keys and values of a sequence, for many calls to `attend`."""
        value = key if value is None else value
        k, v = self._split(self.key(key), self.kv_heads), self._split(self.value(value), self.kv_heads)
        return KeyValueCache(k, v)

    def attend(
        self,
        query: Tensor,
        kept: KeyValueCache,
        mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        dropout_key: Tensor | None = None,
    ) -> Tensor:
        """Attention to keys and values from `project`."""
        q = self._split(self.query(query), self.heads)
        mask = _with_key_mask(mask, key_mask)
        return self._attend(q, kept.keys, kept.values, mask, kept.lengths, False, 0, dropout_key)

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        lengths: Tensor | None,
        causal: bool,
        past: Any,
        dropout_key: Tensor | None,
    ) -> Tensor:
        scale = self.depth**-0.5
        offset: Dim = 0 if isinstance(past, Tensor) else past
        rate = self.dropout.p if self.dropout.training else 0.0
        how = {"scale": scale, "causal": causal, "offset": offset}
        if 0.0 < rate < 1.0:
            drawn = next_key() if dropout_key is None else dropout_key
            y = ops.attention(q, k, v, mask, lengths, drawn, rate=rate, **how)
        else:
            y = ops.attention(q, k, v, mask, lengths, **how)
            y = y * 0.0 if rate else y
        return self.output(y.permute(0, 2, 1, 3).flatten(2))

    def _split(self, x: Tensor, heads: int) -> Tensor:
        batch, length, _ = x.shape
        return x.reshape(batch, length, heads, self.depth).permute(0, 2, 1, 3)

    def extra_repr(self) -> str:
        shared = f", kv_heads={self.kv_heads}" if self.kv_heads != self.heads else ""
        return f"{self.output.out_features}, heads={self.heads}{shared}"


class CrossAttention(MultiheadAttention):
    """Attention to another sequence, `context`. Shapes: x [b, s, dim], context [b, t, context_dim], mask and key_mask as in
    MultiheadAttention -> [b, s, dim]. The keys and values from `project` may replace the context."""

    def __init__(
        self,
        dim: Count,
        heads: Positive,
        context_dim: Count | None = None,
        bias: bool = True,
        dtype: DTypeName = "float32",
        *,
        kv_heads: Positive | None = None,
        head_dim: Positive | None = None,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__(
            dim, heads, bias, dtype, key_dim=context_dim, kv_heads=kv_heads, head_dim=head_dim, dropout=dropout
        )

    def forward(  # type: ignore[override]  # it takes one other sequence, not two
        self,
        x: Tensor,
        context: Tensor | KeyValueCache,
        mask: Tensor | None = None,
        *,
        key_mask: Tensor | None = None,
        dropout_key: Tensor | None = None,
    ) -> Tensor:
        kept = context if isinstance(context, KeyValueCache) else self.project(context)
        return self.attend(x, kept, mask, key_mask, dropout_key)


def _with_key_mask(mask: Tensor | None, key_mask: Tensor | None) -> Tensor | None:
    if key_mask is None:
        return mask
    if key_mask.ndim != 2 or key_mask.dtype != "bool":
        raise TypeMismatch("key_mask is bool[b, t], True for the keys that take part", [f"not {key_mask.type}"])
    wide = key_mask.reshape(key_mask.shape[0], 1, 1, key_mask.shape[1])
    if mask is None:
        return wide
    return mask & wide if mask.dtype == "bool" else ops.select(wide, mask, float("-inf"))


def _check(layer: Layer, *sequences: Tensor | None) -> None:
    wrong = [str(t.type) for t in sequences if t is not None and t.ndim != 3]
    if wrong:
        raise TypeMismatch(f"{type(layer).__name__} takes sequences [b, length, features]", [f"not {', '.join(wrong)}"])
