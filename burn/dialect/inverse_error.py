"""The inverse error function, and the normal distribution's inverse, in float64.

M. Giles' polynomials ("Approximating the erfinv function", GPU Computing Gems, 2011, chapter 10) in w = -log(1 - x^2), and in its
square root in the tails. The error is at most 2e-15 of the value; that of the normal distribution's inverse is 1e-14.
"""

from __future__ import annotations

import math

from burn.dialect import ops
from burn.dialect.compose import number_like as _number
from burn.dialect.deferred import Value
from burn.dialect.resize import polynomial
from burn.dialect.special import erfcx, narrow

CENTRE = (-3.6444120640178197e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18, 1.115787767802518096e-17)
CENTRE = (*CENTRE, -1.333171662854620906e-16, 2.0972767875968561637e-17, 6.6376381343583238325e-15)
CENTRE = (*CENTRE, -4.0545662729752068639e-14, -8.1519341976054721522e-14, 2.6335093153082322977e-12)
CENTRE = (*CENTRE, -1.2975133253453532498e-11, -5.4154120542946279317e-11, 1.051212273321532285e-09)
CENTRE = (*CENTRE, -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07)
CENTRE = (*CENTRE, -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352)
CENTRE = (*CENTRE, -0.00074070253416626697512, -0.0060336708714301490533, 0.24015818242558961693)
CENTRE = (*CENTRE, 1.6536545626831027356)
"""erfinv(x) / x up to w = 6.25, as powers of w - 3.125, the highest first."""
MIDDLE = (2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08)
MIDDLE = (*MIDDLE, 1.5027403968909827627e-06, -4.013867526981545969e-06, 2.9234449089955446044e-06)
MIDDLE = (*MIDDLE, 1.2475304481671778723e-05, -4.7318229009055733981e-05, 6.8284851459573175448e-05)
MIDDLE = (*MIDDLE, 2.4031110387097893999e-05, -0.0003550375203628474796, 0.00095328937973738049703)
MIDDLE = (*MIDDLE, -0.0016882755560235047313, 0.0024914420961078508066, -0.0037512085075692412107)
MIDDLE = (*MIDDLE, 0.005370914553590063617, 1.0052589676941592334, 3.0838856104922207635)
"""The same up to w = 16, as powers of sqrt(w) - 3.25."""
FAR = (-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09, -3.7894654401267369937e-09)
FAR = (*FAR, 7.6157012080783393804e-09, -1.4960026627149240478e-08, 2.9147953450901080826e-08)
FAR = (*FAR, -6.7711997758452339498e-08, 2.2900482228026654717e-07, -9.9298272942317002539e-07)
FAR = (*FAR, 4.5260625972231537039e-06, -1.9681778105531670567e-05, 7.5995277030017761139e-05)
FAR = (*FAR, -0.00021503011930044477347, -0.00013871931833623122026, 1.0103004648645343977, 4.8499064014085844221)
"""The same up to the last number below 1, as powers of sqrt(w) - 5."""

NARROW_CENTRE = (6.98368073027241e-10, -4.607646506609786e-09, -2.565287673703275e-08, 4.2566279061253253e-07)
NARROW_CENTRE = (*NARROW_CENTRE, -1.37997428444425e-06, -1.388701969759071e-05, 0.0001867594022172336)
NARROW_CENTRE = (*NARROW_CENTRE, -0.0007406987085144557, -0.006033683153015207, 0.24015818130870092, 1.6536545626831027)
NARROW_MIDDLE = (-0.0002696583309165913, 0.0009413204033573106, -0.0017191089428599863, 0.002499769005561899)
NARROW_MIDDLE = (*NARROW_MIDDLE, -0.0037477055004574334, 0.0053697962862446595, 1.0052589060074881, 3.083885630738798)
"""The first two for float32, interpolated at Chebyshev's points: errors of 2e-8 and 4e-8."""

BEYOND = 36.0
TAIL = (-17213399.835470006, 2508326.516042992, -92287.99065187384, 10600.095788170145, -3066.170131244878)
TAIL = (*TAIL, 503.05372014387956, -83.17978332885131, 16.262498741147333, -4.203227508897908, 1.6380331992668338)
TAIL = (*TAIL, -0.3498085570206369, -0.1690870262459151, 0.9890609132576188)
"""erfinv(x) / sqrt(w) from w = 36 to 770, for the normal distribution's inverse, as powers of 1 / sqrt(w) - 0.1: an error of
3e-11."""


def erfinv(x: Value) -> Value:
    """The y with erf(y) = x: infinite at -1 and 1, NaN beyond."""
    return _inverse(x, ops.sub(_number(1.0, x), ops.abs(x)), (CENTRE, MIDDLE, FAR))


@narrow(erfinv, "float32")
def _narrow_erfinv(x: Value) -> Value:
    """With an error of at most 3 ULP."""
    return _inverse(x, ops.sub(_number(1.0, x), ops.abs(x)), (NARROW_CENTRE, NARROW_MIDDLE))


def ndtri(x: Value) -> Value:
    """The inverse of the normal distribution's cumulative function: sqrt(2) erfinv(2 x - 1)."""
    one, two = _number(1.0, x), _number(2.0, x)
    rest = ops.mul(ops.min(x, ops.sub(one, x)), two)
    y = _inverse(ops.sub(ops.mul(x, two), one), rest, (CENTRE, MIDDLE, FAR))
    tail = _erfc_inverse(rest)
    tail = ops.select(ops.lt(x, _number(0.5, x)), ops.neg(tail), tail)
    inside = ops.and_(ops.gt(rest, _number(0.0, x)), ops.lt(rest, _number(math.exp(-BEYOND), x)))
    return ops.mul(ops.select(inside, tail, y), _number(math.sqrt(2), x))


@narrow(ndtri, "float64")
def _narrow_ndtri(x: Value) -> Value:
    """With an error of at most 2 ULP of float32."""
    one, two = _number(1.0, x), _number(2.0, x)
    rest = ops.mul(ops.min(x, ops.sub(one, x)), two)
    sign = ops.sub(ops.mul(x, two), one)
    y = _inverse(sign, rest, (NARROW_CENTRE, NARROW_MIDDLE, FAR))
    root = ops.sqrt(ops.neg(ops.log(ops.mul(rest, ops.sub(two, rest)))))
    tail = ops.mul(ops.mul(root, sign), polynomial(ops.sub(ops.reciprocal(root), _number(0.1, x)), *TAIL))
    inside = ops.and_(ops.gt(rest, _number(0.0, x)), ops.lt(rest, _number(math.exp(-BEYOND), x)))
    return ops.mul(ops.select(inside, tail, y), _number(math.sqrt(2), x))


def _inverse(x: Value, rest: Value, polynomials: tuple[tuple[float, ...], ...]) -> Value:
    """erfinv(x), with rest = 1 - |x| where that is small. The last polynomial is used to the end."""
    w = ops.neg(ops.log(ops.mul(rest, ops.sub(_number(2.0, x), rest))))
    root = ops.sqrt(w)
    y = polynomial(ops.sub(w, _number(3.125, x)), *polynomials[0])
    for low, centre, coefficients in zip((6.25, 16.0), (3.25, 5.0), polynomials[1:], strict=False):
        y = ops.select(ops.lt(w, _number(low, x)), y, polynomial(ops.sub(root, _number(centre, x)), *coefficients))
    return ops.select(ops.eq(rest, _number(0.0, x)), ops.mul(x, _number(math.inf, x)), ops.mul(x, y))


def _erfc_inverse(c: Value) -> Value:
    """The y with erfc(y) = c, for 0 < c < exp(-BEYOND): one of Newton's steps for the logarithms, which lose no digits."""
    goal = ops.log(ops.min(c, _number(math.exp(-BEYOND), c)))
    root = ops.sqrt(ops.neg(ops.add(goal, _number(math.log(2.0), c))))  # 1 - x^2 is 2 c here
    y = ops.mul(root, polynomial(ops.sub(ops.reciprocal(root), _number(0.1, c)), *TAIL))
    scaled = erfcx(y)
    missing = ops.sub(ops.sub(ops.log(scaled), ops.mul(y, y)), goal)
    return ops.add(y, ops.mul(ops.mul(scaled, missing), _number(math.sqrt(math.pi) / 2, c)))
