"""Attention of com.microsoft in which blocks of queries see some blocks of keys."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import check_size, convert, dim_value, number, part, reshape, transpose
from burn.dialect.dims import Dim, decide
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.attention import join_heads
from burn.importers.onnx.ops.vendor import DOMAIN
from burn.importers.onnx.ops.vendor_grouped import grouped, rotated
from burn.importers.onnx.ops.vendor_masks import scaled_sides


@onnx_op("SparseAttention", domain=DOMAIN, ranks=(3, 3, 3, 4, 4, 2, 2))
def sparse_attention(node: Node) -> list[ir.Value]:
    """Causal attention with caches [b, g, m, d], which keep their size; rows and columns say which blocks are seen.

    Each of the layouts [l, blocks + 1] and [l, entries] is a matrix of blocks in compressed rows; head h has layout h mod l."""
    heads, groups, block = node.int("num_heads"), node.int("kv_num_heads"), node.int("sparse_block_size")
    if block < 1:
        node.fail(f"must be positive, not {block}", "sparse_block_size")
    q, k, v = grouped(node, heads, groups)
    batch, _, length, _ = type_of(q).shape
    room = node.type(3).shape[2]
    known = node.scalar(7)
    total = known if known is not None else node.read_one(7)
    if decide(total, ">=", length) is not True:
        check_size(total, ">=", length, "total_sequence_length counts the new keys")
    check_size(total, "<=", room, "the cache has room for the keys")
    lengths = convert(reshape(node.required(8), (batch,)), "int64")
    prompt = ops.eq(dim_value(total), dim_value(length))
    old = ops.select(prompt, number(0, "int64"), ops.max(ops.sub(lengths, dim_value(length)), number(0, "int64")))
    first = reshape(old, (batch, 1))
    positions = ops.add(first, ops.iota(shape=(1, length), axis=1))
    q, k = rotated(node, q, k, positions, cosines=9)
    present = [_written(node.required(i), x, first) for i, x in ((3, k), (4, v))]
    k, v = (part(x, 2, 0, total) for x in present)
    seen = _seen(node, positions, total, heads, block)
    causal = ops.le(ops.iota(shape=(1, 1, 1, total), axis=3), reshape(positions, (batch, 1, length, 1)))
    q, keys, scale = scaled_sides(node, q, k)
    out = ops.attention(q, keys, v, ops.and_(seen, causal), scale=scale)
    return [join_heads(out), *present]


def _written(cache: ir.Value, new: ir.Value, first: ir.Value) -> ir.Value:
    """A cache [b, g, m, d] with new rows [b, g, s, d] from row `first` [b, 1] on."""
    batch, _, room, _ = type_of(cache).shape
    length = type_of(new).shape[2]
    j = ops.sub(ops.iota(shape=(1, room), axis=1), first)
    held = ops.and_(ops.ge(j, number(0, "int64")), ops.lt(j, dim_value(length)))
    source = reshape(ops.max(ops.min(j, dim_value(length - 1)), number(0, "int64")), (batch, 1, room, 1))
    rows = ops.gather_elements(new, ops.broadcast_to(source, shape=type_of(cache).shape), axis=2)
    return ops.select(reshape(held, (batch, 1, room, 1)), rows, cache)


def _seen(node: Node, positions: ir.Value, total: Dim, heads: int, block: int) -> ir.Value:
    """Which keys [b, h, s, t] lie in blocks that the queries at the positions [b, s] see."""
    matrix = _matrix(node)
    layouts, size, _ = type_of(matrix).shape
    rows = ops.div(positions, number(block, "int64"))
    columns = ops.div(ops.iota(shape=(total,), axis=0), number(block, "int64"))
    last = dim_value(size - 1)
    by_query = ops.gather(matrix, ops.min(rows, last), axis=1)  # [l, b, s, blocks]
    by_key = ops.gather(by_query, ops.min(columns, last), axis=3)  # [l, b, s, t]
    layout = ops.mod(ops.iota(shape=(heads,), axis=0), dim_value(layouts))
    return transpose(ops.gather(by_key, layout, axis=0), (1, 0, 2, 3))


def _matrix(node: Node) -> ir.Value:
    """Compressed rows as a matrix of flags [l, blocks, blocks]."""
    starts, columns = (convert(node.required(i), "int64") for i in (5, 6))
    layouts, entries = type_of(columns).shape
    size = type_of(starts).shape[1] - 1
    entry = ops.iota(shape=(1, entries, 1), axis=1)
    begun = ops.le(reshape(starts, (layouts, 1, size + 1)), entry)
    row = ops.sub(ops.reduce(ops.cast(begun, dtype="int64"), kind="sum", axes=(2,)), number(1, "int64"))
    used = ops.and_(ops.lt(row, dim_value(size)), ops.ge(columns, number(0, "int64")))
    index = ops.select(used, ops.add(ops.mul(row, dim_value(size)), columns), number(0, "int64"))
    empty = ops.full(shape=(layouts, size * size), dtype="int32")
    flags = ops.scatter_elements(empty, index, ops.cast(used, dtype="int32"), axis=1, reduction="max")
    return reshape(ops.ne(flags, number(0, "int32")), (layouts, size, size))
