"""Attention and rotary embedding, which ONNX has from opset 23 on."""

from __future__ import annotations

from typing import Any

from burn.dialect.types import type_of
from burn.exporters.onnx.emitters import Site, emits
from burn.exporters.onnx.graph import CODES


def _agrees(op: Any) -> bool:
    """True if ONNX's operator means the same: positions that start at 0, no window, and a mask that is not repeated over
    queries or keys. It has no dropout."""
    if op.offset != 0 or op.left >= 0 or op.right >= 0 or op.lengths is not None or op.key is not None:
        return False
    if op.mask is None:
        return True
    mask, queries, keys = type_of(op.mask), type_of(op.q).shape[2], type_of(op.k).shape[2]
    return mask.rank in (2, 4) and mask.shape[-2:] == (queries, keys)


@emits("attention", since=23, operator="Attention", when=_agrees)
def attention(site: Site) -> str:
    q, k, v, mask, *_ = site.inputs
    attrs = site.attrs
    precision = attrs["precision"]
    return site.node(
        "Attention",
        q,
        k,
        v,
        mask,
        scale=attrs["scale"],
        is_causal=1 if attrs["causal"] else None,
        softcap=attrs["softcap"] or None,
        softmax_precision=None if precision is None else CODES[precision],
    )


def _whole_batch(op: Any) -> bool:
    """ONNX does not repeat the tables over the batch."""
    return type_of(op.cos).shape[0] == type_of(op.x).shape[0]


@emits("rotary_embedding", since=23, operator="RotaryEmbedding", when=_whole_batch)
def rotary_embedding(site: Site) -> str:
    half, depth = site.types[1].shape[2], site.types[0].shape[3]
    return site.node(
        "RotaryEmbedding",
        *site.inputs,
        interleaved=1 if site.attrs["interleaved"] else None,
        rotary_embedding_dim=None if 2 * half == depth else 2 * half,
    )
