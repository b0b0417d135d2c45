"""Turns contractions of quantised tensors into integer contractions of bytes, accumulated in int32.

Exporters write arithmetic on dequantised numbers: a matmul or convolution of DequantizeLinear's results (QDQ), or of
integers minus their zero points (QLinearConv, MatMulInteger after DynamicQuantizeLinear). Both are

    sum (x - a) (w - b)  =  sum x w  -  a sum w  -  b sum x  +  n a b

with a constant rhs w: the sums of its columns are constants, and b is usually 0. Byte instructions of CPUs need one unsigned
operand (matmul/vnni.py): x is uint8; int8 values and their zero point are shifted by 128. Those of GPUs need signed operands:
uint8 values are shifted by -128. Padding of a convolution has the value of the zero point. A depthwise convolution on a CPU reads
bytes, too, and sums them in float32, exactly. Others stay convolutions of dequantised floats if the back end expects
a larger gain from the Winograd domain (`Preferences.bytes_as_floats`).

Dequantisation also moves past views and maxima, so that layers exchange bytes. The quantisation of values that a
contraction reads, or that derive from a contraction or from other bytes (a residual sum), multiplies by the reciprocal
of the scale. The pass expects composites, and does nothing for targets without byte instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.compose import convert, number, reshape
from burn.dialect.contraction import DotGeneral
from burn.dialect.dims import Dim
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.quantize import Quantize
from burn.dialect.query import blocks, erase_dead, is_named, op_of
from burn.dialect.types import type_of
from burn.kernels.preferences import Preferences
from burn.passes.constants import Constants
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.quantised.convolution import IntegerConvolution, gains_as_floats
from burn.passes.quantised.dot import IntegerDot
from burn.passes.quantised.operands import (
    BYTES,
    Bytes,
    as_signed,
    bytes_of,
    is_zero,
    narrowed,
    shifted_zero,
    widened,
)
from burn.passes.quantised.requantise import requantised
from burn.passes.quantised.views import MOVED, moved

EXACT = 2**31 // (255 * 128)
"""The largest depth for which any bytes accumulate in int32 without overflow; sums of dequantised floats do not wrap.
"""

Rewrite = Callable[[Op], "ir.Value | None"]


@register
@dataclass(frozen=True)
class Integers:
    """See the module's docstring."""

    name: ClassVar[str] = "integers"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        dtype, run = "uint8", 4
        if env.backend is not None:
            runs = {lhs: env.backend.layouts.depth_run(lhs, "int8") for lhs in BYTES}
            dtype, run = max(runs.items(), key=lambda each: each[1])
        if run == 1:
            return
        with context():
            rewriting = _Rewriting(run, dtype, env.preferences)
            for block in blocks(program.block):
                rewriting.block(block)
            erase_dead(program.block)


@dataclass
class _Rewriting:
    """The state of the rewrite. Replaced ops stay without uses, so that the cache of `constant` remains valid.

    run: depth elements per byte instruction; dtype: the type of x that it reads; preferences: of the back end; shifted: bytes of
    the other type, and the same shifted by 128; contractions: ops that became contractions of bytes, or stay floats because they
    gain more in the Winograd domain."""

    run: int
    dtype: str
    preferences: Preferences
    constant: Constants = field(default_factory=Constants)
    shifted: dict[ir.Value, ir.Value] = field(default_factory=dict)
    contractions: set[ir.Value] = field(default_factory=set)

    def block(self, block: ir.Block) -> None:
        requantise = partial(requantised, constant=self.constant, contractions=self.contractions)
        steps: tuple[tuple[tuple[str, ...], Rewrite], ...] = (
            ((*MOVED, "window_reduce"), moved),
            (("dot_general", "conv"), self._contraction),
            (("dequantize",), self._read_shifted),
            (("quantize",), requantise),
        )
        for names, rewrite in steps:
            for operation in list(block.operations):
                op = operation.opview
                if not isinstance(op, Op) or op.OP_NAME not in names:
                    continue
                with op.operation.location, ir.InsertionPoint(op.operation):
                    made = rewrite(op)
                if made is not None:
                    op.operation.results[0].replace_all_uses_with(made)

    def _contraction(self, op: Op) -> ir.Value | None:
        left, right = (
            Bytes(v, None, None) if type_of(v).dtype in BYTES else bytes_of(v) for v in op.operation.operands
        )
        if left is None or right is None or not left.is_single or not self.constant(right.value):
            return None
        if (left.scale is None) != (right.scale is None):
            return None
        if left.scale is None and type_of(op.operation.results[0]).dtype != "int32":
            return None  # sums that wrap around
        made = (IntegerDot if isinstance(op, DotGeneral) else IntegerConvolution)(op, left, right)
        if made.columns is None or (left.scale is not None and not _holds(made.depth)):
            return None
        if (
            isinstance(made, IntegerConvolution)
            and left.scale is not None
            and gains_as_floats(made.op, self.preferences)
        ):
            self.contractions.add(op.operation.results[0])
            return None
        x, w = self._as_lhs(left), as_signed(right)
        if not made.fits(x, w, self.run):
            return self._in_floats(made, left, right)
        total = made.multiplied(x, w)
        self.contractions.add(total)
        if is_zero(x.zero) and is_zero(w.zero):
            exact = total
        else:
            exact = ops.sub(total, made.excess(x, w))
        if left.scale is None or right.scale is None:
            return exact
        scale = ops.mul(reshape(convert(left.scale, "float32"), ()), made.across(convert(right.scale, "float32")))
        return convert(ops.mul(convert(exact, "float32"), scale), type_of(op.operation.results[0]).dtype)

    def _in_floats(self, made: IntegerDot | IntegerConvolution, left: Bytes, right: Bytes) -> ir.Value | None:
        """A depthwise convolution of bytes, summed in float32. Its sums are exact."""
        if (
            not self.preferences.depthwise_bytes
            or not isinstance(made, IntegerConvolution)
            or left.scale is None
            or right.scale is None
        ):
            return None
        if not made.fits_floats(left, right):
            return None
        total = made.in_floats(left, right)
        self.contractions.add(total)
        if not is_zero(left.zero):
            total = ops.sub(total, convert(made.excess(left, right), "float32"))
        scale = ops.mul(reshape(convert(left.scale, "float32"), ()), made.across(convert(right.scale, "float32")))
        return convert(ops.mul(total, scale), type_of(made.op.operation.results[0]).dtype)

    @property
    def shift(self) -> int:
        """The difference between bytes of this type and the same numbers in the other type."""
        return 128 if self.dtype == "uint8" else -128

    def _as_lhs(self, operand: Bytes) -> Bytes:
        if type_of(operand.value).dtype == self.dtype:
            return operand
        if operand.value not in self.shifted:
            producer = op_of(operand.value)
            if producer is not None and isinstance(producer, Quantize) and not self.constant(operand.value):
                with producer.operation.location, ir.InsertionPoint(producer.operation):
                    made = ops.quantize(
                        producer.x, producer.scale, self._point(producer), **(producer.attrs | {"dtype": self.dtype})
                    )
            else:
                bits = ops.xor(ops.cast(operand.value, dtype="uint8"), number(128, "uint8"))
                made = bits if self.dtype == "uint8" else ops.cast(bits, dtype="int8")
            self.shifted[operand.value] = made
        return replace(operand, value=self.shifted[operand.value], zero=shifted_zero(operand.zero, by=self.shift))

    def _point(self, op: Op) -> ir.Value:
        """The shifted zero point of a quantisation or dequantisation."""
        return narrowed(shifted_zero(widened(op.zero), type_of(op.scale).shape, self.shift), self.dtype)

    def _read_shifted(self, op: Op) -> ir.Value | None:
        """Other readers of a shifted value also read the shifted one, so that only one of both is stored."""
        if op.x not in self.shifted or op_of(op.x) is None or not is_named(op.x, "quantize"):
            return None
        return ops.dequantize(self.shifted[op.x], op.scale, self._point(op), **op.attrs)


def _holds(depth: Dim) -> bool:
    return isinstance(depth, int) and depth <= EXACT
