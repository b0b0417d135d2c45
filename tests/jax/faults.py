"""Numbers that JAX gives otherwise, where numpy decides for burn or there is no order of reduction. Enter at `fault`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.jax.accuracy import CONDITION, equations, near, size, wide

if TYPE_CHECKING:
    from tests.jax.case import Case

ULPS = 64.0
"""Allowed distance from numpy."""
ORDERED = frozenset(
    (
        "reduce_min",
        "reduce_max",
        "cummin",
        "cummax",
        "reduce_window_min",
        "reduce_window_max",
        "reduce",
        "reduce_window",
    )
)


def fault(case: Case, want: Any, have: Any, right: Any) -> str:
    """Why JAX's result is not taken where `right` is false; "" if no rule says so."""
    with np.errstate(all="ignore"):
        return next((reason for rule, reason in RULES.items() if rule(case, want, have, right)), "")


def _by_numpy(case: Case, want: Any, have: Any, right: Any) -> bool:
    """A function of elements that numpy has too: numpy's in long double."""
    module, _, name = case.name.rpartition(".")
    if module != "jnp" or case.of or case.function is not getattr(jnp, name, None) or not hasattr(np, name):
        return False
    if any(x.dtype.kind not in "fc" for x in case.operands) or not jnp.issubdtype(want.dtype, jnp.inexact):
        return False
    eps, draws = float(jnp.finfo(want.dtype).eps), np.random.default_rng(0)

    def result(operands: Any) -> Any:
        found = np.asarray(getattr(np, name)(*(x.astype(np.result_type(x.dtype, np.longdouble)) for x in operands)))
        return found.astype(np.complex128 if found.dtype.kind == "c" else np.float64)

    def moved(x: Any) -> Any:
        def part(x: Any) -> Any:
            return x.astype(np.longdouble) * (1 + eps / 2 * draws.choice([-1.0, 1.0], x.shape))

        return part(x.real) + 1j * part(x.imag) if np.iscomplexobj(x) else part(x)

    try:
        exact = result(case.operands)
    except TypeError:  # numpy does not take complex numbers in every function that JAX does
        return False
    changes = [np.abs(result([moved(x) for x in case.operands]) - exact) for _ in range(3)]
    change = np.max([np.where(np.isfinite(c), c, 0) for c in changes], axis=0)
    return bool(np.all(right | near(exact, wide(have), ULPS * eps * size(exact) + CONDITION * change)))


def _of_unit_size(case: Case, want: Any, have: Any, right: Any) -> bool:
    """The angle of complex numbers, -i log((x + iy) / sqrt(x^2 + y^2)): the quotient has ulps of 1 in JAX as in burn."""
    if case.of or case.name not in ("jnp.arctan2", "jnp.atan2", "lax.atan2") or not np.iscomplexobj(want):
        return False
    return bool(np.all(right | (np.abs(wide(have) - wide(want)) <= 8 * float(jnp.finfo(want.dtype).eps))))


def _in_no_order(case: Case, want: Any, have: Any, right: Any) -> bool:
    """The largest or smallest complex number where one is NaN."""
    if not any(np.iscomplexobj(x) and np.isnan(x).any() for x in case.operands):
        return False
    with jax.enable_x64(case.x64):
        program = jax.make_jaxpr(case.function)(*case.operands)
    return any(
        eqn.primitive.name in ORDERED and any(jnp.issubdtype(v.aval.dtype, jnp.complexfloating) for v in eqn.invars)
        for eqn in equations(program.jaxpr)
    )


RULES: dict[Callable[[Case, Any, Any, Any], bool], str] = {
    _by_numpy: "numpy gives burn's number in long double",
    _of_unit_size: "both have the error of a logarithm near 1",
    _in_no_order: "XLA compares parts, NaN is neither more nor less, and the result depends on the order of the reduction",
}
