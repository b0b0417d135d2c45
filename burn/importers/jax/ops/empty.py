"""Results of operations on matrices without elements."""

from __future__ import annotations

from typing import Any

from burn.importers.jax.complexes import zeros
from burn.importers.jax.equation import Equation
from burn.importers.lax.scalars import is_empty


def empty(eqn: Equation) -> list[Any] | None:
    """The results if they have no elements, or depend on none."""
    if any(is_empty(eqn.evaluator.sizes.shape(v.aval.shape)) for v in eqn.eqn.invars):
        return [zeros(eqn, v.aval) for v in eqn.eqn.outvars]
    return None
