"""How numbers without arithmetic are held: bit patterns, one a byte. Printers of conversions read these tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Small:
    """A float of at most 16 bits with a sign: sign, exponent, mantissa from the top bit down."""

    bits: int
    mantissa: int
    bias: int
    largest: int  # code of the largest finite magnitude
    nan: int | None  # code of a NaN's magnitude
    infinity: int | None = None
    zero_unsigned: bool = False  # the code of -0 is the only NaN


SMALL = {
    "float8_e4m3fn": Small(8, 3, 7, 0x7E, 0x7F),
    "float8_e4m3fnuz": Small(8, 3, 8, 0x7F, 0x80, zero_unsigned=True),
    "float8_e5m2": Small(8, 2, 15, 0x7B, 0x7E, infinity=0x7C),
    "float8_e5m2fnuz": Small(8, 2, 16, 0x7F, 0x80, zero_unsigned=True),
    "float4_e2m1fn": Small(4, 1, 1, 0x7, None),
}
HALF = Small(16, 10, 15, 0x7BFF, 0x7E00, infinity=0x7C00)
"""float16, for targets on which it is converted by integer arithmetic."""
EXPONENT = "float8_e8m0fnu"  # 2^(code - 127), 255 is NaN; ranks with neither table

INTEGERS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)}
"""Integers by their bits."""
