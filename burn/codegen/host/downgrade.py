"""Downgrades LLVM text for an older LLVM.

The LLVM of the bindings generates code for this machine only; for others its text goes to a compiler with an older
LLVM. The syntax of floats has changed. Newer text has `f0x3F800000` (the bits of the number's own format), rounded
decimals, `-inf` and `+qnan`. Older text has bits; for a float these are the bits of the equal double. `older` rewrites
every float as bits. A float constant follows its type on the same line, directly or as a later operand of the
same instruction.

The hint that a loop is not to be vectorised has another name: an older LLVM has only the negation of its opposite, and
ignores any other name.

All other text is unchanged. A float in an unknown form or position is an error.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from burn.errors import CompileError


@dataclass(frozen=True)
class _Format:
    """A float type: its bits, the bits of its mantissa, and the prefix of its hexadecimal numbers."""

    bits: int
    mantissa: int
    prefix: str

    @property
    def infinity(self) -> int:
        """The bits of the exponent."""
        return (1 << (self.bits - 1)) - (1 << self.mantissa)

    def written(self, bits: int) -> str:
        if self.bits == 32:
            bits = _as_double(bits)
        digits = max(self.bits, 64) // 4 if self.prefix == "0x" else self.bits // 4
        return f"{self.prefix}{bits:0{digits}X}"


_FORMATS = {
    "half": _Format(16, 10, "0xH"),
    "bfloat": _Format(16, 7, "0xR"),
    "float": _Format(32, 23, "0x"),
    "double": _Format(64, 52, "0x"),
}

_TOKEN = re.compile(
    r"""(?P<other> "[^"]*" | ;.* | [%@$\#!][-\w.$"]+ )                   # strings, comments, names: as they are
      | (?P<type> \b (?: half|bfloat|float|double|x86_fp80|fp128|ppc_fp128 ) \b )
      | (?P<bits> [-+]? f0x [0-9A-F]+ )
      | (?P<special> [-+]? \b (?: inf | s?nan | qnan ) \b (?: \( [^)]* \) )? )
      | (?P<decimal> (?<![\w.]) [-+]? \d+ \. \d* (?: [eE] [-+]? \d+ )? )""",
    re.VERBOSE,
)


_HINTS = {'!{!"llvm.loop.vectorize.disable"}': '!{!"llvm.loop.vectorize.enable", i1 false}'}


def older(text: str) -> str:
    """The text with every float written as bits, and hints by their older names. Raises CompileError for a float in an
    unknown form."""
    for new, old in _HINTS.items():
        text = text.replace(new, old)
    return "\n".join(_line(line) for line in text.split("\n"))


def _line(line: str) -> str:
    found: str | None = None  # the last float type so far

    def written(match: re.Match[str]) -> str:
        nonlocal found
        token = match.group()
        if match.lastgroup == "other":
            return token
        if match.lastgroup == "type":
            found = token
            return token
        if found not in _FORMATS:
            raise _unknown(token, line)
        form = _FORMATS[found]
        if match.lastgroup == "bits":
            digits = token[3:]
            if token[0] in "+-" or len(digits) * 4 != form.bits:
                raise _unknown(token, line)
            return form.written(int(digits, 16))
        return form.written(_special(token, form, line) if match.lastgroup == "special" else _decimal(token, found))

    return _TOKEN.sub(written, line)


def _special(token: str, form: _Format, line: str) -> int:
    sign = (1 << (form.bits - 1)) if token[0] == "-" else 0
    match token.lstrip("+-"):
        case "inf":
            return sign | form.infinity
        case "qnan":
            return sign | form.infinity | 1 << (form.mantissa - 1)
    raise _unknown(token, line)  # payloads: burn's programs have none


def _decimal(token: str, type_: str) -> int:
    value = float(token)
    if type_ == "double":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    dtype = {"half": np.float16, "bfloat": ml_dtypes.bfloat16, "float": np.float32}[type_]
    return int(np.array(value, dtype).view(np.uint32 if type_ == "float" else np.uint16))


def _as_double(bits: int) -> int:
    """The bits of the double that equals a float; for a NaN, its bits shifted."""
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    if math.isnan(value):
        return (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def _unknown(token: str, line: str) -> CompileError:
    return CompileError("LLVM's text cannot be written for another compiler", [f"the float {token} in: {line.strip()}"])
