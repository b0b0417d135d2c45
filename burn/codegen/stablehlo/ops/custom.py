"""Custom ops that have no body of burn functions. StableHLO's text has none (`emitter.refused`); JAX has a primitive for them."""

from __future__ import annotations

from burn.codegen.stablehlo.builder import Value
from burn.codegen.stablehlo.emitter import Site, emits


@emits("custom")
def custom(site: Site) -> list[Value]:
    operands = [site.x(index) for index in range(len(site.op.operation.operands))]
    return site.b.custom(site.op.definition, site.op.settings, operands)
