"""Control flow, calls, and functions that take functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from tests.jax.catalogue import recipe
from tests.jax.catalogue.sample import Sample

Built = tuple[Callable[..., Any], tuple[Any, ...]]


@recipe("lax", "cond switch platform_dependent")
def branches(s: Sample, f: Any) -> Built:
    if f is lax.cond:
        return lambda p, x: f(p, lambda v: v + v, lambda v: v * v, x), (s.a((), "bool"), s.tame())
    if f is lax.switch:
        which = s.ints((), "int32", -2, 4)
        return lambda i, x: f(i, [lambda v: v + v, lambda v: v * v, lambda v: v], x), (which, s.tame())
    return lambda x: f(x, cpu=lambda v: v + v, default=lambda v: v), (s.tame(),)


@recipe("lax", "fori_loop while_loop")
def loops(s: Sample, f: Any) -> Built:
    count = s.integer(0, 4)
    if f is lax.fori_loop:
        return lambda x: f(0, count, lambda i, v: (v + v).astype(v.dtype), x), (s.tame(),)
    return lambda x: f(lambda c: c[0] < count, lambda c: (c[0] + 1, (c[1] * c[1]).astype(c[1].dtype)), (0, x)), (
        s.tame(),
    )


@recipe("lax", "scan map associative_scan")
def scans(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    back = s.pick(True, False)
    if f is lax.scan:
        zero = shape[1:]
        return lambda x: f(lambda c, r: ((c + r).astype(c.dtype), c), jnp.zeros(zero, x.dtype), x, reverse=back), (
            s.tame(shape),
        )
    if f is lax.map:
        size = s.pick(None, 2)
        return lambda x: f(lambda r: r + r, x, batch_size=size), (s.tame(shape),)
    by = s.pick(lax.add, lax.mul, lax.max)
    axis = s.integer(0, len(shape) - 1)
    return lambda x: f(by, x, reverse=back, axis=axis), (s.tame(shape),)


@recipe("lax", "custom_linear_solve custom_root composite")
def custom(s: Sample, f: Any) -> Built:
    if f is lax.custom_linear_solve:
        return lambda x: f(lambda v: 3 * v, x, lambda m, b: b / jnp.asarray(3, b.dtype), symmetric=True), (s.tame(),)
    if f is lax.composite:
        return lambda x: f(lambda v: v + v, name="my.twice")(x), (s.tame(),)
    solve = lambda g, y: lax.fori_loop(0, 20, lambda i, y: y - g(y) / (3 * y**2 + 1), y)  # noqa: E731
    return lambda x: f(lambda y: y**3 + y - x, x, solve, lambda g, y: y / g(jnp.ones_like(y))), (s.tame(()),)


@recipe("lax", "rng_bit_generator")
def bits(s: Sample, f: Any) -> Built:
    shape, dtype = s.shape, s.pick("uint32", "uint8", "uint16", *(("uint64",) * s.x64))
    algorithm = s.pick(
        lax.RandomAlgorithm.RNG_DEFAULT, lax.RandomAlgorithm.RNG_PHILOX, lax.RandomAlgorithm.RNG_THREE_FRY
    )
    return lambda k: f(k, shape, dtype, algorithm), (s.ints((4,), "uint32"),)
