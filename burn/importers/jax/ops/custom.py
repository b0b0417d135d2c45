"""Custom ops that are bound to JAX (`CustomOp.jax`), and their derivatives."""

from __future__ import annotations

from burn.dialect import custom
from burn.dialect.compose import zeros_like
from burn.dialect.deferred import Value
from burn.dialect.types import FLOATS, type_of
from burn.importers.jax.equation import Equation, primitive


@primitive("burn_custom")
def forward(eqn: Equation, *operands: Value, called: str, key: str, settings: str) -> list[Value]:
    return custom.build(custom.version(called, key), operands, custom.decoded(settings))


@primitive("burn_custom_backward")
def backward(eqn: Equation, *values: Value, operands: int, called: str, key: str, settings: str) -> list[Value]:
    """The cotangents of the operands that are floats."""
    definition, complete = custom.version(called, key), custom.decoded(settings)
    given = values[:operands]
    count = len(definition.infer([type_of(x) for x in given], complete))
    results, rest = values[operands : operands + count], iter(values[operands + count :])
    cotangents = [next(rest) if type_of(y).dtype in FLOATS else None for y in results]
    found = definition.transposed(given, results, cotangents, complete)
    return [zeros_like(x) if g is None else g for g, x in zip(found, given, strict=True) if type_of(x).dtype in FLOATS]
