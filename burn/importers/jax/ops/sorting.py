"""Sorts and the largest elements."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.compose import convert, transpose
from burn.dialect.deferred import Value
from burn.dialect.types import type_of
from burn.importers.jax.equation import Equation, primitive
from burn.importers.lax.scalars import kind_of
from burn.importers.lax.sort import Key
from burn.importers.lax.sort import sort as sorted_
from burn.importers.lax.sort import top_k as largest


@primitive("sort")
def sort(eqn: Equation, *xs: Value, dimension: int, num_keys: int, is_stable: bool) -> list[Value]:
    return sorted_(xs, dimension, [Key(i) for i in range(num_keys)])


@primitive("top_k")
def top_k(eqn: Equation, x: Value, *, k: Any, axis: int = -1) -> list[Value]:
    return _along(eqn, x, axis, eqn.sizes((k,))[0])


@primitive("approx_top_k")
def approx_top_k(
    eqn: Equation,
    x: Value,
    *,
    k: Any,
    reduction_dimension: int,
    is_max_k: bool,
    recall_target: float,
    reduction_input_size_override: int,
    aggregate_to_topk: bool,
) -> list[Value]:
    """Exact, as JAX on CPUs."""
    if not is_max_k:
        mirrored = ops.neg(x) if kind_of(x) == "float" else ops.not_(x)
        values, indices = _along(eqn, mirrored, reduction_dimension, eqn.sizes((k,))[0])
        return [ops.neg(values) if kind_of(x) == "float" else ops.not_(values), indices]
    return _along(eqn, x, reduction_dimension, eqn.sizes((k,))[0])


def _along(eqn: Equation, x: Value, axis: int, k: Any) -> list[Value]:
    rank = type_of(x).rank
    axis %= rank
    order = (*(i for i in range(rank) if i != axis), axis)
    back = tuple(order.index(i) for i in range(rank))
    values, indices = largest(transpose(x, order), k)
    return [transpose(values, back), transpose(convert(indices, "int32"), back)]
