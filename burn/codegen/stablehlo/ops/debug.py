"""Checks of `burn.debug.nans`."""

from __future__ import annotations

from burn.codegen.stablehlo.builder import Value
from burn.codegen.stablehlo.elements import highest, is_float
from burn.codegen.stablehlo.emitter import Site, emits
from burn.dialect.dims import product
from burn.runtime.abi import Status


@emits("check_finite")
def check_finite(site: Site) -> None:
    """Fails with the index of the first NaN (or infinity) among the made values."""
    b, op = site.b, site.op
    if not site.emission.checks:
        return
    firsts = [_first(site, i) for i in range(len(op.operation.operands))]
    none = b.scalar(highest("int64"), "int64")
    first, clean = none, b.scalar(True, "bool")
    for number, found in enumerate(firsts):
        if number < op.made:
            first = b.select(b.compare("EQ", first, none), found, first)
        else:
            clean = b.and_(clean, b.compare("EQ", found, none))
    bad = b.and_(clean, b.compare("NE", first, none))
    site.emission.check(Status.NOT_FINITE, op, bad, first)


def _first(site: Site, which: int) -> Value:
    b, x = site.b, site.x(which)
    none = highest("int64")
    if not is_float(b.dtype_of(x)):
        return b.scalar(none, "int64")
    total = product(b.shape_of(x))
    x = b.reshape(x, (total,))
    odd = b.is_nan(x)
    if site.op.infinite:
        odd = b.or_(odd, b.compare("EQ", b.unary("abs", x), b.like(float("inf"), x)))
    index = b.iota((total,), 0, "int64")
    return b.reduce("minimum", b.select(odd, index, b.like(none, index)), none, [0])
