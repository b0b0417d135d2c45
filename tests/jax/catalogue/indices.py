"""Reading and writing at indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.jax.catalogue import recipe
from tests.jax.catalogue.sample import Sample

Built = tuple[Callable[..., Any], tuple[Any, ...]]
KINDS = ("int32", "int32", "int8", "uint8", "int16")


@recipe("jnp", "take")
def take(s: Sample, f: Any) -> Built:
    shape = s.ranked(1, empty=False)
    axis, mode = s.pick(None, s.axis(shape)), s.pick(None, "clip", "wrap", "fill")
    i = s.ints(s.pick((), (3,), (2, 2), (0,)), s.pick(*KINDS), 0, 20)
    return lambda x, i: f(x, i, axis=axis, mode=mode), (s.a(shape), i)


@recipe("jnp", "take_along_axis put_along_axis")
def along(s: Sample, f: Any) -> Built:
    shape = s.ranked(1, empty=False)
    axis = s.axis(shape)
    where = list(shape)
    where[axis] = s.integer(1, 3)
    i = s.ints(tuple(where), "int32", -shape[axis], shape[axis] - 1)
    if f is jnp.put_along_axis:
        i = np.zeros_like(i[...]) + s.integer(0, shape[axis] - 1)
        return lambda x, v: f(x, i, v, axis, inplace=False), (s.a(shape), s.a(()))
    mode = s.pick(None, "clip", "fill")
    return lambda x, i: f(x, i, axis, mode=mode), (s.a(shape), i)


@recipe("jnp", "put place")
def put(s: Sample, f: Any) -> Built:
    shape = s.ranked(1, empty=False)
    if f is jnp.place:
        return lambda x, m, v: f(x, m, v, inplace=False), (s.a(shape), s.a(shape, "bool"), s.a((3,)))
    size = int(np.prod(shape))
    i = np.array([0, size - 1, -size][: s.integer(1, 2)], "int32")
    mode = s.pick(None, "clip", "wrap")
    return lambda x, v: f(x, i, v, mode=mode, inplace=False), (s.a(shape), s.a((len(i),)))


@recipe("jnp", "choose select")
def chosen(s: Sample, f: Any) -> Built:
    a, b = s.a(), s.a(s.beside(s.shape), s.other())
    if f is jnp.select:
        return lambda c, d, a, b: f([c, d], [a, b], 1), (s.a(dtype="bool"), s.a(dtype="bool"), a, b)
    mode = s.pick("clip", "wrap")
    return lambda i, a, b: f(i, [a, b], mode=mode), (s.ints(s.shape, "int32", -3, 4), a, b)


@recipe(
    "jnp",
    "indices diag_indices diag_indices_from tril_indices triu_indices tril_indices_from triu_indices_from mask_indices",
)
def indices(s: Sample, f: Any) -> Built:
    n, x = s.integer(1, 5), s.a((5, 5))
    if f is jnp.indices:
        return lambda x: f((n, 3)) + x[0, 0], (x,)
    if f is jnp.mask_indices:
        return lambda x: x[f(5, jnp.triu)], (x,)
    if f.__name__.endswith("_from"):
        return lambda x: x[f(x)], (x,)
    return lambda x: x[f(n)], (x,)


@recipe("jnp", "ravel_multi_index unravel_index")
def ravelled(s: Sample, f: Any) -> Built:
    i = s.ints((4,), "int32", 0, 11)
    if f is jnp.unravel_index:
        return lambda i: f(i, (3, 4)), (i,)
    mode = s.pick("clip", "wrap")
    return lambda i, j: f((i, j), (3, 4), mode=mode), (i, s.ints((4,), "int32", -3, 9))


# ---- jax.lax -------------------------------------------------------------------------------------------------------------
@recipe("lax", "slice slice_in_dim index_in_dim")
def static(s: Sample, f: Any) -> Built:
    shape = s.ranked(1, empty=f is not lax.index_in_dim)
    starts = tuple(s.integer(0, d) for d in shape)
    limits = tuple(s.integer(a, d) for a, d in zip(starts, shape, strict=True))
    axis = s.integer(0, len(shape) - 1)
    if f is lax.slice_in_dim:
        step = s.pick(1, 2)
        return lambda x: f(x, starts[axis], limits[axis], step, axis), (s.a(shape),)
    if f is lax.index_in_dim:
        i, keep = s.integer(-shape[axis], shape[axis] - 1), s.pick(True, False)
        return lambda x: f(x, i, axis, keep), (s.a(shape),)
    strides = s.pick(None, tuple(s.integer(1, 3) for _ in shape))
    return lambda x: f(x, starts, limits, strides), (s.a(shape),)


@recipe(
    "lax",
    "dynamic_slice dynamic_slice_in_dim dynamic_index_in_dim dynamic_update_slice dynamic_update_slice_in_dim "
    "dynamic_update_index_in_dim",
)
def dynamic(s: Sample, f: Any) -> Built:
    shape = s.ranked(1, 3, empty=False)
    axis = s.integer(0, len(shape) - 1)
    sizes = tuple(s.integer(0, d) for d in shape)
    start = s.ints((len(shape),), s.pick(*KINDS), 0, 9)
    if s.pick(True, False) and start.dtype.kind == "i":
        start = -start
    x, along = s.a(shape), tuple(sizes[axis] if i == axis else d for i, d in enumerate(shape))
    one = tuple(1 if i == axis else d for i, d in enumerate(shape))
    return {
        "dynamic_slice": lambda: (lambda x, i: f(x, list(i), sizes), (x, start)),
        "dynamic_slice_in_dim": lambda: (lambda x, i: f(x, i[0], sizes[axis], axis), (x, start)),
        "dynamic_index_in_dim": lambda: (lambda x, i: f(x, i[0], axis, keepdims=True), (x, start)),
        "dynamic_update_slice": lambda: (lambda x, u, i: f(x, u, list(i)), (x, s.a(sizes), start)),
        "dynamic_update_slice_in_dim": lambda: (lambda x, u, i: f(x, u, i[0], axis), (x, s.a(along), start)),
        "dynamic_update_index_in_dim": lambda: (lambda x, u, i: f(x, u, i[0], axis), (x, s.a(one), start)),
    }[f.__name__]()


@recipe("lax", "gather scatter scatter_add scatter_apply scatter_max scatter_min scatter_mul scatter_sub index_take")
def gathers(s: Sample, f: Any) -> Built:
    shape, name = s.pick((4, 5), (7, 3), (1, 2)), f.__name__
    count = s.integer(0, 4)
    indices, mode = s.ints((count, 1), s.pick("int32", "int8", "uint8"), 0, 9), s.pick("clip", "fill", None)
    if s.pick(True, False) and indices.dtype.kind == "i":
        indices = indices - 2
    if name == "index_take":
        return lambda x, i: f(x, (i,), (0,)), (s.a(shape), np.clip(indices[:, 0], 0, shape[0] - 1))
    if name == "gather":
        numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
        return lambda x, i: f(x, i, numbers, (1, shape[1]), mode=mode), (s.a(shape), indices)
    into = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    if name == "scatter":  # of equal indices JAX leaves open which update counts
        indices = np.unique(indices, axis=0)
        mode = "fill" if mode != "clip" or len(indices) > 1 else mode
    if name == "scatter_apply":
        indices = np.unique(np.clip(indices, 0, shape[0] - 1), axis=0)
        at = (len(indices), shape[1])
        return lambda x, i: f(x, i, lambda v: v + v, into, update_shape=at, mode=mode), (s.tame(shape), indices)
    updates = s.tame((len(indices), shape[1]))
    return lambda x, i, u: f(x, i, u, into, mode=mode), (s.tame(shape), indices, updates)
