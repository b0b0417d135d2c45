"""Special functions. Those that JAX itself writes with other primitives are expanded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax._src.lax import special as jax_special

from burn.dialect import inverse_error, ops, special
from burn.dialect.compose import number_like, where
from burn.dialect.deferred import Value
from burn.importers.jax.equation import Equation, primitive


def _digamma(x: Value) -> Value:
    """At 0 and -0 JAX has NaN before 0.11, and -inf in later versions."""
    at_zero = -math.inf if jax.__version_info__ >= (0, 11) else math.nan
    return where(ops.ne(x, number_like(0.0, x)), special.digamma(x), at_zero)


UNARY: dict[str, Callable[[Value], Value]] = {
    "erf": lambda x: ops.erf(x),
    "erfc": special.rounded(special.erfc),
    "erf_inv": special.rounded(inverse_error.erfinv),
    "lgamma": special.rounded(special.lgamma),
    "digamma": special.rounded(_digamma),
    "bessel_i0e": special.rounded(special.scaled_bessel(0)),
    "bessel_i1e": special.rounded(special.scaled_bessel(1)),
}
for _name, _function in UNARY.items():
    primitive(_name)(lambda eqn, x, function=_function: function(x))


@primitive("zeta")
def zeta(eqn: Equation, s: Value, q: Value) -> Value:
    return special.zeta_of_xla(s, q)


@primitive("polygamma")
def polygamma(eqn: Equation, n: Value, x: Value) -> list[Value]:
    """Half precision is computed in float32, as in XLA: the factorial overflows early."""

    def function(n: Any, x: Any) -> Any:
        sign = 1.0 - 2.0 * lax.rem(n + 1, lax.full_like(n, 2))
        derivative = sign * lax.exp(lax.lgamma(n + 1.0)) * lax.zeta(n + 1.0, x)
        return lax.select(n == 0, lax.digamma(x), derivative)

    return eqn.expand(lambda n, x: _in_wide(lambda n, x, dtype: function(n, x), n, x), n, x)


EXPANDED: dict[str, Callable[..., Any]] = {
    "igamma": jax_special.igamma_impl,
    "igammac": jax_special.igammac_impl,
    "igamma_grad_a": jax_special.igamma_grad_a_impl,
    "random_gamma_grad": jax_special.random_gamma_grad_impl,
    "regularized_incomplete_beta": jax_special.regularized_incomplete_beta_impl,
}


def _expanded(function: Callable[..., Any]) -> Callable[..., Any]:
    def rule(eqn: Equation, *operands: Value) -> Any:
        return eqn.expand(lambda *xs: _in_wide(function, *xs), *operands)

    return rule


def _in_wide(function: Callable[..., Any], *xs: Any) -> Any:
    """Half precision is computed in float32."""
    dtype = xs[0].dtype
    wide = jax.numpy.float32 if dtype.itemsize < 4 else dtype
    xs = jax.numpy.broadcast_arrays(*(lax.convert_element_type(x, wide) for x in xs))
    return lax.convert_element_type(function(*xs, dtype=wide), dtype)


for _name, _many in EXPANDED.items():
    primitive(_name)(_expanded(_many))
