"""Packs weights of 4 or 8 bits as the fragments that a thread of a warp passes to `mma.m16n8k16`.

A tile has 16 columns, and a chunk 32 bytes of each column: 64 numbers of 4 bits, 32 of 8. Thread 4 * g + t of a warp has four
words of a chunk. They hold the elements 8 * t to 8 * t + 7 of each 32 of the depth, of the columns g and g + 8.

Both operands of a matmul may have any common order along the depth. This one makes a thread's elements contiguous in both.
Source of the fragments: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.blocks import FLOAT_NUMBERS
from burn.dialect.compose import convert, number, reshape
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.packed import FRAGMENT_BYTES, FRAGMENT_COLUMNS
from burn.dialect.types import HALF_DTYPES, type_of
from burn.passes.block_panels import in_complement, padded_row, rows_filled

BITS = (4, 8)
"""Bits of a number. Eight numbers of 2 bits would not fill a thread's word."""

SPAN = 32
"""Adjacent elements of the depth with one scale, at least: two instructions sum them."""

GROUPS = FRAGMENT_COLUMNS // 2
"""The value of g above is less than this."""


def fits(op: Op) -> bool:
    """True for a `block_dot` that this layout supports."""
    if type_of(op.weight).dtype in FLOAT_NUMBERS:
        return False  # tensor cores have no conversion from registers of bytes on every GPU
    return op.bits in BITS and op.block % SPAN == 0 and type_of(op.x).dtype in HALF_DTYPES


def in_fragments(op: Op) -> ir.Value:
    """A `block_dot` for which `fits` holds, as a `packed_block_dot` with a weight in fragments."""
    columns, blocks, size = (_number(d) for d in type_of(op.weight).shape)
    half = 1 << (op.bits - 1)
    bytes_ = reshape(in_complement(op), (columns, blocks * size))
    if missing := -blocks * size % FRAGMENT_BYTES:
        zero = ops.full(shape=(), dtype="uint8")
        bytes_ = ops.pad(bytes_, zero, low=(0, 0), high=(0, missing))
    bytes_ = rows_filled(bytes_, FRAGMENT_COLUMNS)
    tiles, chunks = (-(-n // each) for n, each in ((columns, FRAGMENT_COLUMNS), (blocks * size, FRAGMENT_BYTES)))
    head = (tiles, 2, GROUPS, chunks)
    if op.bits == 4:  # tile, half of its columns, g, chunk, half of its elements, t, bytes
        split = _interleaved(ops.reshape(bytes_, shape=(*head, 2, 4, 2, 2)))
        weight = ops.transpose(split, permutation=(0, 3, 2, 5, 4, 1, 6))
    else:  # tile, half of its columns, g, chunk, t, word, bytes
        weight = ops.transpose(ops.reshape(bytes_, shape=(*head, 4, 2, 4)), permutation=(0, 3, 2, 4, 1, 5, 6))
    weight = ops.reshape(weight, shape=(tiles, chunks, GROUPS, 4, 4, 4))
    zero = None if op.zero is None else ops.sub(convert(op.zero, "float32"), number(float(half), "float32"))
    parameters = [None if v is None else _parameters(v) for v in (op.scale, zero)]
    return ops.packed_block_dot(padded_row(op), weight, *parameters, columns=columns, **op.attrs)


def _interleaved(x: ir.Value) -> ir.Value:
    """Words of numbers n0 to n7 of 4 bits, uint8[.., 2, 2] -> uint8[.., 4], in the order n0, n2, n4, n6, n1, n3, n5, n7. One mask
    then selects two adjacent numbers, 16 bits apart."""
    *head, _, _ = type_of(x).shape
    last = len(head) + 1
    first, second = (
        ops.slice(x, starts=(*(0,) * last, i), sizes=(*head, 2, 1), steps=(1,) * (last + 1)) for i in range(2)
    )
    low, four = number(15, "uint8"), number(4, "uint8")
    even = ops.or_(ops.and_(first, low), ops.shift_left(ops.and_(second, low), four))
    odd = ops.or_(ops.shift_right(first, four), ops.and_(second, number(0xF0, "uint8")))
    return reshape(ops.concat([even, odd], axis=last - 1), (*head, 4))


def _parameters(x: ir.Value) -> ir.Value:
    """[n, blocks] -> [tiles, blocks, 8, 2]."""
    x = rows_filled(x, FRAGMENT_COLUMNS)
    rows, blocks = (_number(d) for d in type_of(x).shape)
    split = reshape(x, (rows // FRAGMENT_COLUMNS, 2, GROUPS, blocks))
    return ops.transpose(split, permutation=(0, 3, 2, 1))


def _number(dim: object) -> int:
    assert isinstance(dim, int)
    return dim
