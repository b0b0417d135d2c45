"""Control flow, derivatives of the user's own, and transformations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.jax.case import Case
from tests.jax.draw import Draw
from tests.jax.families import entered


@jax.custom_vjp
def clipped(x: Any) -> Any:
    return jnp.sin(x)


clipped.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (jnp.clip(g * x, -0.5, 0.5),))


@jax.custom_jvp
def softened(x: Any) -> Any:
    return jnp.abs(x)


@softened.defjvp
def _softened(primals: Any, tangents: Any) -> Any:
    return softened(*primals), tangents[0] * jnp.tanh(primals[0])


@partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
def block(x: Any) -> Any:
    return jnp.sin(x @ x.T @ x)


def _newton(x: Any) -> Any:
    return lax.custom_root(
        lambda y: y**3 + y - x,
        x,
        lambda f, y: lax.fori_loop(0, 30, lambda i, y: y - f(y) / (3 * y**2 + 1), y),
        lambda g, y: y / g(1.0),
    )


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda x: lax.scan(lambda c, r: (c * 0.5 + r, jnp.sin(c)), jnp.zeros(x.shape[1]), x),
    "scan_reverse": lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c), jnp.zeros(x.shape[1]), x, reverse=True),
    "scan_nothing": lambda x: lax.scan(lambda c, _: (c * 0.9, None), x, None, length=4)[0],
    "scan_unrolled": lambda x: lax.scan(lambda c, r: (c + r, c), jnp.zeros(x.shape[1]), x, unroll=2),
    "scan_pytree": lambda x: lax.scan(
        lambda c, r: ({"a": c["a"] + r.sum(), "n": c["n"] + 1}, r * c["a"]), {"a": 0.0, "n": 0}, x
    ),
    "map": lambda x: lax.map(lambda r: jnp.cos(r).sum(), x),
    "associative_scan": lambda x: lax.associative_scan(jnp.multiply, x, axis=0),
    "associative_pairs": lambda x: lax.associative_scan(
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (jnp.tanh(x), x)
    ),
    "fori": lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.5 + i, x),
    "fori_dynamic": lambda x: lax.fori_loop(
        0, jnp.int32(jnp.abs(x[0, 0]) * 3), lambda i, c: c + i, lax.stop_gradient(x)
    ),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * 0.5), (0, lax.stop_gradient(x)))[
        1
    ],
    "while_data": lambda x: lax.while_loop(lambda c: jnp.sum(c**2) > 0.1, lambda c: c * 0.7, lax.stop_gradient(x)),
    "while_vmap": lambda x: jax.vmap(lambda v: lax.while_loop(lambda c: c < 5, lambda c: c + jnp.abs(v[0]) + 0.5, 0.0))(
        lax.stop_gradient(x)
    ),
    "cond": lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
    "cond_vmap": lambda x: jax.vmap(lambda v: lax.cond(v[0] > 0, jnp.sin, jnp.cos, v))(x),
    "switch": lambda x: lax.switch(jnp.int32(x[0, 0]) + 1, [jnp.sin, jnp.cos, jnp.tanh, lambda v: v * 2], x),
    "cond_in_scan": lambda x: lax.scan(
        lambda c, r: (lax.cond(r[0] > 0, lambda v: v + 1, lambda v: v * 0.5, c), c), jnp.ones(3), x
    ),
    "scan_in_scan": lambda x: lax.scan(lambda c, r: (lax.scan(lambda d, e: (d + e, d), c, r)[0], c), 0.0, x),
    "custom_vjp": lambda x: clipped(x) * x,
    "custom_jvp": lambda x: softened(x) * x,
    "checkpoint": lambda x: block(x) * 2,
    "checkpoint_scan": lambda x: lax.scan(jax.checkpoint(lambda c, r: (jnp.sin(c) + r, c)), jnp.zeros(x.shape[1]), x),
    "custom_root": lambda x: _newton(x[0, 0]),
    "linear_solve": lambda x: lax.custom_linear_solve(lambda v: 3 * v, x, lambda m, b: b / 3.0, symmetric=True),
    "stop_gradient": lambda x: x * lax.stop_gradient(jnp.sin(x)),
    "grad": lambda x: jax.grad(lambda v: jnp.sum(jnp.sin(v) * v))(x),
    "hessian": lambda x: jax.hessian(lambda v: jnp.sum(jnp.sin(v) * v[0]))(x[0]),
    "jacobian": lambda x: jax.jacrev(lambda v: jnp.sin(v) * v[0])(x[0]),
    "jvp": lambda x: jax.jvp(jnp.tanh, (x,), (x,)),
    "vmap": lambda x: jax.vmap(lambda r: jnp.outer(r, r))(x),
    "vmap_axes": lambda x: jax.vmap(lambda a, b: jnp.dot(a, b), (0, None), 0)(x, x[0]),
    "nested_jit": lambda x: jax.jit(lambda a: jax.jit(jnp.sin)(a) + 1)(x),
    "remat_name": lambda x: jax.ad_checkpoint.checkpoint_name(jnp.sin(x), "sine"),
    "platform": lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
    "barrier": lambda x: lax.optimization_barrier((x, x + 1)),
    "named_scope": lambda x: jax.named_scope("inner")(jnp.sin)(x),
    "expand": lambda x: jnp.vectorize(lambda a: a * 2, signature="(n)->(n)")(x),
    "tree_map": lambda x: jax.tree.map(lambda v: v * 2, {"a": x, "b": [x, None]}),
    "clip_gradient": lambda x: jax.vjp(jnp.sin, x)[1](jnp.ones_like(x))[0],
    "linearize": lambda x: jax.linearize(jnp.sin, x)[1](x),
    "while_carry_bool": lambda x: lax.while_loop(lambda c: c[1], lambda c: (c[0] + 1, c[0] < 3), (0, True))[0] + x,
}


def _builder(name: str, function: Callable[[Any], Any]) -> Callable[[Draw], Case]:
    def build(draw: Draw) -> Case:
        return Case(f"control.{name}", function, (draw.floats(draw.pick((4, 3), (1, 3), (7, 3))),), True, 8)

    return build


for _name, _function in FUNCTIONS.items():
    entered(f"control.{_name}", _builder(_name, _function))
    entered(f"control.{_name}_again", _builder(_name, _function))
