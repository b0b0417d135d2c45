"""Slices, gathers and scatters at positions that the data give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import number
from burn.dialect.deferred import Value
from burn.dialect.types import type_of
from burn.importers.jax.equation import Equation, primitive
from burn.importers.lax import slicing
from burn.importers.lax.gather import Addressing
from burn.importers.lax.gather import gather as gathered
from burn.importers.lax.gather import scatter as scattered


@primitive("dynamic_slice")
def dynamic_slice(eqn: Equation, x: Value, *starts: Value, slice_sizes: Any) -> Value:
    words = eqn.key_axes()
    firsts = (*starts[: len(slice_sizes)], *(number(0, "int32") for _ in words))
    return slicing.dynamic_slice(x, firsts, (*eqn.sizes(slice_sizes), *words))


@primitive("dynamic_update_slice")
def dynamic_update_slice(eqn: Equation, x: Value, update: Value, *starts: Value) -> Value:
    firsts = (*starts, *(number(0, "int32") for _ in eqn.key_axes()))
    return slicing.dynamic_update_slice(x, update, firsts)


# ---- gather and scatter ------------------------------------------------------------------------------------------------------
READS = {"CLIP": "clip", "FILL_OR_DROP": "fill", "PROMISE_IN_BOUNDS": "clip", "ONE_HOT": "fill"}
WRITES = {"CLIP": "clip", "FILL_OR_DROP": "fill", "PROMISE_IN_BOUNDS": "fill"}
"""How indices out of range are treated. A promise that there are none is not relied on: XLA clamps such reads, and drops such
writes."""


def _mode(eqn: Equation, mode: Any, modes: Mapping[str, str]) -> str:
    name = getattr(mode, "name", str(mode))
    if name not in modes:
        eqn.fail(f"the mode {name} is not supported")
    return modes[name]


@primitive("gather")
def gather(
    eqn: Equation, x: Value, indices: Value, *, dimension_numbers: Any, slice_sizes: Any, mode: Any, fill_value: Any
) -> Value:
    words, numbers = eqn.key_axes(), dimension_numbers
    rank = len(eqn.aval().shape)
    offset = (*numbers.offset_dims, *range(rank, rank + len(words)))
    how = Addressing(
        tuple(offset),
        tuple(numbers.collapsed_slice_dims),
        tuple(numbers.start_index_map),
        type_of(indices).rank - 1,
        tuple(numbers.operand_batching_dims),
        tuple(numbers.start_indices_batching_dims),
    )
    fill = None if fill_value is None else number(fill_value, type_of(x).dtype)
    return gathered(x, indices, how, (*eqn.sizes(slice_sizes), *words), _mode(eqn, mode, READS), fill)


REDUCTIONS = {
    "scatter": "none",
    "scatter-add": "add",
    "scatter-sub": "add",
    "scatter-mul": "mul",
    "scatter-min": "min",
    "scatter-max": "max",
}


@primitive(*REDUCTIONS)
def scatter(
    eqn: Equation,
    x: Value,
    indices: Value,
    updates: Value,
    *,
    dimension_numbers: Any,
    mode: Any,
    update_jaxpr: Any,
    update_consts: Any,
) -> Value:
    if eqn.op == "scatter-sub":
        updates = ops.neg(updates)

    def by_jaxpr(a: Value, b: Value) -> Value:
        return eqn.elementwise(update_jaxpr, [a, b], update_consts)[0]

    own = eqn.op == "scatter" and update_jaxpr is not None and not takes_the_update(update_jaxpr)
    reduction: Any = by_jaxpr if own else REDUCTIONS[eqn.op]
    return scattered_with(eqn, x, indices, updates, eqn.key_axes(), reduction, dimension_numbers, mode)


def scattered_with(
    eqn: Equation,
    x: Value,
    indices: Value,
    updates: Value,
    further: tuple[int, ...],
    reduction: Any,
    numbers: Any,
    mode: Any,
) -> Value:
    """A scatter by a function of (element, update), or by the name of one. further: sizes of axes after those of JAX's types."""
    rank = len(eqn.operand(2).shape)
    how = Addressing(
        (*numbers.update_window_dims, *range(rank, rank + len(further))),
        tuple(numbers.inserted_window_dims),
        tuple(numbers.scatter_dims_to_operand_dims),
        type_of(indices).rank - 1,
        tuple(numbers.operand_batching_dims),
        tuple(numbers.scatter_indices_batching_dims),
    )
    return scattered(x, indices, updates, how, reduction, _mode(eqn, mode, WRITES), whole=True)


def takes_the_update(jaxpr: Any) -> bool:
    """True if a scatter's function of (element, update) is the update."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    return not jaxpr.eqns and jaxpr.outvars[0] is jaxpr.invars[1]
