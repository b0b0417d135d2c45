"""Functions of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from tests.jax.catalogue import recipe
from tests.jax.catalogue.sample import REALS, Sample

Built = tuple[Callable[..., Any], tuple[Any, ...]]
LAX_ONE = """abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e bitwise_not cbrt ceil clz cos cosh digamma erf erf_inv
    erfc exp exp2 expm1 floor is_finite lgamma log log1p log2 logistic neg one_minus_square population_count reciprocal rsqrt
    sign sin sinh sqrt square stop_gradient tan tanh conj real imag"""
LAX_TWO = """add atan2 bitwise_and bitwise_or bitwise_xor div eq ge gt le lt max min mul mulhi ne nextafter pow rem
    shift_left shift_right_arithmetic shift_right_logical sub complex"""
JNP_ONE = """abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh bitwise_count
    bitwise_invert bitwise_not cbrt ceil conj conjugate copy cos cosh deg2rad degrees exp exp2 expm1 fabs floor frexp i0 imag
    invert iscomplex isfinite isinf isnan isneginf isposinf isreal log log10 log1p log2 logical_not modf nan_to_num
    negative positive rad2deg radians real reciprocal rint sign signbit sin sinc sinh spacing sqrt square tan tanh trunc
    ones_like zeros_like"""
JNP_TWO = """add arctan2 atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide divmod
    equal float_power floor_divide fmax fmin fmod gcd greater greater_equal heaviside hypot isclose lcm ldexp left_shift less
    less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum mod multiply nextafter not_equal power
    pow remainder right_shift subtract true_divide"""
NN_ONE = """celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log1mexp log_sigmoid mish relu relu6
    selu sigmoid silu soft_sign softplus sparse_plus sparse_sigmoid squareplus swish tanh"""
SPECIAL_ONE = """dawsn digamma entr erf erfc erfcx erfinv exp1 expi expit factorial fresnel gamma gammaln gammasgn i0 i0e i1 i1e
    log_ndtr logit loggamma ndtr ndtri sici spence wofz"""
SPECIAL_TWO = """beta betaln boxcox boxcox1p comb gammainc gammaincc kl_div owens_t poch rel_entr xlog1py xlogy zeta"""


@recipe("lax", LAX_ONE, pointwise=True, bound=2)
@recipe("jnp", JNP_ONE, pointwise=True, bound=2)
@recipe("nn", NN_ONE, pointwise=True, bound=2)
def one(s: Sample, f: Any) -> Built:
    return f, (s.a(),)


@recipe("lax", LAX_TWO, pointwise=True)
def two_alike(s: Sample, f: Any) -> Built:
    return f, (s.a(), s.a())


@recipe("jnp", JNP_TWO, pointwise=True, bound=2)
def two(s: Sample, f: Any) -> Built:
    number = s.pick(2, 0.5, -1, True, 0)
    how = s.pick("array", "array", "array", "number")
    if how == "number":
        return lambda x: f(x, number), (s.a(),)
    dtype = s.other()
    if f is jnp.ldexp:
        dtype = s.pick("int32", "int8", dtype)
    return f, (s.a(), s.a(s.beside(s.shape), dtype))


@recipe("scipy.special", SPECIAL_ONE, pointwise=True, bound=16)
def special_one(s: Sample, f: Any) -> Built:
    return f, (s.a(),)


@recipe("scipy.special", SPECIAL_TWO, pointwise=True, bound=16)
def special_two(s: Sample, f: Any) -> Built:
    a, b = s.a(), s.a(s.beside(s.shape))
    if s.pick(True, True, False) and s.dtype != "bool":
        a, b = np.abs(a).astype(a.dtype), np.abs(b).astype(b.dtype)
    if f.__name__ == "zeta":  # from 1e17 on JAX gives NaN
        a = s.tame()
    return f, (a, b)


@recipe("lax", "igamma igammac zeta polygamma igamma_grad_a random_gamma_grad", pointwise=True, bound=16)
def positive_pairs(s: Sample, f: Any) -> Built:
    a, b = s.a(), s.a()
    if s.pick(True, True, False) and s.dtype != "bool":
        a, b = np.abs(a).astype(a.dtype), np.abs(b).astype(b.dtype)
    if f.__name__ == "zeta":  # from 1e17 on JAX gives NaN
        a = s.tame()
    if f.__name__ == "polygamma":
        a = np.round(a).astype(a.dtype)
    return f, (a, b)


@recipe("lax", "betainc", pointwise=True, bound=16)
@recipe("scipy.special", "betainc hyp1f1", pointwise=True, bound=16)
def three(s: Sample, f: Any) -> Built:
    a, b = (np.abs(s.a()).astype(s.a().dtype) if s.dtype != "bool" else s.a() for _ in range(2))
    x = s.a()
    return f, (a, b, np.clip(np.abs(x), 0, 1).astype(x.dtype) if s.dtype in REALS else x)


@recipe("scipy.special", "hyp2f1", pointwise=True, bound=32)
def four(s: Sample, f: Any) -> Built:
    x = s.tame()
    return f, (s.tame(), s.tame(), s.tame(), (x / 4).astype(x.dtype) if s.dtype in REALS else x)


@recipe("scipy.special", "multigammaln", pointwise=True, bound=16)
def multigammaln(s: Sample, f: Any) -> Built:
    d, x = s.integer(1, 4), s.a()
    return lambda x: f(x, d), ((np.abs(x) + 2).astype(x.dtype) if s.dtype in REALS else x,)


@recipe("scipy.special", "polygamma expn", pointwise=True, bound=32)
def by_order(s: Sample, f: Any) -> Built:
    n, x = s.integer(0, 4), s.a()
    return lambda x: f(n, x), (np.abs(x).astype(x.dtype) if s.dtype != "bool" else x,)


@recipe("scipy.special", "bernoulli")
def bernoulli(s: Sample, f: Any) -> Built:
    n = s.integer(0, 9)
    return lambda x: f(n) + x, (s.a(dtype="float32"),)


@recipe("scipy.special", "bessel_jn", bound=32)
def bessel_jn(s: Sample, f: Any) -> Built:
    v, n = s.integer(0, 3), s.pick(10, 50)
    return lambda z: f(z, v=v, n_iter=n), (s.a(s.ranked(1, 1)),)


@recipe("scipy.special", "sph_harm_y", bound=32)
def sph_harm_y(s: Sample, f: Any) -> Built:
    count = s.pick(1, 3)
    n, m = s.ints((count,), "int32", 0, 3), s.ints((count,), "int32", 0, 2)
    n = np.maximum(n, m)
    return lambda n, m, t, p: f(n, m, t, p, n_max=4), (n, m, s.tame((count,)), s.tame((count,)))


@recipe("scipy.special", "logsumexp")
@recipe("nn", "logsumexp logmeanexp")
def logsumexp(s: Sample, f: Any) -> Built:
    shape = s.ranked(0)
    axis, keep = s.axes(shape), s.pick(True, False)
    return lambda x: f(x, axis=axis, keepdims=keep), (s.a(shape),)


@recipe("scipy.special", "softmax log_softmax")
@recipe("nn", "softmax log_softmax standardize")
def softmax(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    axis = s.axis(shape)
    return lambda x: f(x, axis=axis), (s.a(shape),)


@recipe("nn", "glu")
def glu(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    return f, (s.a((*shape[:-1], 2 * shape[-1])),)


@recipe("nn", "one_hot")
def one_hot(s: Sample, f: Any) -> Built:
    axis, count, dtype = s.pick(-1, 0), s.integer(0, 7), s.pick("float32", "int32")
    return lambda x: f(x, count, axis=axis, dtype=dtype), (s.a(),)


@recipe("nn", "dot_product_attention", bound=4)
def attention(s: Sample, f: Any) -> Built:
    t, k, n, h = s.integer(1, 5), s.integer(1, 7), s.pick(1, 2, 3), s.pick(1, 4, 5)
    groups = s.pick(n, 1)
    causal = s.pick(True, False)
    kv = (2, k, groups, h)
    # its softmax is of float32
    return lambda q, k, v: f(q, k, v, is_causal=causal).astype("float32"), (
        s.tame((2, t, n, h)),
        s.tame(kv),
        s.tame(kv),
    )


@recipe("jnp", "where")
def where(s: Sample, f: Any) -> Built:
    return f, (s.a(dtype="bool"), s.a(s.beside(s.shape)), s.a(s.beside(s.shape), s.other()))


@recipe("jnp", "clip")
def clip(s: Sample, f: Any) -> Built:
    low, high = s.pick((-1, 2), (0, None), (None, 1), (2, -1), (-1.5, 2.5))
    return lambda x: f(x, low, high), (s.a(),)


@recipe("jnp", "round around", pointwise=True)
def rounded(s: Sample, f: Any) -> Built:
    decimals = s.pick(0, 1, -1, 2)
    return lambda x: f(x, decimals), (s.a(),)


@recipe("jnp", "unwrap")
def unwrap(s: Sample, f: Any) -> Built:
    shape = s.ranked(1)
    axis = s.axis(shape)
    return lambda x: f(x, axis=axis), (s.a(shape),)


@recipe("jnp", "astype")
def astype(s: Sample, f: Any) -> Built:
    to = s.other() if s.pick(True, False) else s.pick("int32", "float32", "bool", "uint8", "bfloat16")
    return lambda x: f(x, to), (s.a(),)


@recipe("lax", "convert_element_type")
def convert(s: Sample, f: Any) -> Built:
    from tests.jax.catalogue.sample import DTYPES, WIDE

    to = s.pick(*(t for t in DTYPES if s.x64 or t not in WIDE))
    return lambda x: f(x, to), (s.a(),)


@recipe("lax", "bitcast_convert_type")
def bitcast(s: Sample, f: Any) -> Built:
    to = s.pick("int8", "uint16", "int32", "uint32", "float16", "bfloat16", "float32", *(("int64", "float64") * s.x64))
    shape = s.ranked(0)
    if s.pick(True, False):
        size = np.dtype("uint16" if to in ("float16", "bfloat16") else to).itemsize
        own = s.a(()).dtype.itemsize
        if size > own:
            shape = (*shape, size // own)
    return lambda x: f(x, to), (s.a(shape),)


@recipe("lax", "clamp")
def clamp(s: Sample, f: Any) -> Built:
    bound = s.pick((), s.shape)
    low, high = s.a(bound, style="tame"), s.a(bound, style="tame")
    if s.dtype not in ("complex64", "complex128"):
        low, high = np.minimum(low, high), np.maximum(low, high)
    return f, (low, s.a(), high)


@recipe("lax", "select")
def select(s: Sample, f: Any) -> Built:
    return f, (s.a(s.pick((), s.shape), "bool"), s.a(), s.a())


@recipe("lax", "select_n")
def select_n(s: Sample, f: Any) -> Built:
    count = s.integer(2, 4)
    which = s.ints(s.pick((), s.shape), "int32", 0, count - 1)
    return f, (which, *(s.a() for _ in range(count)))


@recipe("lax", "integer_pow", pointwise=True)
def integer_pow(s: Sample, f: Any) -> Built:
    y = s.integer(-4, 9)
    return lambda x: f(x, y), (s.a(),)


@recipe("lax", "round", pointwise=True)
def lax_round(s: Sample, f: Any) -> Built:
    from jax import lax

    method = s.pick(*lax.RoundingMethod)
    return lambda x: f(x, method), (s.a(),)


@recipe("lax", "reduce_precision", pointwise=True)
def reduce_precision(s: Sample, f: Any) -> Built:
    e, m = s.pick((5, 10), (8, 7), (4, 3), (8, 23), (5, 2), (2, 1), (11, 30))
    return lambda x: f(x, e, m), (s.a(),)
