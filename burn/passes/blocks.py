"""Keeps matmuls with constant weights of a few bits as `block_dot`, which kernels read without dequantising.

Exporters write such a weight as MatMulNBits, imported as `block_dot`, or through DequantizeLinear. Constant folding
would expand it to floats, four or eight times as large, and a matmul with one row is bound by reading its weight. Forms
without a kernel are decomposed here and then folded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from burn.dialect import ops
from burn.dialect.blocks import BITS, FLOAT_NUMBERS, BlockDot, in_bytes
from burn.dialect.compose import convert, number, reshape
from burn.dialect.contraction import DotGeneral
from burn.dialect.dims import ceildiv, product
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks, erase_dead, is_named, op_of
from burn.dialect.types import DTYPES, type_of
from burn.passes.constants import Constants
from burn.passes.decompose import expand
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.fold import check_weights, cut
from burn.passes.pipeline import register
from burn.passes.scaled_floats import matched

MOST = {"float32": 3.4e38, "float16": 65504.0, "bfloat16": 3.38e38}
"""The largest finite number of each type."""

READ = tuple(MOST)
"""Types of the other operand."""

WORD = 32
"""Contiguous bits of a column: a block fills whole words."""


@register
@dataclass(frozen=True)
class Blocks:
    """See the module's docstring."""

    name: ClassVar[str] = "blocks"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            constant = Constants()
            for block in blocks(program.block):
                for operation in list(block.operations):
                    op = operation.opview
                    if isinstance(op, Op) and isinstance(op, DotGeneral):
                        with op.operation.location, ir.InsertionPoint(op.operation):
                            floats = _reads_floats(op, env)
                            made = _from_dequantized(op, constant, floats)
                            made = _from_floats(op, constant) if made is None and floats else made
                        if made is not None and not _overflows(op_of(made), program, env):
                            op.operation.results[0].replace_all_uses_with(made)
                    elif (
                        isinstance(op, Op)
                        and isinstance(op, BlockDot)
                        and not (_has_kernel(op, constant) and not _overflows(op, program, env))
                    ):
                        expand(op)
            erase_dead(program.block)


def _has_kernel(op: Op, constant: Constants) -> bool:
    return (
        op.block * op.bits % WORD == 0
        and type_of(op.x).dtype in READ
        and type_of(op.weight).elements != 0
        and all(constant(v) for v in (op.weight, op.scale, op.zero) if v is not None)
        and not constant(op.x)
    )


def _overflows(op: Op | None, program: Program, env: Environment) -> bool:
    """True if kernels multiply the padding of the depth, which is 0 in x, with infinity: a constant scale that is too large.
    Raises CompileError for a scale whose weights are not there."""
    assert op is not None
    depth, blocks = type_of(op.x).shape[-1], type_of(op.scale).shape[1]
    if env.evaluate is None or depth == blocks * op.block:
        return False
    check_weights(program, [op.scale])
    (scale,) = env.evaluate(cut(program, [op.scale])[0])()
    largest = float(np.abs(scale.astype(np.float64)).max(initial=0.0))
    is_float = type_of(op.weight).dtype in FLOAT_NUMBERS  # padded with zeros; integers may have a zero point
    return not largest * (1 if is_float else 1 << op.bits) <= MOST[type_of(op.x).dtype]  # true for NaN


def _reads_floats(op: Op, env: Environment) -> bool:
    """True if kernels read weights of 8-bit floats, see `Preferences.widened_rows`."""
    rows, most = env.preferences.likely(product(type_of(op.lhs).shape[:-1])), env.preferences.widened_rows
    return most == 0 or not isinstance(rows, int) or rows < most


def _from_dequantized(op: Op, constant: Constants, floats: bool) -> ir.Value | None:
    """Recognises a matmul whose rhs is a constant matrix of integers with scales per block of the depth or per column, or with
    `floats` of 8-bit floats."""
    weight, axis, is_transposed = op.rhs, op.rhs_contract[-1] if op.rhs_contract else 0, False
    if (transposed := is_named(weight, "transpose")) is not None:
        weight, is_transposed = transposed.x, True
    kept = is_named(weight, "dequantize")
    x = type_of(op.lhs)
    if kept is None or op.dtype is not None or op.rhs_batch or x.dtype not in READ:
        return None
    if type_of(weight).rank != 2 or op.lhs_contract != (x.rank - 1,) or len(op.rhs_contract) != 1:
        return None
    if type_of(kept.x).dtype in FLOAT_NUMBERS and not floats:
        return None
    if constant(op.lhs) or not constant(kept.operation.results[0]) or type_of(weight).elements == 0:
        return None
    axis = transposed.permutation[axis] if is_transposed and transposed is not None else axis
    return _Weight(kept, axis).matmul(op.lhs)


def _from_floats(op: Op, constant: Constants) -> ir.Value | None:
    """Recognises a matmul whose rhs is a constant matrix of 8-bit floats, with or without scales."""
    x = type_of(op.lhs)
    if op.dtype is not None or op.rhs_batch or x.dtype not in READ or constant(op.lhs):
        return None
    if len(op.rhs_contract) != 1 or op.lhs_contract != (x.rank - 1,):
        return None
    found, depth = matched(op.rhs, constant), op.rhs_contract[0]
    block = 0 if found is None else found.block(depth)
    if found is None or not block or (block * 8 % WORD and block < type_of(op.rhs).shape[depth]):
        return None
    numbers = ops.transpose(found.numbers, permutation=(1, 0)) if depth == 0 else found.numbers
    columns, size = type_of(numbers).shape
    assert isinstance(columns, int) and isinstance(size, int)
    block = -(-block * 8 // WORD) * WORD // 8
    count = -(-size // block)
    if missing := count * block - size:
        numbers = ops.pad(numbers, ops.full(shape=(), dtype=type_of(numbers).dtype), low=(0, 0), high=(0, missing))
    weight = reshape(numbers, (columns, count, block))
    return ops.block_dot(op.lhs, weight, found.scale(depth, block), None, bits=8, block=block)


@dataclass(frozen=True)
class _Weight:
    """A dequantised matrix with contraction axis `depth`."""

    op: Op
    depth: int

    def matmul(self, x: ir.Value) -> ir.Value | None:
        type_, scale = type_of(self.op.x), type_of(self.op.scale)
        kind, bits = DTYPES[type_.dtype].kind, DTYPES[type_.dtype].bits
        floats = type_.dtype in FLOAT_NUMBERS
        if not floats and (kind not in ("int", "uint") or bits not in BITS):
            return None
        depth, columns = type_.shape[self.depth], type_.shape[1 - self.depth]
        assert isinstance(depth, int) and isinstance(columns, int)
        axis, single = self.op.axis % 2, scale.elements == 1 and scale.rank < 2
        if single or not self.op.block:
            if not single and axis == self.depth:
                return None  # a scale for each element of the depth
            block = ceildiv(depth * bits, WORD) * WORD // bits
        elif axis == self.depth:
            block = self.op.block
        else:
            return None
        count = ceildiv(depth, block)
        assert isinstance(block, int) and isinstance(count, int)
        if block * bits % WORD:
            return None
        half = 1 << (bits - 1) if kind == "int" else 0
        numbers = self._numbers(self.op.x, bits, half)
        if count * block != depth:
            high = (0, count * block - depth)
            numbers = ops.pad(numbers, ops.full(shape=(), dtype=type_of(numbers).dtype), low=(0, 0), high=high)
        weight = reshape(in_bytes(numbers, bits), (columns, count, block * bits // 8))
        shape = (columns, count)
        zero = None
        if floats:
            pass
        elif self.op.zero is not None:
            zero = convert(convert(self.op.zero, "int32"), "float32")
            zero = self._along(ops.add(zero, number(float(half), "float32")), shape)
        elif not half:
            zero = ops.full(shape=shape, dtype="float32")
        scale = self._along(convert(self.op.scale, "float32"), shape)
        return ops.block_dot(x, weight, scale, zero, bits=bits, block=block)

    def _numbers(self, x: ir.Value, bits: int, half: int) -> ir.Value:
        """The numbers as [columns, depth], integers unsigned."""
        plain = x if type_of(x).dtype in FLOAT_NUMBERS else ops.cast(x, dtype="uint8")
        if bits < 8:
            plain = ops.and_(plain, number((1 << bits) - 1, "uint8"))
        if half:
            plain = ops.xor(plain, number(half, "uint8"))
        return ops.transpose(plain, permutation=(1, 0)) if self.depth == 0 else plain

    def _along(self, parameter: ir.Value, shape: tuple[int, int]) -> ir.Value:
        """A scale or zero point for each column and block."""
        type_ = type_of(parameter)
        if type_.rank == 2:
            return ops.transpose(parameter, permutation=(1, 0)) if self.depth == 0 else parameter
        across = reshape(parameter, (1, 1) if type_.elements == 1 else (shape[0], 1))
        return ops.broadcast_to(across, shape=shape)
