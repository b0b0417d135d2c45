"""Derives the polynomials of `coefficients.py`: run `python -m burn.codegen.cpu.elementary.fit > .../coefficients.py`.

Each is the minimax polynomial of a function on the interval that the argument reduction leaves, or on a piece of it (Remez
exchange in 60-digit arithmetic), with the error weighted as in the result. If 0 is outside of the interval, the coefficients are
rounded to the target type one by one, starting with the constant term. The rest is fitted again after each, so that
rounding costs little. Needs mpmath; it is not imported by the compiler.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from mpmath import mp, mpf

mp.dps = 60
GRID = 1201  # odd, so that no point is 0, where some functions below are 0/0
Number = Any  # an mpf: mpmath ships no types
Real = Callable[[Number], Number]


def minimax(f: Real, weight: Real, low: Number, high: Number, first: int, count: int, grid: int = GRID) -> list[Number]:
    """c[0..count) with sum of c[i] x^(first+i) nearest to f: the largest |weight * error| on [low, high] is least."""
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / grid) for i in range(grid + 1)]
    table = [(x, f(x), abs(weight(x))) for x in points]
    reference = [round(grid * i / count) for i in range(count + 1)]
    coefficients: list[Number] = []
    for _ in range(30):
        rows = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, index in enumerate(reference):
            x, y, w = table[index]
            for column in range(count):
                rows[row, column] = w * x ** (first + column)
            rows[row, count] = (-1) ** row
            right[row] = w * y
        solution = mp.lu_solve(rows, right)
        coefficients, level = list(solution[:count]), abs(solution[count])
        errors = [w * (y - x**first * mp.polyval(coefficients[::-1], x)) for x, y, w in table]
        extrema = alternating(errors)
        while len(extrema) > count + 1:  # drop the smaller end, so that the signs go on alternating
            del extrema[0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1]
        if len(extrema) < count + 1:
            raise ArithmeticError(
                "the error curve does not alternate often enough: raise mp.dps or the degree's parity"
            )
        reference = extrema
        if max(abs(e) for e in errors) < level * mpf("1.001"):
            break
    return coefficients


def alternating(errors: list[Number]) -> list[int]:
    """The indices of the largest error in each run of one sign."""
    best: list[int] = []
    for index, error in enumerate(errors):
        if best and (errors[best[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[best[-1]]):
                best[-1] = index
        else:
            best.append(index)
    return best


def rounded(x: Number, single: bool) -> Number:
    return mpf(struct.unpack("<f", struct.pack("<f", float(x)))[0]) if single else mpf(float(x))


@dataclass(frozen=True)
class Fit:
    """`count` coefficients for `f` on [low, high]; `weight` turns the error of the polynomial into that of the
    result."""

    name: str
    doc: str
    f: Real
    weight: Real
    low: Number
    high: Number
    count: int
    single: bool
    grid: int = GRID

    def coefficients(self) -> tuple[list[Number], Number]:
        fixed: list[Number] = []
        if (
            self.low < 0
        ):  # powers from x up are no Haar system around 0: there the exchange is for the whole polynomial only
            whole = minimax(self.f, self.weight, self.low, self.high, 0, self.count, self.grid)
            fixed = [rounded(c, self.single) for c in whole]
        for first in range(len(fixed), self.count):
            rest = minimax(
                lambda x: self.f(x) - mp.polyval(fixed[::-1], x) if fixed else self.f(x),
                self.weight, self.low, self.high, first, self.count - first, self.grid,
            )  # fmt: skip
            fixed.append(rounded(rest[0], self.single))
        points = [self.low + (self.high - self.low) * i / 997 for i in range(998)]  # none is 0
        return fixed, max(abs(self.weight(x) * (self.f(x) - mp.polyval(fixed[::-1], x))) for x in points)


TINY = mpf("1e-12")  # stands for 0, where the quotients below are 0/0
HALF_LN2 = mp.log(2) / 2 * mpf("1.0001")
ROOT = mp.sqrt(2) - 1
QUARTER_PI_SQUARED = (mp.pi / 4) ** 2 * mpf("1.0001")


def odd(f: Real) -> Real:
    """(f(x) - x) / x^3 as a function of z = x^2, for an odd f with slope 1."""
    return lambda z: (f(mp.sqrt(z)) - mp.sqrt(z)) / (z * mp.sqrt(z))


def odd_weight(f: Real) -> Real:
    return lambda z: z * mp.sqrt(z) / f(mp.sqrt(z))


def log_ratio(z: Number) -> Number:
    """log((1 + s) / (1 - s)) for s = sqrt(z)."""
    return 2 * mp.atanh(mp.sqrt(z))


def erfcx_at(w: Number) -> Number:
    """erfc(t) exp(t^2) at the t that w = (t - 3) / (t + 3) came from."""
    t = 3 * (1 + w) / (1 - w)
    return mp.erfc(t) * mp.exp(t * t)


def fits(single: bool) -> list[Fit]:
    def fit(name: str, doc: str, f: Real, weight: Real, low: Number, high: Number, counts: tuple[int, int]) -> Fit:
        return Fit(name, doc, f, weight, mpf(low), mpf(high), counts[0 if single else 1], single)

    common = [
        fit("EXP", "(exp(r) - 1 - r) / r^2, |r| <= ln(2)/2",
            lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.expm1(r), -HALF_LN2, HALF_LN2, (5, 11)),
        fit("SIN", "(sin(r) - r) / r^3 in r^2, |r| <= pi/4",
            odd(mp.sin), odd_weight(mp.sin), TINY, QUARTER_PI_SQUARED, (3, 6)),
        fit("COS", "(cos(r) - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4",
            lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2 / mp.cos(mp.sqrt(z)),
            TINY, QUARTER_PI_SQUARED, (3, 6)),
        fit("ATAN", "(atan(a) - a) / a^3 in a^2, |a| <= tan(pi/8)",
            odd(mp.atan), odd_weight(mp.atan), TINY, ROOT**2 * mpf("1.0001"), (5, 11)),
        fit("ASIN", "(asin(a) - a) / a^3 in a^2, |a| <= 1/2",
            odd(mp.asin), odd_weight(mp.asin), TINY, mpf("0.25"), (5, 13)),
        fit("SINH", "(sinh(a) - a) / a^3 in a^2, |a| <= 1", odd(mp.sinh), odd_weight(mp.sinh), TINY, mpf(1), (4, 7)),
        fit("TANH", "(tanh(a) - a) / a^3 in a^2, |a| <= 0.55",
            odd(mp.tanh), odd_weight(mp.tanh), TINY, mpf("0.3026"), (5, 11)),
        fit("ERF", "erf(a) / a - 1 in a^2, |a| <= 1",
            lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
            lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), TINY, mpf(1), (6, 13)),
    ]  # fmt: skip
    if single:
        return [*common,
            fit("EXP_BFLOAT16", "EXP for bfloat16 results",
                lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.exp(r), -HALF_LN2, HALF_LN2, (3, 0)),
            fit("LOG", "(log(1+f) - f + f^2/2) / f^3, sqrt(1/2) <= 1+f <= sqrt(2)",
                lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, lambda f: f**3 / mp.log1p(f),
                mp.sqrt(mpf(1) / 2) - 1, ROOT, (9, 0)),
            fit("ERFC", "erfc(t) exp(t^2) in t, 1 <= t <= 4",
                lambda t: mp.erfc(t) * mp.exp(t * t), lambda t: mp.exp(-t * t), mpf(1), mpf(4), (8, 0)),
        ]  # fmt: skip
    return [*common,
        fit("LOG", "(2 atanh(s) - 2s) / s in s^2, s = f/(2+f), sqrt(1/2) <= 1+f <= sqrt(2); no constant term",
            lambda z: (log_ratio(z) - 2 * mp.sqrt(z)) / (z * mp.sqrt(z)), lambda z: z * mp.sqrt(z) / log_ratio(z),
            TINY, (ROOT / (2 + ROOT)) ** 2 * mpf("1.0001"), (0, 7)),
        fit("LOG_TAIL", "(2 atanh(s) - 2s - 2/3 s^3) / s^5 in s^2, same interval",
            lambda z: (log_ratio(z) - 2 * mp.sqrt(z) - mpf(2) / 3 * z * mp.sqrt(z)) / (z * z * mp.sqrt(z)),
            lambda z: z * z * mp.sqrt(z) / log_ratio(z), TINY, (ROOT / (2 + ROOT)) ** 2 * mpf("1.0001"), (0, 7)),
        fit("EXP_SHORT", "EXP for single-precision results",
            lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.expm1(r), -HALF_LN2, HALF_LN2, (0, 6)),
        fit("LOG_SHORT", "LOG for single-precision results of a power",
            lambda z: (log_ratio(z) - 2 * mp.sqrt(z)) / (z * mp.sqrt(z)), lambda z: z * mp.sqrt(z) / log_ratio(z),
            TINY, (ROOT / (2 + ROOT)) ** 2 * mpf("1.0001"), (0, 4)),
        fit("ERFCX", "erfc(t) exp(t^2) in w = (t-3)/(t+3), 1 <= t <= 6",
            erfcx_at, lambda w: mp.erfc(3 * (1 + w) / (1 - w)) * mp.exp((3 * (1 + w) / (1 - w)) ** 2 * mpf("0.9")),
            mpf(-1) / 2, mpf(1) / 3, (0, 18)),
    ]  # fmt: skip


PIECES, SPACING, DEGREE = 32, mpf(67) / 512, 5
"""Of erf: the last piece begins at 3.991, where erf rounds to 1. At the multiples of this spacing erf is near a float32, so
that the constant terms have small errors."""


def erf_piece(number: int) -> list[Number]:
    """The coefficients of erf around number * SPACING, in the distance r from there, lowest power first. The first piece is
    that of erf(r) - r, whose constant term is 0, so that the relative error is small."""
    centre, reach = number * SPACING, SPACING / 2
    if number == PIECES - 1:
        return [mpf(1), *[mpf(0)] * DEGREE]
    if number == 0:
        quotient = Fit("", "", lambda r: mp.erf(r) / r - 1, lambda r: r / mp.erf(r), TINY, reach, DEGREE, True, 121)
        return [mpf(0), *quotient.coefficients()[0]]
    around = Fit(
        "", "", lambda r: mp.erf(centre + r), lambda r: 1 / mp.erf(centre + r), -reach, reach, DEGREE + 1, True, 121
    )
    return around.coefficients()[0]


GELU_SPACING, GELU_DEGREE = mpf(95) / 512, 2
"""Of the distance from GELU to the positive part. The last piece begins at 5.66, from where it rounds to 0 beside 1."""


def below_positive_part(a: Number) -> Number:
    """max(x, 0) - gelu(x), which depends on a = |x| alone."""
    return a * mp.erfc(a / mp.sqrt(2)) / 2


def below_positive_part_by_tanh(a: Number) -> Number:
    """The same for GELU by tanh."""
    return a / (1 + mp.exp(2 * mp.sqrt(2 / mp.pi) * (a + mpf("0.044715") * a**3)))


def gelu_piece(distance: Real, number: int) -> list[Number]:
    """The coefficients of the distance in a around number * GELU_SPACING, lowest power first. The first constant is 0, so that
    the relative error is small."""
    low, high = (mpf(number) + side * mpf("0.5") for side in (-1, 1))
    low, high = max(TINY, low * GELU_SPACING), high * GELU_SPACING
    if number == PIECES - 1:
        return [mpf(0)] * (GELU_DEGREE + 1)
    if number == 0:
        quotient = Fit("", "", lambda a: distance(a) / a, lambda a: a / distance(a), low, high, GELU_DEGREE, True, 121)
        return [mpf(0), *quotient.coefficients()[0]]
    return Fit("", "", distance, lambda a: 1 / distance(a), low, high, GELU_DEGREE + 1, True, 121).coefficients()[0]


def print_pieces() -> None:
    print(
        "\n# erf around k times the spacing, in the distance r from there, for k from 0 to 31: the coefficients of each power."
    )
    print("# The first ones are those of erf(r) - r. The last ones are those of 1.")
    print(f"ERF_SPACING = {float(SPACING)!r}")
    print_powers("ERF_PIECES", erf_piece)
    print("\n# max(x, 0) - gelu(x) in |x| around k times the spacing, for bfloat16 results: by erf and by tanh.")
    print(f"GELU_SPACING = {float(GELU_SPACING)!r}")
    print_powers("GELU_PIECES", partial(gelu_piece, below_positive_part))
    print_powers("GELU_BY_TANH_PIECES", partial(gelu_piece, below_positive_part_by_tanh))


def print_powers(name: str, piece: Callable[[int], list[Number]]) -> None:
    """For each power, its coefficients in all pieces."""
    print(f"{name} = (")
    for power in zip(*map(piece, range(PIECES)), strict=True):
        print("    (")
        for value in power:
            print(f"        {float(value)!r},")
        print("    ),")
    print(")")


def main() -> None:
    print('"""Polynomial coefficients by element type, lowest power first. Written by `fit.py`; not edited by hand."""')
    tables: dict[str, list[Fit]] = {}
    for single in (True, False):
        for fit in fits(single):
            tables.setdefault(fit.name, []).append(fit)
    for name, both in tables.items():
        print(f"\n# {both[0].doc}")
        print(f"{name} = {{")
        for fit in both:
            values, error = fit.coefficients()
            print(f"    # error 2^{mp.nstr(mp.log(error, 2), 3)}")
            print(f'    "{"f32" if fit.single else "f64"}": (')
            for value in values:
                print(f"        {float(value)!r},")
            print("    ),")
        print("}")
    print_pieces()


if __name__ == "__main__":
    main()
