"""Rotary position embedding as com.microsoft has it."""

from __future__ import annotations

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import number_like, reshape
from burn.dialect.dims import exact_div
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.attention import join_heads, split_heads
from burn.importers.onnx.ops.vendor import DOMAIN


@onnx_op("RotaryEmbedding", domain=DOMAIN, ranks=((3, 4), (1, 2), 2, 2))
def rotary_embedding(node: Node) -> ir.Value:
    """Position ids are [b, s], or [1] with the first one's."""
    x, packed = _in_heads(node)
    positions, length = node.required(1), type_of(x).shape[2]
    if type_of(positions).rank == 1:
        first = reshape(positions, (1, 1))
        positions = ops.add(ops.iota(shape=(1, length), axis=1, dtype=type_of(positions).dtype), first)
    cos, sin = (ops.gather(node.required(i), positions, axis=0) for i in (2, 3))
    out = ops.rotary_embedding(x, cos, sin, interleaved=node.int("interleaved", 0) == 1)
    return join_heads(out) if packed else out


LAYOUTS = (CHUNKED, INTERLEAVED) = (0, 1)
"""How MRotaryEmbedding's angles are shared among the three streams of positions."""


@onnx_op("MRotaryEmbedding", domain=DOMAIN, ranks=((3, 4), 3, 2, 2))
def m_rotary_embedding(node: Node) -> ir.Value:
    """Positions [3, b, s] are of time, height and width; `mrope_section` says how many angles each of them sets."""
    x, packed = _in_heads(node)
    positions, width = node.required(1), node.type(2).shape[1]
    sections, layout = node.ints("mrope_section"), node.int("mrope_layout", CHUNKED)
    if layout not in LAYOUTS:
        node.fail(f"must be 0 or 1, not {layout}", "mrope_layout")
    if len(sections) != 3 or min(sections) < 0 or sum(sections) != width:
        node.fail(f"{list(sections)} are not three numbers of angles that add up to {width}", "mrope_section")
    stream = np.repeat(np.arange(3), sections)
    if layout == INTERLEAVED:
        stream = np.zeros(sum(sections), np.int64)
        for axis in (1, 2):
            stream[axis : sections[axis] * 3 : 3] = axis
    streams = reshape(node.array(stream), (1, 1, 1, len(stream)))
    axis = ops.iota(shape=(3, 1, 1, 1), axis=0)
    rows = [ops.gather(node.required(i), positions, axis=0) for i in (2, 3)]  # [3, b, s, angles]
    own = ops.eq(axis, streams)
    cos, sin = (ops.reduce(ops.select(own, row, number_like(0, row)), kind="sum", axes=(0,)) for row in rows)
    out = ops.rotary_embedding(x, cos, sin, interleaved=node.int("interleaved", 0) == 1)
    return join_heads(out) if packed else out


def _in_heads(node: Node) -> tuple[ir.Value, bool]:
    """The operand as [b, heads, s, d], and whether it came as [b, s, heads * d]."""
    x, heads, width = node.required(0), node.int("num_heads", 0), node.type(2).shape[1]
    turned = node.int("rotary_embedding_dim", 0)
    if turned and (not isinstance(width, int) or turned != 2 * width):
        node.fail(f"cos_cache {node.type(2)} does not rotate {turned} features", "rotary_embedding_dim")
    if node.int("is_packed_batching", 0):
        node.fail("rows of different lengths in one are not supported", "is_packed_batching")
    node.no_effect("scale", because="ONNX Runtime's kernels leave it aside")
    if type_of(x).rank == 4:
        return x, False
    if not heads:
        depth = exact_div(type_of(x).shape[2], width * 2)
        if not isinstance(depth, int):
            node.fail(f"{type_of(x)} does not split into heads of {width * 2} features", "num_heads")
        heads = depth
    return split_heads(node, x, heads, "num_heads"), True
