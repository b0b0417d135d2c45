"""Reductions, running reductions, orders, counts and statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.jax.catalogue import recipe
from tests.jax.catalogue.sample import REALS, Sample

Built = tuple[Callable[..., Any], tuple[Any, ...]]


@recipe(
    "jnp",
    "all amax amin any count_nonzero max mean min nanmax nanmean nanmin nanprod nansum prod ptp sum",
)
def reduced(s: Sample, f: Any) -> Built:
    axis, keep = s.axes(s.shape), s.pick(True, False)
    x = s.tame() if f in (jnp.prod, jnp.nanprod) else s.a()
    if s.pick(True, True, True, False) or f in (jnp.ptp, jnp.count_nonzero):
        return lambda x: f(x, axis=axis, keepdims=keep), (x,)
    mask = s.a(dtype="bool")
    initial = {"initial": 1} if f in (jnp.max, jnp.min, jnp.amax, jnp.amin, jnp.nanmax, jnp.nanmin) else {}
    return lambda x, m: f(x, axis=axis, keepdims=keep, where=m, **initial), (x, mask)


@recipe("jnp", "minmax")
def both_extremes(s: Sample, f: Any) -> Built:
    axis, keep = s.axes(s.shape), s.pick(True, False)
    return lambda x: f(x, axis=axis, keepdims=keep), (s.a(),)


@recipe("jnp", "top_k")
def largest(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    axis, mode = s.axis(shape), s.pick("largest", "smallest")
    k = s.integer(0, shape[axis])
    return lambda x: f(x, k, axis=axis, mode=mode), (s.a(shape),)


@recipe("jnp", "std var nanstd nanvar")
def spread(s: Sample, f: Any) -> Built:
    axis, ddof = s.axes(s.shape), s.pick(0, 1)
    return lambda x: f(x, axis=axis, ddof=ddof), (s.a(),)


@recipe("jnp", "median nanmedian")
def median(s: Sample, f: Any) -> Built:
    axis = s.axes(s.shape)
    return lambda x: f(x, axis=axis), (s.a(),)


@recipe("jnp", "quantile percentile nanquantile nanpercentile")
def quantile(s: Sample, f: Any) -> Built:
    axis, method = s.axes(s.shape), s.pick("linear", "lower", "higher", "midpoint", "nearest")
    scale = 100 if "percentile" in f.__name__ else 1
    q = s.pick(np.float32(0.3 * scale), np.array([0.0, 0.5, 1.0, 0.77], np.float32) * scale)
    return lambda x: f(x, q, axis=axis, method=method), (s.a(),)


@recipe("jnp", "argmax argmin nanargmax nanargmin")
def position(s: Sample, f: Any) -> Built:
    shape = s.ranked(0, 4)
    axis, keep = s.pick(None, s.axis(shape) if shape else None), s.pick(True, False)
    return lambda x: f(x, axis=axis, keepdims=keep), (s.a(shape),)


@recipe("lax", "argmax argmin")
def lax_position(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    axis = s.integer(0, len(shape) - 1)
    return lambda x: f(x, axis, np.int32), (s.a(shape),)


@recipe("jnp", "cumprod cumsum nancumprod nancumsum")
def running(s: Sample, f: Any) -> Built:
    axis = s.pick(None, s.axis(s.shape) if s.shape else None)
    return lambda x: f(x, axis=axis), (s.tame(),)


@recipe("jnp", "cumulative_sum cumulative_prod")
def cumulative(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    axis, start = s.axis(shape), s.pick(True, False)
    return lambda x: f(x, axis=axis, include_initial=start), (s.tame(shape),)


@recipe("lax", "cumsum cumprod cummax cummin cumlogsumexp")
def lax_running(s: Sample, f: Any) -> Built:
    shape, back = s.ranked(1), s.pick(True, False)
    axis = s.integer(0, len(shape) - 1)
    return lambda x: f(x, axis=axis, reverse=back), (s.tame(shape) if f in (lax.cumprod, lax.cumsum) else s.a(shape),)


@recipe("lax", "reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor")
def lax_reduced(s: Sample, f: Any) -> Built:
    axes = tuple(sorted(s.draw.random.sample(range(len(s.shape)), s.integer(0, len(s.shape)))))
    return lambda x: f(x, axes), (s.tame() if f is lax.reduce_prod else s.a(),)


@recipe("lax", "reduce")
def reduce_by(s: Sample, f: Any) -> Built:
    axes = tuple(sorted(s.draw.random.sample(range(len(s.shape)), s.integer(0, len(s.shape)))))
    by, start = s.pick((lax.add, 0), (lax.mul, 1), (lambda a, b: a + b + a * b * 0, 0))
    return lambda x: f(x, jnp.asarray(start, x.dtype), by, axes), (s.tame(),)


@recipe("jnp", "sort argsort")
def sorts(s: Sample, f: Any) -> Built:
    shape = s.ranked(0, 4)
    axis, down = s.pick(None, s.axis(shape) if shape else None), s.pick(True, False)
    return lambda x: f(x, axis=axis, descending=down), (s.a(shape),)


@recipe("lax", "sort sort_key_val top_k approx_max_k approx_min_k")
def lax_sorts(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    axis = s.integer(0, len(shape) - 1)
    if f is lax.sort:
        keys = s.integer(1, 2)
        return lambda x, y: f((x, y), dimension=axis, num_keys=keys), (s.a(shape), s.a(shape, "int32"))
    if f is lax.sort_key_val:
        return lambda x, y: f(x, y, axis), (s.a(shape), s.a(shape, "int32"))
    k = s.integer(0, shape[-1])
    return lambda x: f(x, k), (s.a(shape),)


@recipe("jnp", "partition argpartition")
def partition(s: Sample, f: Any) -> Built:
    shape = s.ranked(1, empty=False)
    axis = s.axis(shape)
    k = s.integer(0, shape[axis] - 1)
    if f is jnp.argpartition:
        return lambda x: jnp.take_along_axis(x, f(x, k, axis=axis), axis)[(0,) * 0].sum(axis), (s.tame(shape),)
    return lambda x: jnp.moveaxis(f(x, k, axis=axis), axis, 0)[k], (s.a(shape),)


@recipe("jnp", "sort_complex")
def sort_complex(s: Sample, f: Any) -> Built:
    return f, (s.a(s.ranked(1)),)


@recipe("jnp", "lexsort")
def lexsort(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    return lambda a, b: f((a, b)), (s.a(shape), s.a(shape, s.other()))


@recipe("jnp", "searchsorted digitize")
def searched(s: Sample, f: Any) -> Built:
    edges = np.sort(s.tame((s.integer(1, 9),)), axis=0) if s.dtype != "bfloat16" else s.tame((1,))
    v = s.tame()
    right = s.pick(True, False)
    if f is jnp.digitize:
        return lambda v, e: f(v, e, right=right), (v, edges)
    method = s.pick("scan", "scan_unrolled", "sort", "compare_all")
    return lambda v, e: f(e, v, side="right" if right else "left", method=method), (v, edges)


@recipe("jnp", "bincount")
def bincount(s: Sample, f: Any) -> Built:
    n = s.integer(0, 9)
    if s.dtype in REALS or s.dtype.startswith("complex"):
        return lambda i, w: f(i, w, length=n), (s.ints((7,), "int32", 0, 9), s.a((7,)))
    return lambda x: f(x, length=n), (s.a(s.ranked(1, 1)),)


@recipe("jnp", "histogram histogram_bin_edges")
def histogram(s: Sample, f: Any) -> Built:
    bins, limits = s.integer(1, 5), s.pick(None, (-2.0, 2.0))
    return lambda x: f(x, bins, limits), (s.tame(),)


@recipe("jnp", "histogram2d histogramdd")
def histograms(s: Sample, f: Any) -> Built:
    if f is jnp.histogram2d:
        return lambda x, y: f(x, y, 3), (s.tame((7,)), s.tame((7,)))
    return lambda x: f(x, 3), (s.tame((7, 2)),)


@recipe("jnp", "unique unique_all unique_counts unique_inverse unique_values")
def unique(s: Sample, f: Any) -> Built:
    size = s.integer(1, 9)
    x = s.tame()
    if f is jnp.unique and s.pick(True, False):
        return lambda x: f(x, size=size, return_index=True, return_inverse=True, return_counts=True), (x,)
    return lambda x: f(x, size=size), (x,)


@recipe("jnp", "union1d intersect1d setdiff1d setxor1d isin")
def sets(s: Sample, f: Any) -> Built:
    a, b = s.tame(s.ranked(0, 2)), s.tame((s.integer(0, 5),))
    if f is jnp.isin:
        flip = s.pick(True, False)
        return lambda a, b: f(a, b, invert=flip), (a, b)
    return lambda a, b: f(a, b, size=6), (a, b)


@recipe("jnp", "nonzero flatnonzero argwhere")
def nonzero(s: Sample, f: Any) -> Built:
    size, fill = s.integer(0, 9), s.pick(None, -1)
    return lambda x: f(x, size=size, fill_value=fill), (s.a(),)


@recipe("jnp", "compress extract")
def compressed(s: Sample, f: Any) -> Built:
    shape, size = s.ranked(1), s.integer(0, 5)
    if f is jnp.extract:
        return lambda c, x: f(c, x, size=size), (s.a(shape, "bool"), s.a(shape))
    axis = s.axis(shape)
    return lambda c, x: f(c, x, axis, size=size), (s.a((shape[axis],), "bool"), s.a(shape))


@recipe("jnp", "average")
def average(s: Sample, f: Any) -> Built:
    axis = s.axes(s.shape)
    if s.pick(True, False):
        return lambda x, w: f(x, axis, w), (s.tame(), s.tame())
    return lambda x: f(x, axis, returned=True), (s.a(),)


@recipe("jnp", "cov corrcoef")
def cov(s: Sample, f: Any) -> Built:
    rows = s.pick(True, False)
    return lambda x: f(x, rowvar=rows), (s.tame(s.ranked(1, 2)),)


@recipe("jnp", "diff ediff1d gradient trapezoid")
def differences(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    axis = s.axis(shape)
    if f is jnp.ediff1d:
        return f, (s.a(shape),)
    if f is jnp.diff:
        n = s.integer(0, 3)
        return lambda x: f(x, n, axis), (s.a(shape),)
    return lambda x: f(x, axis=axis), (s.tame(shape),)


@recipe("jnp", "interp")
def interp(s: Sample, f: Any) -> Built:
    points = np.sort(np.asarray(s.draw.numpy.uniform(-2, 2, 5)).astype("float32"))
    period = s.pick(None, None, 2.0)
    return lambda x, y: f(x, points, y, period=period), (s.tame(), s.tame((5,)))


@recipe("jnp", "allclose array_equal array_equiv")
def agree(s: Sample, f: Any) -> Built:
    x = s.a()
    return f, (x, s.pick(x, s.a()))
