"""Reductions, indices of extremes, and running reductions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from jax import lax

from burn.dialect.deferred import Value
from burn.importers.jax.dtypes import dtype_name
from burn.importers.jax.equation import Equation, primitive
from burn.importers.lax import reduction

KINDS = {
    "reduce_sum": "sum",
    "reduce_prod": "prod",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
}


@primitive(*KINDS)
def reduce_(eqn: Equation, x: Value, *, axes: Sequence[int], out_sharding: Any = None) -> Value:
    return reduction.reduce(x, KINDS[eqn.op], axes)


COLLECTIVES = {"psum": "sum", "pmax": "max", "pmin": "min"}


@primitive(*COLLECTIVES)
def over_mapped_axes(eqn: Equation, *xs: Value, axes: Sequence[Any], axis_index_groups: Any = None) -> list[Value]:
    """Collectives over the axis of a `jax.vmap`, such as the batch statistics of Equinox: the axes are numbers then."""
    if not all(isinstance(axis, int) for axis in axes):
        eqn.fail("it communicates between devices", "import the function of one device")
    return [reduction.reduce(x, COLLECTIVES[eqn.op], axes) for x in xs]


@primitive("reduce")
def reduce_with(eqn: Equation, *operands: Value, computation: Any, jaxpr: Any, dimensions: Sequence[int]) -> Any:
    """By a function of the user's, which the jaxpr is of scalars."""
    count = len(operands) // 2
    xs, starts = operands[:count], operands[count:]
    return reduction.reduce_with(xs, starts, dimensions, lambda a, b: eqn.elementwise(jaxpr, [*a, *b]))


@primitive("argmax", "argmin")
def arg_extreme(eqn: Equation, x: Value, *, axes: Sequence[int], index_dtype: Any) -> Value:
    (axis,) = axes
    return reduction.arg_extreme(x, eqn.op.removeprefix("arg"), axis, dtype_name(index_dtype))


@primitive("cumsum", "cumprod", "cummax", "cummin")
def cumulative(eqn: Equation, x: Value, *, axis: int, reverse: bool) -> Value:
    return reduction.cumulative(x, eqn.op.removeprefix("cum"), axis, reverse)


@primitive("cumlogsumexp")
def cumlogsumexp(eqn: Equation, x: Value, *, axis: int, reverse: bool) -> Any:
    return eqn.expand(partial(lax.associative_scan, _log_add_exp, axis=axis, reverse=reverse), x)


def _log_add_exp(a: Any, b: Any) -> Any:
    from jax import numpy as jnp

    return jnp.logaddexp(a, b)
