"""Making and arranging arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.jax.catalogue import recipe
from tests.jax.catalogue.sample import Sample

Built = tuple[Callable[..., Any], tuple[Any, ...]]


@recipe(
    "jnp", "ravel transpose permute_dims atleast_1d atleast_2d atleast_3d squeeze diagflat empty_like array asarray"
)
def whole(s: Sample, f: Any) -> Built:
    if f is jnp.empty_like:
        return lambda x: f(x) * 0 == 0, (s.a(),)
    return f, (s.a(),)


@recipe("jnp", "matrix_transpose tril triu diagonal trace")
def matrices(s: Sample, f: Any) -> Built:
    shape, k = s.ranked(2), s.integer(-2, 2)
    if f is jnp.matrix_transpose:
        return f, (s.a(shape),)
    return lambda x: f(x, k), (s.a(shape),)


@recipe("jnp", "fliplr flipud rot90")
def turned(s: Sample, f: Any) -> Built:
    shape = s.ranked(2)
    if f is jnp.rot90:
        k, axes = s.integer(-1, 5), s.pick((0, 1), (1, 0), (-1, 0))
        return lambda x: f(x, k, axes), (s.a(shape),)
    return f, (s.a(shape),)


@recipe("jnp", "diag")
def diag(s: Sample, f: Any) -> Built:
    k = s.integer(-2, 2)
    return lambda x: f(x, k), (s.a(s.ranked(1, 2)),)


@recipe("jnp", "reshape")
def reshaped(s: Sample, f: Any) -> Built:
    size = int(np.prod(s.shape))
    to = s.pick((size,), (1, size), (size, 1), -1, tuple(reversed(s.shape)))
    return lambda x: f(x, to), (s.a(),)


@recipe("jnp", "swapaxes moveaxis rollaxis")
def axes_moved(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    a, b = s.axis(shape), s.axis(shape)
    return lambda x: f(x, a, b), (s.a(shape),)


@recipe("jnp", "expand_dims")
@recipe("lax", "expand_dims")
def expand_dims(s: Sample, f: Any) -> Built:
    axes = s.pick((0,), (-1,), (0, 1), (0, -1))
    return lambda x: f(x, axes), (s.a(),)


@recipe("jnp", "flip")
def flip(s: Sample, f: Any) -> Built:
    axes = s.axes(s.shape)
    return lambda x: f(x, axes), (s.a(),)


@recipe("jnp", "roll")
def roll(s: Sample, f: Any) -> Built:
    axis, by = s.axes(s.shape), s.integer(-9, 9)
    return lambda x: f(x, by, axis), (s.a(),)


@recipe("jnp", "tile")
@recipe("lax", "tile")
def tile(s: Sample, f: Any) -> Built:
    shape = s.ranked(0, 3)
    reps = tuple(s.integer(0, 3) for _ in range(len(shape)))
    return lambda x: f(x, reps), (s.a(shape),)


@recipe("jnp", "repeat")
def repeat(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    axis = s.pick(None, s.axis(shape))
    if s.pick(True, False) or axis is None:
        count = s.integer(0, 3)
        return lambda x: f(x, count, axis=axis), (s.a(shape),)
    counts, total = s.ints((shape[axis],), "int32", 0, 3), s.integer(0, 9)
    return lambda x, n: f(x, n, axis=axis, total_repeat_length=total), (s.a(shape), counts)


@recipe("jnp", "concatenate concat stack vstack hstack dstack column_stack block append")
def joined(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    operands = (s.a(shape), s.a(shape, s.other()), s.a(shape))
    if f in (jnp.concatenate, jnp.concat, jnp.stack):
        axis = s.axis(shape)
        return lambda *xs: f(xs, axis=axis), operands
    if f is jnp.append:
        axis = s.pick(None, s.axis(shape))
        return lambda x, y: f(x, y, axis), operands[:2]
    if f is jnp.block:
        return lambda x, y, z: f([[x, y], [z, x]]), operands
    return lambda *xs: f(xs), operands


@recipe("jnp", "split array_split hsplit vsplit dsplit unstack")
@recipe("lax", "unstack")
def parted(s: Sample, f: Any) -> Built:
    rank = {jnp.dsplit: 3, jnp.vsplit: 2}.get(f, 1)
    shape = s.ranked(rank)
    axis = {jnp.dsplit: 2, jnp.vsplit: 0, jnp.hsplit: min(1, len(shape) - 1)}.get(f, s.axis(shape))
    if f in (jnp.unstack, lax.unstack):
        return lambda x: f(x, axis=axis), (s.a(shape),)
    count = s.pick(1, 2, 3, 5)
    if f is not jnp.array_split:
        count = s.pick(1, *(d for d in (2, 3, 5) if shape[axis] % d == 0))
    parts: Any = s.pick(count, [1, 2], [0, 1, 1])
    if f in (jnp.split, jnp.array_split):
        return lambda x: f(x, parts, axis=axis), (s.a(shape),)
    return lambda x: f(x, parts), (s.a(shape),)


@recipe("jnp", "broadcast_to")
def broadcast_to(s: Sample, f: Any) -> Built:
    ones = s.beside(s.shape)
    shape = (*s.pick((), (2,), (0,), (3, 1)), *s.shape)
    return lambda x: f(x, shape), (s.a(ones),)


@recipe("jnp", "broadcast_arrays")
def broadcast_arrays(s: Sample, f: Any) -> Built:
    return f, (s.a(s.beside(s.shape)), s.a(s.beside(s.shape), s.other()), s.a())


@recipe("jnp", "full_like full ones zeros empty")
@recipe("lax", "full_like full empty")
def filled(s: Sample, f: Any) -> Built:
    shape, value, name = s.shape, s.pick(0, 1, 3, 2.5), f.__name__
    dtype = s.dtype
    if name == "empty":
        return lambda x: f(shape, dtype) * 0 == 0 * x, (s.a(()),)
    if name == "full_like":
        return lambda x: f(x, value), (s.a(),)
    if name == "full":
        return lambda x: f(shape, value, dtype) + x, (s.a(()),)
    return lambda x: f(shape, dtype) + x, (s.a(()),)


@recipe("jnp", "arange linspace logspace geomspace eye identity tri bartlett blackman hamming hanning kaiser")
def made(s: Sample, f: Any) -> Built:
    n = s.integer(0, 9)
    x = s.a(())
    if f in (jnp.eye, jnp.tri):
        m, k = s.integer(0, 5), s.integer(-2, 2)
        return lambda x: f(n, m, k, dtype=s.dtype) + x, (x,)
    if f is jnp.arange:
        step = s.pick(1, 2, -1, 0.5)
        return lambda x: f(0, n * step, step) + x, (x,)
    if f in (jnp.linspace, jnp.logspace, jnp.geomspace):
        end = s.pick(True, False)
        if s.pick(True, False):
            return lambda x, y: f(x, y, n, endpoint=end), (s.a(style="tame"), s.a(style="tame"))
        return lambda x: f(1.0, 5.0, n, endpoint=end) + x, (x,)
    if f is jnp.kaiser:
        return lambda x: f(n, 2.5) + x, (x,)
    if f is jnp.identity:
        return lambda x: f(n, dtype=s.dtype) + x, (x,)
    return lambda x: f(n) + x, (x,)


@recipe("jnp", "meshgrid ix_")
def grid(s: Sample, f: Any) -> Built:
    a, b = s.a((s.integer(1, 4),)), s.a((s.integer(1, 4),))
    if f is jnp.ix_:
        index = np.arange(min(3, len(b))), np.arange(1)
        return lambda x: x[f(*index)], (s.a((5, 5)),)
    how = s.pick("xy", "ij")
    return lambda a, b: f(a, b, indexing=how), (a, b)


@recipe("jnp", "pad")
def pad(s: Sample, f: Any) -> Built:
    shape = s.ranked(1, 3)
    width = tuple((s.integer(0, 3), s.integer(0, 2)) for _ in shape)
    mode = s.pick(
        "constant",
        "edge",
        "reflect",
        "symmetric",
        "wrap",
        "maximum",
        "minimum",
        "mean",
        "linear_ramp",
        "median",
        "empty",
    )
    if mode == "empty":
        return lambda x: f(x, width, mode=mode).shape[0] + x, (s.a(shape),)
    if mode in ("reflect", "symmetric"):
        odd = s.pick("even", "odd")
        return lambda x: f(x, width, mode=mode, reflect_type=odd), (s.a(shape),)
    return lambda x: f(x, width, mode=mode), (s.a(shape),)


@recipe("jnp", "insert delete")
def inserted(s: Sample, f: Any) -> Built:
    shape = s.ranked(1, 3, empty=False)
    axis = s.pick(None, s.axis(shape))
    at = s.pick(0, -1, np.array([0]))
    if f is jnp.delete:
        return lambda x: f(x, at, axis=axis), (s.a(shape),)
    return lambda x, v: f(x, at, v, axis=axis), (s.a(shape), s.a(()))


@recipe("jnp", "resize")
def resize(s: Sample, f: Any) -> Built:
    to = s.pick((3, 4), (2,), (0,), (5, 1, 2))
    return lambda x: f(x, to), (s.a(),)


@recipe("jnp", "fill_diagonal")
def fill_diagonal(s: Sample, f: Any) -> Built:
    shape = s.pick((3, 3), (5, 3), (2, 4), (3, 3, 3))
    wrap = s.pick(True, False)
    return lambda x, v: f(x, v, wrap=wrap, inplace=False), (s.a(shape), s.a(()))


@recipe("jnp", "packbits unpackbits")
def bits(s: Sample, f: Any) -> Built:
    axis, order = s.axes(s.shape), s.pick("big", "little")
    axis = axis if not isinstance(axis, tuple) else None
    dtype = s.pick("uint8", s.dtype)
    return lambda x: f(x, axis=axis, bitorder=order), (s.a(dtype=dtype),)


@recipe("jnp", "apply_along_axis apply_over_axes vectorize piecewise fromfunction frompyfunc")
def applied(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    axis = s.axis(shape)
    if f is jnp.apply_along_axis:
        return lambda x: f(lambda v: v[::-1] * 2, axis, x), (s.a(shape),)
    if f is jnp.apply_over_axes:
        return lambda x: f(jnp.sum, x, [axis]), (s.a(shape),)
    if f is jnp.vectorize:
        return f(lambda a, b: a * b + b), (s.a(shape), s.a(s.beside(shape)))
    if f is jnp.fromfunction:
        return lambda x: f(lambda i, j: i + 2 * j, (3, 4)) + x, (s.a(()),)
    if f is jnp.frompyfunc:
        return lambda x: f(lambda a, b: a + b, 2, 1, identity=0).reduce(x, axis=axis), (s.a(shape),)
    return lambda x: f(x, [x < 0, x > 1], [-1, lambda v: v * 2, 3]), (s.a(shape),)


# ---- jax.lax -------------------------------------------------------------------------------------------------------------
@recipe("lax", "transpose rev")
def permuted(s: Sample, f: Any) -> Built:
    axes = list(range(len(s.shape)))
    s.draw.random.shuffle(axes)
    if f is lax.rev:
        axes = axes[: s.integer(0, len(axes))]
    return lambda x: f(x, tuple(axes)), (s.a(),)


@recipe("lax", "reshape collapse squeeze broadcast broadcast_in_dim broadcast_to_rank broadcast_like")
def spread(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    rank = len(shape)
    return {
        "reshape": lambda: (lambda x: f(x, tuple(reversed(shape))), (s.a(shape),)),
        "collapse": lambda: (lambda x: f(x, 0, rank), (s.a(shape),)),
        "squeeze": lambda: (lambda x: f(x, (0,)), (s.a((1, *shape)),)),
        "broadcast": lambda: (lambda x: f(x, (2, 1)), (s.a(shape),)),
        "broadcast_in_dim": lambda: (lambda x: f(x, (2, *shape, 3), tuple(range(1, rank + 1))), (s.a(shape),)),
        "broadcast_to_rank": lambda: (lambda x: f(x, rank + 2), (s.a(shape),)),
        "broadcast_like": lambda: (lambda x, y: f(x, y, tuple(range(1, rank + 1))), (s.a(shape), s.a((2, *shape)))),
    }[f.__name__]()


@recipe("lax", "concatenate stack split")
def lax_joined(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    axis = s.integer(0, len(shape) - 1)
    if f is lax.split:
        first = s.integer(0, shape[axis])
        return lambda x: f(x, (first, shape[axis] - first), axis), (s.a(shape),)
    return lambda *xs: f(xs, axis), (s.a(shape), s.a(shape))


@recipe("lax", "pad")
def lax_pad(s: Sample, f: Any) -> Built:
    config = tuple((s.integer(-1, 3), s.integer(-1, 2), s.integer(0, 2)) for _ in s.shape)
    return lambda x, v: f(x, v, config), (s.a(), s.a(()))


@recipe("lax", "iota broadcasted_iota")
def iota(s: Sample, f: Any) -> Built:
    n = s.integer(0, 9)
    if f is lax.iota:
        return lambda x: f(s.dtype, n) + x, (s.a(()),)
    axis = s.pick(0, 1, 2)
    return lambda x: f(s.dtype, (n, 3, 2), axis) + x, (s.a(()),)


@recipe("lax", "optimization_barrier")
def barrier(s: Sample, f: Any) -> Built:
    return lambda x, y: f((x, y)), (s.a(), s.a())
