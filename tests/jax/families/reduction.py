"""Reductions, running reductions, orders and statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
from jax import lax

from tests.jax.case import Case
from tests.jax.draw import FLOATS, WIDE, Draw
from tests.jax.families import entered

REAL = (*FLOATS, "int32", "int8", "uint8")


def reduces(
    name: str,
    function: Callable[..., Any],
    dtypes: Sequence[str] = REAL,
    empty: bool = True,
    grad: bool = True,
    bound: float = 2.0,
    axes: bool = True,
    keepdims: bool = True,
    special: bool = False,
) -> None:
    def build(draw: Draw) -> Case:
        shape = draw.shape(1, 3, empty)
        dtype = draw.pick(*dtypes)
        choices: list[Any] = [None, draw.axis(shape), -1]
        if axes and len(shape) > 1:
            choices.append((0, len(shape) - 1))
        axis = draw.pick(*choices)
        keep = {"keepdims": draw.pick(True, False)} if keepdims else {}
        extreme = special and draw.pick(True, False)
        return Case(
            name,
            lambda x: function(x, axis=axis, **keep),
            (draw.any(shape, dtype, extreme),),
            grad and not extreme,
            bound,
        )

    entered(name, build)


for _name in ("sum", "mean", "prod", "nansum", "nanmean", "nanprod"):
    reduces(f"jnp.{_name}", getattr(jnp, _name), special=_name in ("sum", "nansum"))
for _name in ("max", "min", "ptp"):
    reduces(f"jnp.{_name}", getattr(jnp, _name), empty=False, special=_name != "ptp")
for _name in ("nanmax", "nanmin"):
    reduces(f"jnp.{_name}", getattr(jnp, _name), WIDE, empty=False, special=True)
for _name in ("std", "var", "nanstd", "nanvar"):
    reduces(f"jnp.{_name}", getattr(jnp, _name), WIDE, empty=False, bound=4)
for _name in ("median", "nanmedian"):
    reduces(f"jnp.{_name}", getattr(jnp, _name), WIDE, empty=False)
for _name in ("any", "all", "count_nonzero"):
    reduces(f"jnp.{_name}", getattr(jnp, _name), ("bool", "int32", "float32"), grad=False)
for _name in ("argmax", "argmin", "nanargmax", "nanargmin"):
    reduces(
        f"jnp.{_name}",
        getattr(jnp, _name),
        ("float32", "int32", "float16") if "nan" not in _name else WIDE,
        False,
        False,
        axes=False,
        special=True,
    )
for _name in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
    reduces(f"jnp.{_name}", getattr(jnp, _name), ("float32", "int32", "bfloat16"), axes=False, keepdims=False, bound=4)
reduces("scipy.logsumexp", jsp.logsumexp, FLOATS, empty=False)
reduces("nn.logsumexp", jax.nn.logsumexp, FLOATS, empty=False)
reduces(
    "jnp.linalg.norm",
    lambda x, axis, keepdims: jnp.linalg.norm(
        x.reshape(-1) if axis is None else x, axis=axis if not isinstance(axis, tuple) else axis[0], keepdims=keepdims
    ),
    WIDE,
    empty=False,
)
_orders: tuple[Any, ...] = (1, 2, 3, jnp.inf, -jnp.inf, 0)
for _order in _orders:
    reduces(
        f"jnp.linalg.vector_norm_{_order}",
        lambda x, axis, o=_order: jnp.linalg.vector_norm(x, axis=axis, ord=o),
        WIDE,
        False,
        _order not in (0, -jnp.inf),
        4,
        False,
        False,
    )


def axis_wise(
    name: str,
    function: Callable[..., Any],
    dtypes: Sequence[str] = REAL,
    grad: bool = True,
    empty: bool = False,
    distinct: bool = False,
    bound: float = 1.0,
) -> None:
    """Functions of one axis that keep the shape, or something near it."""

    def build(draw: Draw) -> Case:
        shape, dtype = draw.shape(1, 3, empty), draw.pick(*dtypes)
        axis = draw.axis(shape)
        x = draw.distinct(shape, dtype) if distinct and dtype in FLOATS else draw.any(shape, dtype)
        return Case(name, lambda x: function(x, axis), (x,), grad, bound)

    entered(name, build)


for _name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
    for _reverse in (False, True):
        axis_wise(
            f"lax.{_name}_{'reverse' if _reverse else 'forward'}",
            lambda x, axis, n=_name, r=_reverse: getattr(lax, n)(x, axis=axis, reverse=r),
            WIDE if _name in ("cumlogsumexp",) else ("float32", "int32", "bfloat16"),
            bound=4,
            empty=_name != "cumlogsumexp",
        )
axis_wise("jnp.sort", lambda x, axis: jnp.sort(x, axis=axis), distinct=True, empty=True)
axis_wise("jnp.sort_descending", lambda x, axis: jnp.sort(x, axis=axis, descending=True), distinct=True)
axis_wise("jnp.argsort", lambda x, axis: jnp.argsort(x, axis=axis), grad=False)
axis_wise("jnp.argsort_descending", lambda x, axis: jnp.argsort(x, axis=axis, descending=True), grad=False)
axis_wise("jnp.sort_ties", lambda x, axis: jnp.sort(jnp.round(x), axis=axis), grad=False)
axis_wise("jnp.diff", lambda x, axis: jnp.diff(x, axis=axis))
axis_wise("jnp.gradient", lambda x, axis: jnp.gradient(jnp.concatenate([x, x, x], axis), axis=axis), WIDE)
axis_wise("jnp.flip", lambda x, axis: jnp.flip(x, axis=axis), empty=True)
axis_wise("jnp.roll", lambda x, axis: jnp.roll(x, 2, axis=axis), empty=True)
axis_wise("nn.softmax", lambda x, axis: jax.nn.softmax(x, axis=axis), FLOATS)
axis_wise("nn.log_softmax", lambda x, axis: jax.nn.log_softmax(x, axis=axis), FLOATS)
axis_wise(
    "nn.standardize",
    lambda x, axis: jax.nn.standardize(jnp.concatenate([x, x * 2, x + 1], axis), axis=axis),
    WIDE,
    bound=8,
)
axis_wise("nn.glu", lambda x, axis: jax.nn.glu(jnp.concatenate([x, -x], axis), axis=axis), FLOATS)
axis_wise("jnp.quantile", lambda x, axis: jnp.quantile(x, 0.3, axis=axis), WIDE, distinct=True)
axis_wise("jnp.percentile", lambda x, axis: jnp.percentile(x, jnp.array([20.0, 75.0]), axis=axis), WIDE, distinct=True)
axis_wise("jnp.average", lambda x, axis: jnp.average(x, axis=axis), WIDE)
axis_wise(
    "jnp.cumulative_sum", lambda x, axis: jnp.cumulative_sum(x, axis=axis, include_initial=True), ("float32", "int32")
)
for _name in ("argmax", "argmin"):
    axis_wise(
        f"lax.{_name}",
        lambda x, axis, n=_name: getattr(lax, n)(x, axis, jnp.int32),
        ("float32", "int32", "uint8"),
        False,
    )


def _top_k(draw: Draw) -> Case:
    shape = draw.shape(1, 3, False)
    k = draw.integer(0, shape[-1])
    dtype = draw.pick("float32", "int32", "bfloat16")
    return Case("lax.top_k", lambda x: lax.top_k(x, k), (draw.any(shape, dtype),))


def _approx(draw: Draw) -> Case:
    shape = draw.shape(1, 3, False)
    k, axis, least = draw.integer(1, min(shape)), draw.axis(shape), draw.pick(True, False)
    function = lax.approx_min_k if least else lax.approx_max_k
    return Case("lax.approx_k", lambda x: function(x, k, reduction_dimension=axis), (draw.distinct(shape),))


def _sort_several(draw: Draw) -> Case:
    shape = draw.shape(1, 2, False)
    keys, axis = draw.integer(1, 3), draw.axis(shape)
    operands = draw.ints(shape, "int32", 0, 2), draw.floats(shape, special=True), draw.ints(shape, "uint8")
    return Case("lax.sort", lambda *xs: lax.sort(xs, dimension=axis, num_keys=keys), operands)


def _reduce_kind(draw: Draw) -> Case:
    shape = draw.shape(1, 3)
    kind, dtype = draw.pick("reduce_and", "reduce_or", "reduce_xor"), draw.pick("bool", "int32", "uint8")
    axes = tuple(sorted(set(draw.pick((0,), (len(shape) - 1,), tuple(range(len(shape)))))))
    return Case(f"lax.{kind}", lambda x: getattr(lax, kind)(x, axes), (draw.any(shape, dtype),))


def _reduce_by(draw: Draw) -> Case:
    shape = draw.shape(1, 3, False)
    axes = draw.pick((0,), tuple(range(len(shape))))

    def both(a: Any, b: Any) -> Any:
        return a[0] + b[0], jnp.maximum(a[1], b[1])

    start = jnp.float32(0), jnp.float32(-jnp.inf)
    return Case(
        "lax.reduce", lambda x, y: lax.reduce((x, y), start, both, axes), (draw.floats(shape), draw.floats(shape))
    )


def _searchsorted(draw: Draw) -> Case:
    side, method = draw.pick("left", "right"), draw.pick("scan", "scan_unrolled", "sort", "compare_all")
    a = jnp.sort(jnp.round(draw.floats((draw.integer(1, 9),)) * 2))
    v = jnp.round(draw.floats(draw.shape()) * 2)
    return Case("jnp.searchsorted", lambda a, v: jnp.searchsorted(a, v, side=side, method=method), (a, v))


def _counts(draw: Draw) -> Case:
    x = draw.ints((draw.integer(1, 20),), "int32", 0, 6)
    function = draw.pick(
        lambda x: jnp.bincount(x, length=8),
        lambda x: jnp.unique(x, size=5, fill_value=-1),
        lambda x: jnp.unique(x, size=7, return_counts=True, return_inverse=True),
        lambda x: jnp.nonzero(x > 2, size=6, fill_value=-1)[0],
        lambda x: jnp.histogram(x.astype(jnp.float32), bins=4)[0],
        lambda x: jnp.digitize(x.astype(jnp.float32), jnp.array([0.5, 2.5, 4.5])),
        lambda x: jnp.lexsort((x, x % 3)),
        lambda x: jnp.isin(x, jnp.array([1, 3])),
        lambda x: jnp.argwhere(x > 3, size=4),
        lambda x: jnp.flatnonzero(x, size=4),
        lambda x: jnp.setdiff1d(x, jnp.array([1, 2]), size=5),
        lambda x: jnp.intersect1d(x, jnp.array([1, 2, 5]), size=3),
        lambda x: jnp.partition(x, 0),
        lambda x: jnp.argpartition(x, 0)[0],
        lambda x: jnp.trim_zeros(x) if False else jnp.packbits(x > 2),
        lambda x: jnp.unpackbits(x.astype(jnp.uint8)),
        lambda x: jnp.histogram_bin_edges(x.astype(jnp.float32), 5),
        lambda x: jnp.resize(x, (3, 4)),
    )
    return Case("jnp.counts", function, (x,))


def _statistics(draw: Draw) -> Case:
    function = draw.pick(
        lambda x: jnp.cov(x),
        lambda x: jnp.corrcoef(x),
        lambda x: jnp.average(x, axis=0, weights=jnp.arange(1.0, 5.0)),
        lambda x: jnp.interp(x, jnp.array([-2.0, 0.0, 1.5]), jnp.array([1.0, -1.0, 4.0])),
        lambda x: jnp.polyval(x[0], x[1]),
        lambda x: jnp.vander(x[0], 4),
        lambda x: jnp.trapezoid(x, axis=1),
        lambda x: jax.scipy.stats.norm.logpdf(x),
        lambda x: jax.scipy.stats.norm.cdf(x),
        lambda x: jax.scipy.stats.gamma.logpdf(jnp.abs(x) + 0.1, 2.0),
        lambda x: jax.scipy.stats.beta.logpdf(jax.nn.sigmoid(x), 2.0, 3.0),
        lambda x: jax.scipy.stats.t.logpdf(x, 4.0),
        lambda x: jax.scipy.stats.laplace.cdf(x),
        lambda x: jax.scipy.stats.logistic.logpdf(x),
        lambda x: jax.scipy.stats.cauchy.cdf(x),
    )
    return Case("jnp.statistics", function, (draw.floats((4, 6)),), True, 8)


for _name, _builder in {
    "lax.top_k": _top_k,
    "lax.approx_k": _approx,
    "lax.sort": _sort_several,
    "lax.reduce_bits": _reduce_kind,
    "lax.reduce": _reduce_by,
    "jnp.searchsorted": _searchsorted,
    "jnp.counts": _counts,
    "jnp.statistics": _statistics,
}.items():
    entered(_name, _builder)
    if _name in ("jnp.counts", "jnp.statistics", "jnp.searchsorted"):
        for _more in range(2, 6):
            entered(f"{_name}_{_more}", _builder)
