"""Block-quantised weights of a few bits, as in quantised language models, and the matmuls that read them.

A weight of N rows and depth K has K / block blocks per row, padded at the end; each block has a scale and a zero point.
Source: com.microsoft MatMulNBits, ONNX's blocked DequantizeLinear.
"""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.batching.contraction import block_dot
from burn.dialect.compose import convert, number, reshape, wide
from burn.dialect.dims import Dim, ceildiv
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand
from burn.dialect.traits import Trait
from burn.dialect.types import FLOATS, TensorType, type_of

BITS = (2, 4, 8)
"""Bits of a number."""

FLOAT_NUMBERS = ("float8_e4m3fn", "float8_e5m2")
"""Types of numbers that are floats. They have no zero point."""


WEIGHTS = ("uint8", *FLOAT_NUMBERS)
"""Element types of a weight."""


class BlockDot(Op, name="block_dot", traits=Trait.CONTRACTION | Trait.LOW_PRECISION, batching=block_dot):
    """x times the transpose of a weight (q - zero) * scale, whose numbers q have `bits` bits; `block` neighbours along
    the depth share scale and zero. Shapes: x [.., k], weight uint8[n, blocks, block * bits / 8], the first number in a
    byte's lowest bits, scale and zero [n, blocks], blocks = ceil(k / block) -> [.., n], of x's type. `zero` holds
    quantised numbers, as floats; the default is 2^(bits - 1), which makes numbers signed. Numbers may also be 8-bit floats
    (`FLOAT_NUMBERS`), as the weight's type says; these have no `zero`."""

    x: Operand
    weight: Operand
    scale: Operand
    zero: Operand | None
    bits: int
    block: int

    @classmethod
    def check_operands(
        cls, x: TensorType, weight: TensorType, scale: TensorType, zero: TensorType | None, bits: int, block: int
    ) -> None:
        """Raises TypeMismatch for element types and attributes that neither form of the op has."""
        if bits not in BITS:
            cls.fail(f"numbers have 2, 4 or 8 bits, not {bits}", "bits")
        if block < 1 or block * bits % 8:
            cls.fail(f"{block} numbers of {bits} bits do not fill bytes", "block")
        if x.dtype not in FLOATS or not x.rank or scale.dtype not in FLOATS or weight.dtype not in WEIGHTS:
            cls.fail(
                f"floats [.., k] are multiplied with {', '.join(WEIGHTS)} and scales of floats, not {x} with {weight} and "
                f"{scale}"
            )
        if weight.dtype in FLOAT_NUMBERS and (bits != 8 or zero is not None):
            cls.fail(f"numbers of type {weight.dtype} have 8 bits and no zero point", "bits")
        if zero is not None and (zero.shape != scale.shape or zero.dtype not in FLOATS):
            cls.fail(f"the zero points must be floats of the scales' shape, {scale}, not {zero}")

    @classmethod
    def infer(
        cls, x: TensorType, weight: TensorType, scale: TensorType, zero: TensorType | None, bits: int, block: int
    ) -> TensorType:
        cls.check_operands(x, weight, scale, zero, bits, block)
        depth = x.shape[-1]
        if not weight.is_static or weight.rank != 3 or scale.shape != weight.shape[:2]:
            cls.fail(f"the weight must be uint8[n, blocks, bytes], with scales [n, blocks], not {weight} and {scale}")
        blocks = ceildiv(depth, block)
        if weight.shape[2] != block * bits // 8 or (isinstance(depth, int) and blocks != weight.shape[1]):
            cls.fail(f"a depth of {depth} in blocks of {block} numbers of {bits} bits does not fit {weight}")
        if not isinstance(depth, int):
            cls.fail(f"the depth must be a number, not {depth}")
        return x.with_shape((*x.shape[:-1], weight.shape[0]))

    def flops(self) -> Dim:
        return type_of(self.operation.results[0]).elements * type_of(self.x).shape[-1] * 2

    @classmethod
    def decompose(
        cls,
        x: ir.Value,
        weight: ir.Value,
        scale: ir.Value,
        zero: ir.Value | None,
        bits: int,
        block: int,
    ) -> ir.Value:
        rows, blocks, _ = (_number(d) for d in type_of(weight).shape)
        depth, dtype = _number(type_of(x).shape[-1]), wide(type_of(x).dtype)
        values = convert(numbers(weight, bits), dtype)
        if type_of(weight).dtype not in FLOAT_NUMBERS:
            point = number(float(1 << (bits - 1)), dtype) if zero is None else reshape(zero, (rows, blocks, 1))
            values = ops.sub(values, convert(point, dtype))
        whole = ops.mul(values, convert(reshape(scale, (rows, blocks, 1)), dtype))
        whole = reshape(whole, (rows, blocks * block))
        if blocks * block != depth:
            whole = ops.slice(whole, starts=(0, 0), sizes=(rows, depth), steps=(1, 1))
        last = type_of(x).rank - 1
        return ops.dot_general(x, convert(whole, type_of(x).dtype), lhs_contract=(last,), rhs_contract=(1,))


def numbers(x: ir.Value, bits: int) -> ir.Value:
    """Unpacks bytes [.., n], the lowest bits first, to numbers: uint8[.., n * 8 / bits]."""
    if bits == 8:
        return x
    shape = type_of(x).shape
    low = number((1 << bits) - 1, "uint8")
    pieces = [ops.and_(ops.shift_right(x, number(shift, "uint8")), low) for shift in range(0, 8, bits)]
    stacked = ops.concat([reshape(piece, (*shape, 1)) for piece in pieces], axis=len(shape))
    return reshape(stacked, (*shape[:-1], shape[-1] * len(pieces)))


def in_bytes(x: ir.Value, bits: int) -> ir.Value:
    """The inverse: packs numbers uint8[.., n] below 2^bits into bytes [.., n * bits / 8]."""
    if bits == 8:
        return x
    *head, count = type_of(x).shape
    each = 8 // bits
    apart = ops.reshape(x, shape=(*head, _number(count) // each, each))
    made: ir.Value | None = None
    for index in range(each):
        starts, sizes = (0,) * (len(head) + 1) + (index,), (*head, _number(count) // each, 1)
        piece: Any = ops.slice(apart, starts=starts, sizes=sizes, steps=(1,) * (len(head) + 2))
        piece = ops.shift_left(reshape(piece, sizes[:-1]), number(index * bits, "uint8"))
        made = piece if made is None else ops.or_(made, piece)
    assert made is not None
    return made


def _number(dim: Any) -> int:
    assert isinstance(dim, int)
    return dim
