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
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.activation import Clip, Relu
from burn.dialect.compose import along, convert, number, reshape
from burn.dialect.contraction import Conv, DotGeneral
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.program import Program
from burn.dialect.quantize import Dequantize, Quantize
from burn.dialect.query import blocks, erase_dead, is_named, op_of, splat
from burn.dialect.reduction import WindowReduce
from burn.dialect.types import type_of
from burn.kernels.layouts import Convolution
from burn.kernels.preferences import Preferences
from burn.passes.constants import Constants
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.rescale import rescaled
from burn.passes.winograd_matrices import TAPS

BYTES = ("uint8", "int8")

EXACT = 2**31 // (255 * 128)
"""The largest depth for which any bytes accumulate in int32 without overflow; sums of dequantised floats do not wrap.
"""

MOVED = ("reshape", "transpose", "slice", "broadcast_to")
"""Views that a dequantisation with one scale can move past."""

Rewrite = Callable[[Op], "ir.Value | None"]

LEAST = 2.0**-126
"""The smallest float32 whose reciprocal is guaranteed to be finite."""

FAR = 8
"""The most pointwise ops between a contraction, or bytes, and the quantisation of their result."""


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


@dataclass(frozen=True)
class _Bytes:
    """(value - zero) * scale. value: uint8 or int8; zero: an int32 scalar or vector along `axis`, None for 0; scale:
    the same in floats, None for the integer itself."""

    value: ir.Value
    zero: ir.Value | None
    scale: ir.Value | None
    axis: int = 0

    @property
    def is_single(self) -> bool:
        """True if scale and zero point are one number each."""
        return all(p is None or type_of(p).elements == 1 for p in (self.zero, self.scale))


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
        steps: tuple[tuple[tuple[str, ...], Rewrite], ...] = (
            ((*MOVED, "window_reduce"), _moved),
            (("dot_general", "conv"), self._contraction),
            (("dequantize",), self._read_shifted),
            (("quantize",), self._quantised),
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

    # ---- contractions --------------------------------------------------------------------------------------------------
    def _contraction(self, op: Op) -> ir.Value | None:
        left, right = (
            _Bytes(v, None, None) if type_of(v).dtype in BYTES else _bytes_of(v) for v in op.operation.operands
        )
        if left is None or right is None or not left.is_single or not self.constant(right.value):
            return None
        if (left.scale is None) != (right.scale is None):
            return None
        if left.scale is None and type_of(op.operation.results[0]).dtype != "int32":
            return None  # sums that wrap around
        made = (_Dot if isinstance(op, DotGeneral) else _Convolution)(op, left, right)
        if made.columns is None or (left.scale is not None and not _holds(made.depth)):
            return None
        if isinstance(made, _Convolution) and left.scale is not None and self._gains_as_floats(made.op):
            self.contractions.add(op.operation.results[0])
            return None
        x, w = self._as_lhs(left), _as_signed(right)
        if not made.fits(x, w, self.run):
            return self._in_floats(made, left, right)
        total = made.multiplied(x, w)
        self.contractions.add(total)
        if _is_zero(x.zero) and _is_zero(w.zero):
            exact = total
        else:
            exact = ops.sub(total, made.excess(x, w))
        if left.scale is None or right.scale is None:
            return exact
        scale = ops.mul(reshape(convert(left.scale, "float32"), ()), made.across(convert(right.scale, "float32")))
        return convert(ops.mul(convert(exact, "float32"), scale), type_of(op.operation.results[0]).dtype)

    def _gains_as_floats(self, op: Conv) -> bool:
        """True if a convolution of dequantised bytes stays one, for the pass `winograd`."""
        as_floats = self.preferences.bytes_as_floats
        if as_floats is None or op.strides != (1, 1) or op.dilations != (1, 1) or op.fill:
            return False
        y, (outputs, channels, *window) = type_of(op.operation.results[0]), type_of(op.weight).shape
        images, _, *sizes = y.shape
        known = all(isinstance(d, int) and d > 0 for d in (*type_of(op.x).shape[1:], *sizes))
        whole = known and all(isinstance(d, int) for d in op.low)
        if window != [TAPS, TAPS] or y.dtype != "float32" or not whole:
            return False
        return as_floats(Convolution(images, tuple(sizes), channels, outputs, "float32", True, False, op.groups))

    def _in_floats(self, made: _Dot | _Convolution, left: _Bytes, right: _Bytes) -> ir.Value | None:
        """A depthwise convolution of bytes, summed in float32. Its sums are exact."""
        if (
            not self.preferences.depthwise_bytes
            or not isinstance(made, _Convolution)
            or left.scale is None
            or right.scale is None
        ):
            return None
        if not made.fits_floats(left, right):
            return None
        total = made.in_floats(left, right)
        self.contractions.add(total)
        if not _is_zero(left.zero):
            total = ops.sub(total, convert(made.excess(left, right), "float32"))
        scale = ops.mul(reshape(convert(left.scale, "float32"), ()), made.across(convert(right.scale, "float32")))
        return convert(ops.mul(total, scale), type_of(made.op.operation.results[0]).dtype)

    @property
    def shift(self) -> int:
        """The difference between bytes of this type and the same numbers in the other type."""
        return 128 if self.dtype == "uint8" else -128

    def _as_lhs(self, operand: _Bytes) -> _Bytes:
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
        return replace(operand, value=self.shifted[operand.value], zero=_shifted(operand.zero, by=self.shift))

    def _point(self, op: Op) -> ir.Value:
        """The shifted zero point of a quantisation or dequantisation."""
        return _narrowed(_shifted(_widened(op.zero), type_of(op.scale).shape, self.shift), self.dtype)

    def _read_shifted(self, op: Op) -> ir.Value | None:
        """Other readers of a shifted value also read the shifted one, so that only one of both is stored."""
        if op.x not in self.shifted or op_of(op.x) is None or not is_named(op.x, "quantize"):
            return None
        return ops.dequantize(self.shifted[op.x], op.scale, self._point(op), **op.attrs)

    # ---- quantisation --------------------------------------------------------------------------------------------------
    def _quantised(self, op: Op) -> ir.Value | None:
        kept = is_named(op.x, "dequantize")
        if kept is not None and _same_numbers(kept, op):
            return kept.x
        x = type_of(op.x)
        known = self.constant(op.scale)
        if type_of(op.scale).elements != 1 or not (self._is_multiplied(op) or (known and self._follows(op.x))):
            return None
        if op.dtype not in BYTES or op.precision is not None or x.dtype != type_of(op.scale).dtype or op.block:
            return None
        if splat(op.scale) == 1:
            return None
        scale = reshape(op.scale, ())
        if known and (splat(scale) or 0) > 0:
            made = rescaled(op.x, ops.div(number(1.0, x.dtype), scale), self.constant)
            if made is not None:
                return ops.quantize(made, number(1.0, x.dtype), _scalar(op.zero), **op.attrs)
        if not known:  # its scale may be nearly zero
            least = number(LEAST, x.dtype)
            scale = ops.select(ops.lt(ops.abs(scale), least), least, scale)
        factor = ops.div(number(1.0, x.dtype), scale)
        return ops.quantize(ops.mul(op.x, factor), number(1.0, x.dtype), _scalar(op.zero), **op.attrs)

    def _is_multiplied(self, op: Op) -> bool:
        """True if integer contractions read the quantised float32 value."""
        return type_of(op.x).dtype == "float32" and any(
            use.owner.results[0] in self.contractions
            for use in op.operation.results[0].uses
            if use.owner.name in ("burn.dot_general", "burn.conv")
        )

    def _follows(self, value: ir.Value) -> bool:
        """True if a value is an integer contraction, or quantised bytes, or a few pointwise ops on such."""
        todo = [(value, 0)]
        while todo:
            value, far = todo.pop()
            if value in self.contractions:
                return True
            op = op_of(value)
            if (
                op is not None
                and isinstance(op, Dequantize)
                and type_of(op.x).dtype in BYTES
                and not self.constant(value)
            ):
                return True
            if op is not None and far < FAR and isinstance(op, Pointwise | Relu | Clip):
                todo += [(v, far + 1) for v in op.operation.operands]
        return False


class _Dot:
    """A matmul without batch axes and with a constant rhs."""

    def __init__(self, op: Op, left: _Bytes, right: _Bytes) -> None:
        self.op = op
        x, w = type_of(op.lhs), type_of(op.rhs)
        free = [a for a in range(w.rank) if a not in op.rhs_contract]
        last = x.rank - 1
        plain = not op.rhs_batch and len(free) == 1 and op.lhs_contract[-1:] == (last,)
        alone = right.is_single or (plain and right.axis % w.rank == free[0])
        self.columns = w.shape[free[0]] if plain and alone and isinstance(w.shape[free[0]], int) else None
        self.depth = product([w.shape[a] for a in op.rhs_contract])

    def fits(self, x: _Bytes, w: _Bytes, run: int) -> bool:
        return isinstance(self.depth, int) and self.depth > 0

    def multiplied(self, x: _Bytes, w: _Bytes) -> ir.Value:
        return ops.dot_general(x.value, w.value, **(self.op.attrs | {"dtype": "int32"}))

    def across(self, parameter: ir.Value) -> ir.Value:
        """A parameter of the rhs, broadcast along the result."""
        return reshape(parameter, ()) if type_of(parameter).elements == 1 else parameter

    def excess(self, x: _Bytes, w: _Bytes) -> ir.Value:
        """The correction for the zero points."""
        parts: list[ir.Value] = []
        if x.zero is not None:
            sums = ops.reduce(convert(w.value, "int32"), kind="sum", axes=self.op.rhs_contract)
            if not _is_zero(w.zero):
                sums = ops.sub(sums, ops.mul(self.across(_known(w.zero)), number(int(str(self.depth)), "int32")))
            parts.append(ops.mul(reshape(x.zero, ()), sums))
        if not _is_zero(w.zero):
            sums = ops.reduce(convert(x.value, "int32"), kind="sum", axes=self.op.lhs_contract)
            sums = ops.reshape(sums, shape=(*type_of(sums).shape, 1))
            parts.append(ops.mul(sums, self.across(_known(w.zero))))
        return parts[0] if len(parts) == 1 else ops.add(*parts)


class _Convolution:
    """A convolution, channels first, with a constant weight. It cannot sum the pixels under a sliding window, so its
    weight must have no zero point."""

    def __init__(self, op: Op, left: _Bytes, right: _Bytes) -> None:
        self.op = op
        w = type_of(op.weight)
        self.rank = w.rank
        alone = right.is_single or right.axis % w.rank == 0
        self.columns = w.shape[0] if alone and op.layout == "first" and w.is_static and 0 not in w.shape else None
        self.depth = product(w.shape[1:])

    def _fill(self, x: _Bytes) -> float | None:
        """The value of padding: the zero point, or the convolution's own fill if its bytes have none."""
        return float(self.op.fill or 0) if x.zero is None else splat(x.zero)

    def fits(self, x: _Bytes, w: _Bytes, run: int) -> bool:
        channels = type_of(self.op.weight).shape[1]
        whole = self.op.groups == 1 or (isinstance(channels, int) and channels % run == 0)
        padded = any(p != 0 for p in (*self.op.low, *self.op.high))
        fill, least = self._fill(x), -128 if type_of(x.value).dtype == "int8" else 0
        return whole and _is_zero(w.zero) and (not padded or (fill is not None and least <= fill < least + 256))

    def fits_floats(self, x: _Bytes, w: _Bytes) -> bool:
        """True for a depthwise convolution if float32 has all sums exactly."""
        padded = any(p != 0 for p in (*self.op.low, *self.op.high))
        depth = self.depth
        depthwise = self.op.groups > 1 and type_of(self.op.weight).shape[1] == 1
        largest = 255 * (128 if type_of(w.value).dtype == "int8" else 255)
        exact = depthwise and isinstance(depth, int) and 0 < depth * largest < 2**24
        return exact and _is_zero(w.zero) and not (padded and self._fill(x) is None)

    def in_floats(self, x: _Bytes, w: _Bytes) -> ir.Value:
        fill = self._fill(x)
        return ops.conv(
            x.value,
            convert(w.value, "float32"),
            **(self.op.attrs | {"dtype": "float32", "fill": int(fill) if fill else None}),
        )

    def multiplied(self, x: _Bytes, w: _Bytes) -> ir.Value:
        fill = self._fill(x)
        return ops.conv(x.value, w.value, **(self.op.attrs | {"dtype": "int32", "fill": int(fill) if fill else None}))

    def across(self, parameter: ir.Value) -> ir.Value:
        return reshape(parameter, ()) if type_of(parameter).elements == 1 else along(parameter, 1, self.rank)

    def excess(self, x: _Bytes, w: _Bytes) -> ir.Value:
        sums = ops.reduce(convert(w.value, "int32"), kind="sum", axes=tuple(range(1, self.rank)))
        return ops.mul(reshape(_known(x.zero), ()), self.across(sums))


def _bytes_of(value: ir.Value) -> _Bytes | None:
    """Recognises a value that is bytes minus a zero point, or their dequantisation; looks through transposes."""
    op = op_of(value)
    if op is None:
        return None
    match op.OP_NAME:
        case "dequantize" if type_of(op.x).dtype in BYTES and not op.block:
            return _Bytes(op.x, _widened(op.zero), op.scale, op.axis)
        case "cast" if op.dtype == "int32" and type_of(op.x).dtype in BYTES:
            return _Bytes(op.x, None, None)
        case "sub":
            plain, zero = _bytes_of(op.lhs), type_of(op.rhs)
            if plain is None or plain.zero is not None or plain.scale is not None or zero.dtype != "int32":
                return None
            return _less(plain, op.rhs)
        case "transpose":
            source = _bytes_of(op.x)
            if source is None or (not source.is_single and source.scale is None):
                return None
            axis = op.permutation.index(source.axis % len(op.permutation))
            return replace(source, value=ops.transpose(source.value, permutation=op.permutation), axis=axis)
    return None


def _less(plain: _Bytes, zero: ir.Value) -> _Bytes | None:
    """Bytes minus a zero point that broadcasts with them: one number, or a vector along one axis."""
    shape, rank = type_of(zero).shape, type_of(plain.value).rank
    if type_of(zero).elements == 1:
        return replace(plain, zero=reshape(zero, ()))
    wide = [i for i, d in enumerate(shape) if d != 1]
    if len(wide) != 1 or len(shape) > rank:
        return None
    return replace(plain, zero=reshape(zero, (shape[wide[0]],)), axis=rank - len(shape) + wide[0])


def _widened(zero: ir.Value | None) -> ir.Value | None:
    """A zero point in int32, as a constant if it is known."""
    if zero is None:
        return None
    known = splat(zero)
    return convert(zero, "int32") if known is None else _full(int(known), type_of(zero).shape)


def _narrowed(zero: ir.Value, dtype: str) -> ir.Value:
    known = splat(zero)
    shape = type_of(zero).shape
    return (
        convert(zero, dtype)
        if known is None
        else ops.full(shape=shape, dtype=dtype, value=float(known), bits=int(known))
    )


def _full(number: int, shape: tuple[Dim, ...]) -> ir.Value:
    return ops.full(shape=shape, dtype="int32", value=float(number), bits=number)


def _as_signed(operand: _Bytes) -> _Bytes:
    if type_of(operand.value).dtype == "int8":
        return operand
    value = ops.cast(ops.xor(operand.value, number(128, "uint8")), dtype="int8")
    return replace(operand, value=value, zero=_shifted(operand.zero, by=-128))


def _shifted(zero: ir.Value | None, shape: tuple[Dim, ...] = (), by: int = 128) -> ir.Value:
    """The int32 zero point of shifted numbers; a new one gets a shape."""
    if zero is None:
        return _full(by, shape)
    known = splat(zero)
    if known is not None:
        return _full(int(known) + by, type_of(zero).shape)
    return ops.add(zero, number(by, "int32"))


def _scalar(zero: ir.Value | None) -> ir.Value | None:
    return None if zero is None else reshape(zero, ())


def _known(value: ir.Value | None) -> ir.Value:
    return number(0, "int32") if value is None else value


def _is_zero(zero: ir.Value | None) -> bool:
    return zero is None or splat(zero) == 0


def _holds(depth: Dim) -> bool:
    return isinstance(depth, int) and depth <= EXACT


def _moved(op: Op) -> ir.Value | None:
    """A view of dequantised bytes, or their window maximum, computed on the bytes instead."""
    kept = is_named(op.x, "dequantize")
    if kept is None or type_of(kept.x).dtype not in BYTES or type_of(kept.scale).elements != 1 or kept.block:
        return None
    if isinstance(op, WindowReduce) and not (op.kind == "max" and (splat(kept.scale) or 0) > 0):
        return None
    made = type(op).build(kept.x, *list(op.operation.operands)[1:], **op.attrs)
    return ops.dequantize(made, reshape(kept.scale, ()), _scalar(kept.zero), **(kept.attrs | {"axis": 0}))


def _same_numbers(kept: Op, op: Op) -> bool:
    """True if a quantisation inverts the dequantisation before it."""
    if type_of(kept.x).dtype != op.dtype or op.precision is not None or op.block or kept.block:
        return False
    same_zero = (kept.zero is None) == (op.zero is None) and (
        kept.zero is None
        or kept.zero == op.zero
        or (splat(kept.zero) is not None and splat(kept.zero) == splat(op.zero))
    )
    known = splat(kept.scale)
    return same_zero and (
        (kept.scale == op.scale and kept.axis == op.axis) or (known is not None and known == splat(op.scale))
    )
