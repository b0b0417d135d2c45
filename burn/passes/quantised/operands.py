"""Operands of bytes: a value, its zero point and its scale, recognised in the IR."""

from __future__ import annotations

from dataclasses import dataclass, replace

from burn.dialect import ops
from burn.dialect.compose import convert, number, reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.query import op_of, splat
from burn.dialect.types import type_of

BYTES = ("uint8", "int8")
"""The types of operands."""


@dataclass(frozen=True)
class Bytes:
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


def bytes_of(value: ir.Value) -> Bytes | None:
    """Recognises a value that is bytes minus a zero point, or their dequantisation; looks through transposes."""
    op = op_of(value)
    if op is None:
        return None
    match op.OP_NAME:
        case "dequantize" if type_of(op.x).dtype in BYTES and not op.block:
            return Bytes(op.x, widened(op.zero), op.scale, op.axis)
        case "cast" if op.dtype == "int32" and type_of(op.x).dtype in BYTES:
            return Bytes(op.x, None, None)
        case "sub":
            plain, zero = bytes_of(op.lhs), type_of(op.rhs)
            if plain is None or plain.zero is not None or plain.scale is not None or zero.dtype != "int32":
                return None
            return _less(plain, op.rhs)
        case "transpose":
            source = bytes_of(op.x)
            if source is None or (not source.is_single and source.scale is None):
                return None
            axis = op.permutation.index(source.axis % len(op.permutation))
            return replace(source, value=ops.transpose(source.value, permutation=op.permutation), axis=axis)
    return None


def _less(plain: Bytes, zero: ir.Value) -> Bytes | None:
    """Bytes minus a zero point that broadcasts with them: one number, or a vector along one axis."""
    shape, rank = type_of(zero).shape, type_of(plain.value).rank
    if type_of(zero).elements == 1:
        return replace(plain, zero=reshape(zero, ()))
    wide = [i for i, d in enumerate(shape) if d != 1]
    if len(wide) != 1 or len(shape) > rank:
        return None
    return replace(plain, zero=reshape(zero, (shape[wide[0]],)), axis=rank - len(shape) + wide[0])


def as_signed(operand: Bytes) -> Bytes:
    """The operand as int8: uint8 values and their zero point are shifted by -128."""
    if type_of(operand.value).dtype == "int8":
        return operand
    value = ops.cast(ops.xor(operand.value, number(128, "uint8")), dtype="int8")
    return replace(operand, value=value, zero=shifted_zero(operand.zero, by=-128))


def shifted_zero(zero: ir.Value | None, shape: tuple[Dim, ...] = (), by: int = 128) -> ir.Value:
    """The int32 zero point of shifted numbers; a new one gets a shape."""
    if zero is None:
        return _full(by, shape)
    known = splat(zero)
    if known is not None:
        return _full(int(known) + by, type_of(zero).shape)
    return ops.add(zero, number(by, "int32"))


def widened(zero: ir.Value | None) -> ir.Value | None:
    """A zero point in int32, as a constant if it is known."""
    if zero is None:
        return None
    known = splat(zero)
    return convert(zero, "int32") if known is None else _full(int(known), type_of(zero).shape)


def narrowed(zero: ir.Value, dtype: str) -> ir.Value:
    """An int32 zero point in a type of bytes, as a constant if it is known."""
    known = splat(zero)
    shape = type_of(zero).shape
    return (
        convert(zero, dtype)
        if known is None
        else ops.full(shape=shape, dtype=dtype, value=float(known), bits=int(known))
    )


def _full(number: int, shape: tuple[Dim, ...]) -> ir.Value:
    return ops.full(shape=shape, dtype="int32", value=float(number), bits=number)


def as_scalar(zero: ir.Value | None) -> ir.Value | None:
    """A zero point of one element, with shape []."""
    return None if zero is None else reshape(zero, ())


def zero_or_0(value: ir.Value | None) -> ir.Value:
    """The int32 zero point, 0 for None."""
    return number(0, "int32") if value is None else value


def is_zero(zero: ir.Value | None) -> bool:
    return zero is None or splat(zero) == 0
