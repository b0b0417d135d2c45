"""Attention and rotary embedding, which ONNX has from opset 23 on."""

from __future__ import annotations

from typing import Any

from burn.codegen.onnx.emitters import Site, emits
from burn.codegen.onnx.graph import CODES
from burn.dialect.types import type_of


def _agrees(op: Any) -> bool:
    """Whether ONNX's operator means the same: positions that start at 0, and no mask, for which a query that may see no key
    is left open there."""
    plain = op.offset == 0 and op.left < 0 and op.right < 0 and op.lengths is None
    return plain and op.mask is None


@emits("attention", since=23, operator="Attention", when=_agrees)
def attention(site: Site) -> str:
    q, k, v, *_ = site.inputs
    attrs = site.attrs
    precision = attrs["precision"]
    return site.node(
        "Attention",
        q,
        k,
        v,
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
