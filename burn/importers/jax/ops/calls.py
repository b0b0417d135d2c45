"""Calls of other jaxprs: jit, custom derivatives, checkpoints. All are built in line.

The evaluator builds the value of a function. Derivatives that the user gave are JAX's business: `differentiated`
(burn/importers/jax/tracing.py) has them in the jaxpr of the derivative.
"""

from __future__ import annotations

from typing import Any

import jax

from burn.dialect import ops
from burn.dialect.complexes.pair import Complex, leaves, rebuilt
from burn.dialect.deferred import Value
from burn.importers.jax.equation import SKIPPED, Equation, primitive


@primitive("jit", "pjit", "closed_call", "core_call", "call", "xla_call", "eval_jaxpr")
def call(eqn: Equation, *operands: Value, **params: Any) -> list[Value]:
    return eqn.inner(params.get("jaxpr") or params["call_jaxpr"], operands)


@primitive("custom_jvp_call", "custom_vjp_call", "custom_vmap_call")
def custom(eqn: Equation, *operands: Value, **params: Any) -> list[Value]:
    return eqn.inner(params.get("call_jaxpr") or params.get("call") or params["jaxpr"], operands)


@primitive("remat_opt")
def remat_opt(eqn: Equation, *operands: Value, fwd_jaxpr: Any, **params: Any) -> list[Value]:
    return eqn.inner(fwd_jaxpr, operands)


@primitive("composite")
def composite(eqn: Equation, *operands: Value, **params: Any) -> list[Value]:
    return eqn.inner(params.get("call_jaxpr") or params["jaxpr"], operands)


@primitive("call_hi_primitive")
def call_hi_primitive(eqn: Equation, *operands: Value, _prim: Any) -> list[Value]:
    """A primitive that JAX writes in others (`HiPrim`, JAX 0.11): custom_root is one."""

    def function(*xs: Any) -> list[Any]:
        return jax.tree.leaves(_prim.expand(*jax.tree.unflatten(_prim.in_tree, xs)))

    return eqn.expand(function, *operands)


@primitive("custom_lin")
def custom_lin(eqn: Equation, *operands: Value, **params: Any) -> list[Value]:
    eqn.fail("forward-mode differentiation of a function with custom_vjp is not defined")


@primitive("remat2", "checkpoint", "remat")
def checkpoint(eqn: Equation, *operands: Value, jaxpr: Any, prevent_cse: Any, differentiated: bool, policy: Any) -> Any:
    """In a backward pass the body is computed again, after the cotangents are there."""
    if differentiated and _any(prevent_cse) and operands:
        *before, after = leaves(operands)
        held = [*(ops.barrier(x, after) for x in before), after]
        operands = tuple(rebuilt(held, [isinstance(x, Complex) for x in operands]))
    return eqn.evaluator.open(jaxpr, [], operands, eqn.name)


def _any(flags: Any) -> bool:
    return any(flags) if isinstance(flags, tuple) else bool(flags)


@primitive("custom_linear_solve")
def custom_linear_solve(eqn: Equation, *operands: Value, const_lengths: Any, jaxprs: Any) -> list[Value]:
    """By the function that solves; those of its derivatives are JAX's business."""
    lengths = list(const_lengths)
    start = sum(lengths[: list(const_lengths._fields).index("solve")])
    consts = operands[start : start + const_lengths.solve]
    return eqn.inner(jaxprs.solve, [*consts, *operands[sum(lengths) :]])


@primitive("linear_call")
def linear_call(eqn: Equation, *operands: Value, callee: Any, transpose: Any, **params: Any) -> list[Value]:
    return eqn.inner(callee, operands)


@primitive("optimization_barrier")
def optimization_barrier(eqn: Equation, *operands: Value) -> list[Value]:
    return list(operands)


@primitive("device_put")
def device_put(eqn: Equation, *operands: Value, **params: Any) -> list[Value]:
    """One device: arrays stay where they are."""
    return list(operands)


@primitive(
    "sharding_constraint",
    "layout_constraint",
    "with_memory_space_constraint",
    "reduced_vary_cast_p",
    "vary_unreduced_cast_p",
    "reshard",
    "name",
)
def unchanged(eqn: Equation, x: Value, **params: Any) -> Value:
    """On one device there is nothing to constrain."""
    return x


@primitive("tie", "tie_in")
def tie(eqn: Equation, *operands: Value) -> Any:
    return operands[-1]


SKIPPED.update(
    dict.fromkeys(
        ("custom_jvp_call", "custom_vjp_call", "custom_vmap_call"),
        frozenset({"fwd", "bwd", "jvp_jaxpr_fun", "jvp_fun"}),
    )
)
SKIPPED["linear_call"] = frozenset({"transpose"})
