"""Weights of a few bits in blocks that com.microsoft gathers from, or multiplies with: MatMulNBits is in vendor_quantized.py."""

from __future__ import annotations

import numpy as np

from burn.dialect import ops
from burn.dialect.blocks import numbers
from burn.dialect.compose import convert, dim_value, number, number_like, part, reshape, wide
from burn.dialect.dims import Dim, ceildiv
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, type_of
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.vendor import DOMAIN


def by_blocks(x: ir.Value, size: Dim, block: int, axis: int) -> ir.Value:
    """One number a block, repeated for each of `size` elements along the axis."""
    blocks = ops.div(ops.iota(shape=(size,), axis=0), number(block, "int64"))
    return ops.gather(x, blocks, axis=axis)


@onnx_op("GatherBlockQuantized", domain=DOMAIN)
def gather_block_quantized(node: Node) -> ir.Value:
    """Rows of a table, gathered and dequantised; an index out of range gives zeros.

    uint8 tables hold numbers of `bits` bits along their last axis, others one number an element."""
    data, scales = node.required(0), node.required(2)
    type_, rank = type_of(data), type_of(data).rank
    along = node.axis(node.int("gather_axis", 0), rank, "gather_axis")
    at = node.axis(node.int("quantize_axis", 1), rank, "quantize_axis")
    packed = type_.dtype == "uint8"
    if along == at:
        node.fail("must differ from gather_axis", "quantize_axis")
    if packed and (along != 0 or at != rank - 1):
        node.fail("tables of bytes are gathered along their first axis and quantised along their last", "gather_axis")
    bits = node.int("bits", 4)
    if packed and bits not in (2, 4, 8):
        node.fail(f"must be 2, 4 or 8, not {bits}", "bits")
    block = node.int("block_size", 128)
    floats = DTYPES[type_.dtype].kind in ("float", "small")
    if block < 0 or (block == 0 and not floats):
        node.fail(f"must be positive, not {block}", "block_size")
    if type_of(scales).rank != rank:
        node.fail(f"scales {type_of(scales)} have not the axes of {type_}")
    index = node.required(1)
    size = type_.shape[along]
    indices, inside = _within(index, size)
    moved = at + (type_of(index).rank - 1 if at > along else 0)

    def taken(x: ir.Value) -> ir.Value:
        """Rows of a table, or of a parameter with one number for all rows."""
        one = type_of(x).shape[along] == 1 and size != 1
        return ops.gather(x, ops.mul(indices, number(0, "int64")) if one else indices, axis=along)

    values = taken(data)
    values = numbers(values, bits) if packed else values
    length = type_of(values).shape[moved]
    span = block or max(int(str(length)), 1)
    blocks = ceildiv(length, span)
    working = wide(type_of(scales).dtype)
    out = convert(values, working)
    scale = convert(by_blocks(taken(scales), length, span, moved), working)
    if node.has_input(3):
        points = taken(node.required(3))
        points = part(numbers(points, bits), moved, 0, blocks) if packed else points
        out = ops.sub(out, convert(by_blocks(points, length, span, moved), working))
    elif packed:
        out = ops.sub(out, number(float(1 << (bits - 1)), working))
    out = ops.mul(out, scale)
    shape: list[Dim] = [1] * type_of(out).rank
    shape[along : along + type_of(index).rank] = type_of(index).shape
    out = ops.select(reshape(inside, tuple(shape)), out, number_like(0.0, out))
    return convert(out, type_of(scales).dtype)


def _within(index: ir.Value, size: Dim) -> tuple[ir.Value, ir.Value]:
    """Indices counted from the beginning, 0 in place of those that are out of range; and which are in range."""
    count, zero = dim_value(size), number(0, "int64")
    wide_index = convert(index, "int64")
    indices = ops.select(ops.lt(wide_index, zero), ops.add(wide_index, count), wide_index)
    inside = ops.and_(ops.ge(indices, zero), ops.lt(indices, count))
    return ops.select(inside, indices, zero), inside


_FP4 = np.array([0, 0.0625, 8, 12, 4, 6, 2, 3], np.float64) / 12
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334),
    *(-0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
CODES = (np.concatenate([_FP4, -_FP4]).astype(np.float32), np.array(_NF4, np.float32))
"""Values of 4-bit codes: FP4 of bitsandbytes (a sign and one of 8 sizes), and NF4 (arXiv 2305.14314)."""


@onnx_op("MatMulBnb4", domain=DOMAIN, ranks=(None, 1, 1))
def matmul_bnb4(node: Node) -> ir.Value:
    """A [.., K] times the transpose of a weight [N, K] of 4 bits a number, the first in a byte's highest bits."""
    x, packed, scales = (node.required(i) for i in range(3))
    depth, rows, block, kind = (node.int(name) for name in ("K", "N", "block_size", "quant_type"))
    if kind not in (0, 1):
        node.fail(f"must be 0 or 1, not {kind}", "quant_type")
    if node.int("transB", 1) != 1:
        node.fail("must be 1: other weights are not supported", "transB")
    node.no_effect("training_mode", because="it says what is kept for a backward pass")
    if depth < 1 or rows < 1 or block < 1:
        node.fail(f"blocks of {block} numbers do not fill a weight [{rows}, {depth}]", "block_size")
    count, dtype = rows * depth, type_of(x).dtype
    nibbles = [ops.shift_right(packed, number(4, "uint8")), ops.and_(packed, number(15, "uint8"))]
    (size,) = type_of(packed).shape
    codes = reshape(ops.concat([reshape(h, (size, 1)) for h in nibbles], axis=1), (size * 2,))
    values = ops.gather(node.array(CODES[kind]), convert(part(codes, 0, 0, count), "int64"), axis=0)
    scale = by_blocks(convert(scales, "float32"), count, block, 0)
    weight = reshape(ops.mul(values, scale), (rows, depth))
    last = type_of(x).rank - 1
    return ops.dot_general(x, convert(weight, dtype), lhs_contract=(last,), rhs_contract=(1,))
