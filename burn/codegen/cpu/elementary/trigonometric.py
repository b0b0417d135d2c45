"""sin, cos, tan. The argument is reduced in f64, also for f32: x = q pi/2 + r, |r| <= pi/4.

Up to 2^20, pi/2 is subtracted in parts whose multiples by q are exact (Cody and Waite). Beyond, lane by lane, x is
multiplied by the bits of 2/pi that are significant for its exponent (Payne and Hanek), in integers: correct for every finite
argument.
"""

from __future__ import annotations

import math
from itertools import pairwise

from burn.codegen.cpu.elementary.coefficients import COS, SIN
from burn.codegen.cpu.elementary.formats import FORMATS
from burn.codegen.cpu.lanes import Lanes
from burn.codegen.host.emit import Value

_NEAR = 2.0**20
# pi/2 in parts of 33, 33 and 53 bits.
_PI_HALF = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
_PI_HALF_TAIL = 6.077100506506192e-11  # pi/2 - _PI_HALF[0], rounded once

# 1280 bits of 2/pi, 64 a word, behind a word of zeros (for arguments whose window starts before the binary point).
_TWO_OVER_PI = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
    0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)  # fmt: skip


def _reduce(x: Lanes, wide: bool) -> tuple[Lanes, Lanes]:
    """(r, q) of f64 lanes; q is an i64 with two significant bits, the low ones. `wide`: r has f64's full precision, not f32's."""
    magic = FORMATS["f64"].magic
    near = x.mad(2 / math.pi, magic)
    n = near - magic
    rest = n.mad(-_PI_HALF[0], x)
    if wide:
        part = n * _PI_HALF[1]
        r = rest - part
        back = r - rest
        low = (rest - (r - back)) - (part + back)
        r = r + n.mad(-_PI_HALF[2], low)
    else:
        r = n.mad(-_PI_HALF_TAIL, rest)
    q = near.as_int()
    magnitude = x.abs()
    far = (magnitude >= _NEAR) & (magnitude < math.inf)
    code, lanes = x.code, x.lanes
    count = code.select(far.any().value, code.const(lanes), code.const(0))
    with code.for_(0, count, carried=(r.value, q.value)) as loop:
        lane_r, lane_q = _reduce_far(_lane(x, loop.iv))
        pick = _lane(far, loop.iv)
        old_r, old_q = (x.wrap(v) for v in loop.carried)
        lane_r = pick.where(lane_r, _lane(old_r, loop.iv))
        lane_q = pick.where(lane_q, _lane(old_q, loop.iv))
        loop.yield_(_with_lane(old_r, lane_r, loop.iv), _with_lane(old_q, lane_q, loop.iv))
    return x.wrap(loop.results[0]), x.wrap(loop.results[1])


def _lane(x: Lanes, index: Value) -> Lanes:
    if x.lanes == 1:
        return x
    return x.wrap(x.code.raw(f"llvm.extractelement {x.value}[{index} : i64] : {x.type}", x.element))


def _with_lane(x: Lanes, lane: Lanes, index: Value) -> Value:
    if x.lanes == 1:
        return lane.value
    return x.code.raw(f"llvm.insertelement {lane.value}, {x.value}[{index} : i64] : {x.type}", x.type)


def _reduce_far(x: Lanes) -> tuple[Lanes, Lanes]:
    """(r, q) for one finite f64 with |x| >= 2^20.

    |x| = m 2^e with a 53-bit m. Bits of 2/pi above 2^(2-e) only add multiples of 4 to x * 2/pi. The next 192 bits times
    m, modulo 2^192, give two bits of q and a fraction accurate to 2^-105. No double is closer than 2^-61 to a multiple
    of pi/2 in these units. So r keeps 44 bits more than f32 needs, and f64's precision except for about the last ULP.
    """
    bits = x.abs().as_int()
    exponent = (bits >> 52) - 1075
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    start = exponent + (64 - 2)  # of the window, in bits of the table
    word, shift = start >> 6, start & 63
    table = x.code.const(str([w - (w >> 63 << 64) for w in (*_TWO_OVER_PI, *[0] * 11)]), "vector<32xi64>")
    source = [
        x.wrap(x.code.raw(f"llvm.extractelement {table}[{(word + i).value} : i64] : vector<32xi64>", "i64"))
        for i in range(4)
    ]
    window = [  # 64 bits from `shift` on; the second shift is split because a shift by 64 is undefined
        (high << shift) | low.shift_right_logical(1).shift_right_logical(63 - shift) for high, low in pairwise(source)
    ]
    multiplied = _multiply(mantissa, window)
    q = multiplied[0].shift_right_logical(62)
    high = (multiplied[0] << 2) | multiplied[1].shift_right_logical(62)
    low = (multiplied[1] << 2) | multiplied[2].shift_right_logical(62)
    q = q + high.shift_right_logical(63)  # a fraction from 1/2 up counts down from the next q: read it as signed
    fraction = low.shift_right_logical(1).to_float("f64").mad(2.0**-127, high.to_float("f64") * 2.0**-64)
    r = fraction * (math.pi / 2)
    return (x < 0.0).where(-r, r), (x < 0.0).where(-q, q)


def _multiply(mantissa: Lanes, window: list[Lanes]) -> list[Lanes]:
    """mantissa * window modulo 2^192, most significant word first, in 32-bit limbs so that no target needs a 128-bit
    multiplication."""
    mask = (1 << 32) - 1
    digits = [part for word in reversed(window) for part in (word & mask, word.shift_right_logical(32))]
    factors = [mantissa & mask, mantissa.shift_right_logical(32)]
    columns: list[Lanes] = [mantissa.const(0)] * (len(digits) + 1)
    for i, factor in enumerate(factors):
        carry = mantissa.const(0)
        for j, digit in enumerate(digits[: len(digits) - i]):
            total = digit * factor + columns[i + j] + carry
            columns[i + j] = total & mask
            carry = total.shift_right_logical(32)
        if i == 0:
            columns[len(digits)] = carry
    return [columns[2 * i] | (columns[2 * i + 1] << 32) for i in reversed(range(len(window)))]


def _sin_near(r: Lanes) -> Lanes:
    z = r * r
    return (r * z).mad(z.horner(SIN[r.element]), r)


def _cos_near(r: Lanes) -> Lanes:
    z = r * r
    tail = z.horner(COS[r.element])
    if r.element == "f32":
        return (z * z).mad(tail, z.mad(-0.5, 1.0))
    half = z * 0.5
    high = 1.0 - half
    return high + (z * z).mad(tail, 1.0 - high - half)  # adds the rounding error of 1 - z/2


def _rotated(x: Lanes, quarters: int) -> Lanes:
    """sin(x + quarters pi/2)."""
    if x.element == "f32":
        r, q = _reduce(x.widen("f64"), wide=False)
        r, q = r.narrow("f32"), q.resize("i32")
    else:
        r, q = _reduce(x, wide=True)
    q = q + quarters
    result = (q & 1).equals(0).where(_sin_near(r), _cos_near(r))
    sign = (q & 2) << (q.width - 2)
    return (result.as_int() ^ sign).as_float()


def sin(x: Lanes) -> Lanes:
    return x.equals(0.0).where(x, _rotated(x, 0))


def cos(x: Lanes) -> Lanes:
    return _rotated(x, 1)


def tan(x: Lanes) -> Lanes:
    wide = x.widen("f64")
    r, q = _reduce(wide, wide=x.element == "f64")
    s, c = _sin_near(r), _cos_near(r)
    even = (q & 1).equals(0)
    result = even.where(s, -c) / even.where(c, s)
    return x.equals(0.0).where(x, result.narrow(x.element))
