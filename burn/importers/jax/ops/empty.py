"""Results of operations on matrices without elements."""

from __future__ import annotations

from burn.dialect.deferred import Value
from burn.importers.jax.equation import Equation
from burn.importers.lax.scalars import full, is_empty


def empty(eqn: Equation) -> list[Value] | None:
    """The results if they have no elements, or depend on none."""
    if any(is_empty(eqn.evaluator.sizes.shape(v.aval.shape)) for v in eqn.eqn.invars):
        return [full(eqn.type_of(v.aval), 0) for v in eqn.eqn.outvars]
    return None
