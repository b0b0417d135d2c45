"""Quantisation inside a kernel: `in_registers` leaves integers out between a quantisation and a dequantisation of its result.

    clamped = min(max(x, low - zero), high - zero)
    bytes   = uint8(int32(round(clamped)) + zero)        # stored, if anything reads it
    again   = float32(int32(bytes) - zero) = round(clamped)

A value that is clamped and rounded is that integer as a float, and the sum with an offset, which may be 0, is no negative zero.
The conversion to bytes and back gives the same number, except for NaN, whose byte is unspecified. The sum under a clamp is a
fused multiply-add: bytes differ only within an ulp of a tie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from burn.dialect.types import DTYPES
from burn.kernels.body import Apply, Const, Convert, Kernel, Rewriter, Scalar
from burn.kernels.rewrite import map_values

FLOAT = "float32"

EXACT = 2**24
"""float32 has all integers up to this one."""


def in_registers(kernel: Kernel) -> Kernel:
    """The kernel without bytes between values of its scalar bodies."""
    return map_values(kernel, _Requantizing(lambda dim: dim))


@dataclass
class _Requantizing(Rewriter):
    def _rebuild(self, node: Scalar) -> Scalar:
        made = super()._rebuild(node)
        match made:
            case Convert(dtype="float32", arg=arg) if (whole := _whole(arg)) is not None and whole.fits(-EXACT, EXACT):
                return Apply(FLOAT, "add", (whole.rounded, Const(FLOAT, float(whole.offset))))
            case Apply(dtype="float32", function="round", args=(arg,)) if _range(arg) is not None:
                return replace(made, args=(_contracted(arg),))
        return made


@dataclass(frozen=True)
class _Whole:
    """An integer: a rounded float, which lies between `low` and `high`, plus an offset."""

    rounded: Scalar
    low: int
    high: int
    offset: int = 0

    def fits(self, low: int, high: int) -> bool:
        return low <= self.low + self.offset and self.high + self.offset <= high


def _whole(node: Scalar) -> _Whole | None:
    """An integer node as a rounded and clamped float plus a constant, if no conversion in it changes the number."""
    match node:
        case Convert(dtype=dtype, arg=Apply(dtype="float32", function="round", args=(arg,)) as rounded):
            found = None if (limits := _range(arg)) is None else _Whole(rounded, *limits)
        case Convert(dtype=dtype, arg=arg) if arg.dtype != FLOAT:
            found = _whole(arg)
        case Apply(dtype=dtype, function="add" | "sub" as function, args=(arg, Const(value=int(value)))):
            found = _whole(arg)
            if found is not None:
                found = replace(found, offset=found.offset + (value if function == "add" else -value))
        case _:
            return None
    if found is None or DTYPES[dtype].kind not in ("int", "uint") or DTYPES[dtype].bits < 8:
        return None
    bits = DTYPES[dtype].bits
    low, high = (0, 2**bits - 1) if DTYPES[dtype].kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return found if found.fits(low, high) else None


def _range(node: Scalar) -> tuple[int, int] | None:
    """The bounds of a float that is clamped to integers."""
    match node:
        case Apply(
            dtype="float32",
            function="min",
            args=(Apply(function="max", args=(_, Const(value=low))), Const(value=high)),
        ) if float(low).is_integer() and float(high).is_integer():
            return int(low), int(high)
    return None


def _contracted(node: Scalar) -> Scalar:
    """A clamped multiplication and addition as a fused multiply-add."""
    match node:
        case Apply(function="min" | "max", args=(arg, Const() as bound)):
            return replace(node, args=(_contracted(arg), bound))
        case Apply(dtype="float32", function="add", args=(Apply(function="mul", args=(a, b)), c)):
            return Apply(FLOAT, "fma", (a, b, c))
        case Apply(dtype="float32", function="add", args=(c, Apply(function="mul", args=(a, b)))):
            return Apply(FLOAT, "fma", (a, b, c))
    return node
