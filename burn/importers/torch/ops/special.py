"""Special functions: burn.dialect.special has them, computed in float64 and rounded once."""

from __future__ import annotations

from collections.abc import Callable

from burn.dialect import inverse_error, special
from burn.dialect.compose import convert
from burn.dialect.mlir import ir
from burn.importers.torch.node import Node, aten


def _double(function: Callable[[ir.Value], ir.Value]) -> Callable[[Node, ir.Value], ir.Value]:
    def build(node: Node, x: ir.Value) -> ir.Value:
        return special.computed(function, x, node.dtype)

    return build


@aten("zeta.default", namespace="prims")
def zeta(node: Node, s: ir.Value, q: ir.Value) -> ir.Value:
    return node.as_result(special.zeta(convert(s, "float64"), convert(q, "float64")))


@aten("polygamma.default")
def polygamma(node: Node, n: int, x: ir.Value) -> ir.Value:
    return node.as_result(special.polygamma(n, convert(x, "float64")))


PRIMS = {
    "erfcx": special.erfcx,
    "lgamma": special.lgamma,
    "digamma": special.digamma,
    "erf_inv": inverse_error.erfinv,
    "ndtri": inverse_error.ndtri,
    "cbrt": special.cbrt,
    "bessel_i0": special.bessel(0),
    "bessel_i1": special.bessel(1),
    "bessel_i0e": special.scaled_bessel(0),
    "bessel_i1e": special.scaled_bessel(1),
}
ATEN = {
    "lgamma": special.lgamma,
    "digamma": special.digamma,
    "erfinv": inverse_error.erfinv,
    "special_ndtri": inverse_error.ndtri,
    "special_modified_bessel_i0": special.bessel(0),
    "special_modified_bessel_i1": special.bessel(1),
}
for _name, _function in PRIMS.items():
    aten(f"{_name}.default", namespace="prims")(_double(_function))
for _name, _function in ATEN.items():
    aten(f"{_name}.default")(_double(_function))
