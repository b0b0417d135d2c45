"""Transformers: layers of attention and feed-forward parts, encoders and decoders (arXiv:1706.03762).

The options give BERT's layers (the defaults, as in torch), GPT's (`norm_first`, causal) and Llama's (`norm_first`, `norm`
"rms", `gated`, `activation` "silu", `rotary`, `kv_heads`, no `bias`). With a cache (`start`) they decode step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from burn.dialect.dims import Dim
from burn.errors import TypeMismatch
from burn.nn.activation import Activation
from burn.nn.attention import CrossAttention, MultiheadAttention
from burn.nn.cache import KeyValueCache, LayerCache
from burn.nn.checks import Count, DTypeName, Epsilon, Positive, Probability
from burn.nn.containers import ModuleList
from burn.nn.dropout import Dropout
from burn.nn.feedforward import FeedForward
from burn.nn.module import Layer
from burn.nn.norm import LayerNorm, RMSNorm
from burn.nn.position import RotaryEmbedding
from burn.tensors import Tensor

Norm = Literal["layer", "rms"]


def _norm(kind: Norm, dim: int, eps: float, bias: bool, dtype: str) -> LayerNorm | RMSNorm:
    return RMSNorm(dim, eps, dtype=dtype) if kind == "rms" else LayerNorm(dim, eps, bias=bias, dtype=dtype)


class _TransformerLayer(Layer):
    """x plus attention, plus feed-forward part, each normalised after the sum, or before it with `norm_first`."""

    def __init__(
        self,
        dim: Count,
        heads: Positive,
        hidden: Count,
        dropout: Probability = 0.1,
        activation: Activation = "relu",
        norm_first: bool = False,
        norm: Norm = "layer",
        eps: Epsilon = 1e-5,
        bias: bool = True,
        gated: bool = False,
        kv_heads: Positive | None = None,
        rotary: bool = False,
        rotary_base: float = 10000.0,
        dtype: DTypeName = "float32",
    ) -> None:
        self.norm_first = norm_first
        self.attention = MultiheadAttention(dim, heads, bias, dtype, kv_heads=kv_heads, dropout=dropout)
        self.feed = FeedForward(dim, hidden, activation, dropout, bias, gated, dtype)
        self.norm1, self.norm2 = (_norm(norm, dim, eps, bias, dtype) for _ in range(2))
        self.dropout = Dropout(dropout)
        self.rotary = RotaryEmbedding(self.attention.depth, rotary_base) if rotary else None

    def _add(self, x: Tensor, norm: Layer, part: Any) -> Tensor:
        """x plus the result of a part, normalised."""
        if self.norm_first:
            return x + self.dropout(part(norm(x)))
        return norm(x + self.dropout(part(x)))

    def _own(
        self, mask: Tensor | None, causal: bool, key_mask: Tensor | None, cache: KeyValueCache | None, kept: list[Any]
    ) -> Any:
        """Self-attention as a function; it appends the new cache to `kept`."""

        def attend(x: Tensor) -> Tensor:
            result = self.attention(x, mask=mask, causal=causal, key_mask=key_mask, cache=cache, rotary=self.rotary)
            if cache is None:
                return result
            kept.append(result[1])
            return result[0]

        return attend


class TransformerEncoderLayer(_TransformerLayer):
    """Attention to the sequence itself and a feed-forward part, each added to its input and normalised.

    Shapes: x [b, s, dim], mask and key_mask as in MultiheadAttention -> [b, s, dim]; with a cache (y, cache)."""

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        *,
        key_mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Any:
        kept: list[KeyValueCache] = []
        own = None if cache is None else cache.own
        x = self._add(x, self.norm1, self._own(mask, causal, key_mask, own, kept))
        x = self._add(x, self.norm2, self.feed)
        return x if cache is None else (x, LayerCache(kept[0]))


class TransformerDecoderLayer(_TransformerLayer):
    """Attention to the sequence itself, attention to another (`memory`), and a feed-forward part.

    Shapes: x [b, s, dim], memory [b, t, dim], mask and key_mask for x, memory_mask and memory_key_mask for memory, as in
    MultiheadAttention -> [b, s, dim]; with a cache (y, cache)."""

    def __init__(
        self,
        dim: Count,
        heads: Positive,
        hidden: Count,
        dropout: Probability = 0.1,
        activation: Activation = "relu",
        norm_first: bool = False,
        norm: Norm = "layer",
        eps: Epsilon = 1e-5,
        bias: bool = True,
        gated: bool = False,
        kv_heads: Positive | None = None,
        rotary: bool = False,
        rotary_base: float = 10000.0,
        dtype: DTypeName = "float32",
        memory_dim: Count | None = None,
    ) -> None:
        super().__init__(
            dim, heads, hidden, dropout, activation, norm_first, norm, eps, bias, gated, kv_heads, rotary,
            rotary_base, dtype,
        )  # fmt: skip
        self.cross = CrossAttention(dim, heads, memory_dim, bias, dtype, kv_heads=kv_heads, dropout=dropout)
        self.norm3 = _norm(norm, dim, eps, bias, dtype)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = True,
        *,
        key_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        memory_key_mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Any:
        kept: list[KeyValueCache] = []
        context = memory if memory is not None else None if cache is None else cache.memory
        if context is None:
            raise TypeMismatch(
                "TransformerDecoderLayer has nothing to attend to", ["give memory, or a cache that has it"]
            )
        own = None if cache is None else cache.own
        x = self._add(x, self.norm1, self._own(mask, causal, key_mask, own, kept))
        x = self._add(x, self.norm2, lambda y: self.cross(y, context, memory_mask, key_mask=memory_key_mask))
        x = self._add(x, self.norm3, self.feed)
        return x if cache is None else (x, LayerCache(kept[0], cache.memory))


class TransformerEncoder(Layer):
    """Layers of `TransformerEncoderLayer`, and with `norm_first` a normalisation after the last. Causal, or with a cache, it is
    a decoder-only transformer, like GPT or Llama.

    Shapes: x [b, s, dim], mask and key_mask as in MultiheadAttention -> [b, s, dim]; with a cache (y, cache)."""

    def __init__(
        self,
        dim: Count,
        heads: Positive,
        hidden: Count,
        layers: Count,
        dropout: Probability = 0.1,
        activation: Activation = "relu",
        norm_first: bool = False,
        norm: Norm = "layer",
        eps: Epsilon = 1e-5,
        bias: bool = True,
        gated: bool = False,
        kv_heads: Positive | None = None,
        rotary: bool = False,
        rotary_base: float = 10000.0,
        dtype: DTypeName = "float32",
    ) -> None:
        options = (dropout, activation, norm_first, norm, eps, bias, gated, kv_heads, rotary, rotary_base, dtype)
        self.layers = ModuleList(TransformerEncoderLayer(dim, heads, hidden, *options) for _ in range(layers))
        self.norm = _norm(norm, dim, eps, bias, dtype) if norm_first else None

    def start(self, batch: Dim, capacity: Dim | None = None) -> tuple[LayerCache, ...]:
        """Empty caches, one for each layer: they grow, or have a fixed capacity."""
        return tuple(LayerCache(layer.attention.start(batch, capacity)) for layer in _layers(self))

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        *,
        key_mask: Tensor | None = None,
        cache: Sequence[LayerCache] | None = None,
    ) -> Any:
        kept = []
        for layer, own in zip(_layers(self), _caches(self, cache), strict=True):
            result = layer(x, mask, causal, key_mask=key_mask, cache=own)
            x = result if own is None else result[0]
            kept += [] if own is None else [result[1]]
        y = x if self.norm is None else self.norm(x)
        return y if cache is None else (y, tuple(kept))


class TransformerDecoder(Layer):
    """Layers of `TransformerDecoderLayer`, and with `norm_first` a normalisation after the last.

    Shapes: x [b, s, dim], memory [b, t, dim], masks as in TransformerDecoderLayer -> [b, s, dim]; with a cache (y, cache)."""

    def __init__(
        self,
        dim: Count,
        heads: Positive,
        hidden: Count,
        layers: Count,
        dropout: Probability = 0.1,
        activation: Activation = "relu",
        norm_first: bool = False,
        norm: Norm = "layer",
        eps: Epsilon = 1e-5,
        bias: bool = True,
        gated: bool = False,
        kv_heads: Positive | None = None,
        rotary: bool = False,
        rotary_base: float = 10000.0,
        dtype: DTypeName = "float32",
        memory_dim: Count | None = None,
    ) -> None:
        options = (dropout, activation, norm_first, norm, eps, bias, gated, kv_heads, rotary, rotary_base, dtype)
        self.layers = ModuleList(
            TransformerDecoderLayer(dim, heads, hidden, *options, memory_dim) for _ in range(layers)
        )
        self.norm = _norm(norm, dim, eps, bias, dtype) if norm_first else None

    def start(self, memory: Tensor, capacity: Dim | None = None) -> tuple[LayerCache, ...]:
        """Empty caches, one for each layer, with memory's keys and values, which are computed once."""
        return tuple(
            LayerCache(layer.attention.start(memory.shape[0], capacity), layer.cross.project(memory))
            for layer in _layers(self)
        )

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = True,
        *,
        key_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        memory_key_mask: Tensor | None = None,
        cache: Sequence[LayerCache] | None = None,
    ) -> Any:
        kept = []
        masks = {"key_mask": key_mask, "memory_mask": memory_mask, "memory_key_mask": memory_key_mask}
        for layer, own in zip(_layers(self), _caches(self, cache), strict=True):
            result = layer(x, memory, mask, causal, cache=own, **masks)
            x = result if own is None else result[0]
            kept += [] if own is None else [result[1]]
        y = x if self.norm is None else self.norm(x)
        return y if cache is None else (y, tuple(kept))


def _layers(stack: Any) -> list[Any]:
    return list(stack.layers)


def _caches(stack: Any, cache: Sequence[LayerCache] | None) -> Sequence[LayerCache | None]:
    if cache is None:
        return [None] * len(stack.layers)
    if len(cache) != len(stack.layers):
        raise TypeMismatch(f"{type(stack).__name__} takes a cache a layer", [f"{len(stack.layers)}, not {len(cache)}"])
    return cache
