"""Functions of elements: jax.lax, jax.numpy, jax.nn and jax.scipy.special."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
from jax import lax

from tests.jax.case import Case
from tests.jax.draw import FLOATS, INTS, WIDE, Draw
from tests.jax.families import entered

Domain = tuple[float, float]
ALL: Domain = (-3.0, 3.0)


def unary(
    name: str,
    function: Callable[..., Any],
    domain: Domain = ALL,
    dtypes: Sequence[str] = FLOATS,
    special: bool = True,
    bound: float = 1.0,
) -> None:
    def build(draw: Draw) -> Case:
        dtype = draw.pick(*dtypes)
        shape = draw.shape()
        if dtype == "bool" or not jnp.issubdtype(dtype, jnp.floating):
            return Case(name, function, (draw.any(shape, dtype),))
        extreme = special and draw.pick(True, False)
        x = draw.floats(shape, dtype, *domain, special=extreme)
        return Case(name, function, (x,), differentiable=not extreme, bound=bound)

    entered(name, build)


def binary(
    name: str,
    function: Callable[..., Any],
    domains: tuple[Domain, Domain] = (ALL, ALL),
    dtypes: Sequence[str] = FLOATS,
    special: bool = True,
    bound: float = 1.0,
    broadcast: bool = False,
) -> None:
    def build(draw: Draw) -> Case:
        dtype = draw.pick(*dtypes)
        shape = draw.shape()
        other = shape[draw.integer(0, len(shape)) :] if broadcast else shape
        if dtype == "bool" or not jnp.issubdtype(dtype, jnp.floating):
            return Case(name, function, (draw.any(shape, dtype), draw.any(other, dtype)))
        extreme = special and draw.pick(True, False)
        a, b = (draw.floats(s, dtype, *d, special=extreme) for s, d in zip((shape, other), domains, strict=True))
        return Case(name, function, (a, b), differentiable=not extreme, bound=bound)

    entered(name, build)


UNIT, POSITIVE, ABOVE = (-0.95, 0.95), (0.05, 6.0), (1.05, 6.0)

for _name, _domain in {
    "abs": ALL,
    "neg": ALL,
    "exp": ALL,
    "exp2": ALL,
    "expm1": ALL,
    "log": POSITIVE,
    "log1p": (-0.9, 4.0),
    "sqrt": POSITIVE,
    "rsqrt": POSITIVE,
    "cbrt": ALL,
    "square": ALL,
    "logistic": ALL,
    "sin": (-9.0, 9.0),
    "cos": (-9.0, 9.0),
    "tan": (-1.4, 1.4),
    "asin": UNIT,
    "acos": UNIT,
    "atan": ALL,
    "sinh": ALL,
    "cosh": ALL,
    "tanh": ALL,
    "asinh": ALL,
    "acosh": ABOVE,
    "atanh": UNIT,
    "floor": ALL,
    "ceil": ALL,
    "sign": ALL,
    "is_finite": ALL,
    "reciprocal": POSITIVE,
    "erf": ALL,
    "erfc": ALL,
}.items():
    unary(f"lax.{_name}", getattr(lax, _name), _domain)
for _name, _domain in {
    "erf_inv": UNIT,
    "lgamma": (0.1, 9.0),
    "digamma": (0.1, 9.0),
    "bessel_i0e": ALL,
    "bessel_i1e": ALL,
}.items():
    unary(f"lax.{_name}", getattr(lax, _name), _domain, WIDE, bound=4)
unary("lax.erfc_far", lax.erfc, (-10.0, 12.0), WIDE)
unary("lax.lgamma_far", lax.lgamma, (-9.5, 60.0), WIDE, bound=8)
unary("lax.digamma_far", lax.digamma, (-4.6, 60.0), WIDE, bound=16)
unary("lax.round_even", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN))
unary("lax.round_away", lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO))
for _power in (-3, -1, 0, 1, 2, 3, 5, 8):
    unary(f"lax.integer_pow_{_power}", lambda x, p=_power: lax.integer_pow(x, p), (0.3, 2.5))
unary("lax.integer_pow_int", lambda x: lax.integer_pow(x, 3), dtypes=INTS)
for _name in ("abs", "sign", "neg", "population_count", "clz", "bitwise_not", "square"):
    unary(f"lax.int_{_name}", getattr(lax, _name), dtypes=INTS)
unary("lax.not_bool", lax.bitwise_not, dtypes=("bool",))
for _e, _m in ((5, 10), (8, 7), (4, 3), (8, 23), (5, 2), (8, 3)):
    unary(f"lax.reduce_precision_{_e}_{_m}", lambda x, e=_e, m=_m: lax.reduce_precision(x, e, m), dtypes=WIDE)

for _name in ("add", "sub", "mul", "max", "min", "atan2", "nextafter"):
    binary(f"lax.{_name}", getattr(lax, _name), dtypes=WIDE if _name == "nextafter" else FLOATS)
binary("lax.div", lax.div, (ALL, POSITIVE))
binary("lax.rem", lax.rem, (ALL, POSITIVE), special=False)
binary("lax.pow", lax.pow, (POSITIVE, ALL))
binary("lax.pow_any", lax.pow, (ALL, ALL), WIDE)
for _name in (
    "add",
    "sub",
    "mul",
    "max",
    "min",
    "div",
    "rem",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "shift_left",
    "shift_right_logical",
    "shift_right_arithmetic",
):
    binary(f"lax.int_{_name}", getattr(lax, _name), dtypes=INTS)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor", "max", "min"):
    binary(f"lax.bool_{_name}", getattr(lax, _name), dtypes=("bool",))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    binary(f"lax.{_name}", getattr(lax, _name), dtypes=(*FLOATS, *INTS, "bool"))
binary("lax.igamma", lax.igamma, ((0.2, 5.0), POSITIVE), WIDE, False, 4)
binary("lax.igammac", lax.igammac, ((0.2, 5.0), POSITIVE), WIDE, False, 4)
binary("lax.zeta", lax.zeta, ((1.1, 6.0), (0.2, 6.0)), WIDE, False, 8)
binary("lax.polygamma", lambda n, x: lax.polygamma(jnp.round(n), x), ((0.0, 4.0), (0.5, 6.0)), WIDE, False, 16)

CASTS = ("float32", "float16", "bfloat16", "int32", "int8", "int16", "uint8", "uint16", "uint32", "bool")
for _target in CASTS:
    unary(f"lax.convert_{_target}", lambda x, t=_target: lax.convert_element_type(x, t), (-300.0, 300.0), CASTS)
for _target in ("float32", "int32", "uint32"):
    unary(
        f"lax.bitcast_{_target}",
        lambda x, t=_target: lax.bitcast_convert_type(x, t),
        dtypes=("float32", "int32", "uint32"),
    )
for _target in ("int8", "uint16", "bfloat16"):
    unary(f"lax.bitcast_{_target}", lambda x, t=_target: lax.bitcast_convert_type(x, t), dtypes=("float32", "int32"))
for _target in ("float8_e4m3fn", "float8_e5m2"):
    unary(f"lax.round_{_target}", lambda x, t=_target: x.astype(t).astype(x.dtype), (-20.0, 20.0), WIDE, special=False)

# ---- jax.numpy -------------------------------------------------------------------------------------------------------------
for _name, _domain in {
    "abs": ALL,
    "exp": ALL,
    "exp2": ALL,
    "expm1": ALL,
    "log": POSITIVE,
    "log2": POSITIVE,
    "log10": POSITIVE,
    "log1p": (-0.9, 4.0),
    "sqrt": POSITIVE,
    "cbrt": ALL,
    "square": ALL,
    "sin": (-9.0, 9.0),
    "cos": (-9.0, 9.0),
    "tan": (-1.4, 1.4),
    "arcsin": UNIT,
    "arccos": UNIT,
    "arctan": ALL,
    "sinh": ALL,
    "cosh": ALL,
    "tanh": ALL,
    "arcsinh": ALL,
    "arccosh": ABOVE,
    "arctanh": UNIT,
    "floor": ALL,
    "ceil": ALL,
    "trunc": ALL,
    "rint": ALL,
    "round": ALL,
    "fix": ALL,
    "sign": ALL,
    "signbit": ALL,
    "isfinite": ALL,
    "isnan": ALL,
    "isinf": ALL,
    "isposinf": ALL,
    "isneginf": ALL,
    "reciprocal": POSITIVE,
    "deg2rad": ALL,
    "rad2deg": ALL,
    "sinc": ALL,
    "i0": ALL,
    "nan_to_num": ALL,
    "positive": ALL,
    "negative": ALL,
    "fabs": ALL,
    "real": ALL,
    "conj": ALL,
    "modf": ALL,
    "frexp": POSITIVE,
    "spacing": POSITIVE,
}.items():
    if hasattr(jnp, _name):
        unary(
            f"jnp.{_name}",
            getattr(jnp, _name),
            _domain,
            WIDE if _name in ("i0", "frexp", "spacing", "nan_to_num") else FLOATS,
        )
for _name in (
    "abs",
    "sign",
    "square",
    "bitwise_not",
    "bitwise_count",
    "invert",
    "exp",
    "sqrt",
    "sin",
    "floor",
    "ceil",
    "round",
):
    unary(f"jnp.int_{_name}", getattr(jnp, _name), dtypes=("int32", "int8", "uint8", "uint32"))
unary("jnp.logical_not", jnp.logical_not, dtypes=("bool", "float32", "int32"))
for _name, _domains in {
    "add": (ALL, ALL),
    "subtract": (ALL, ALL),
    "multiply": (ALL, ALL),
    "divide": (ALL, POSITIVE),
    "power": (POSITIVE, ALL),
    "float_power": (POSITIVE, ALL),
    "maximum": (ALL, ALL),
    "minimum": (ALL, ALL),
    "fmax": (ALL, ALL),
    "fmin": (ALL, ALL),
    "arctan2": (ALL, ALL),
    "hypot": (ALL, ALL),
    "logaddexp": (ALL, ALL),
    "logaddexp2": (ALL, ALL),
    "copysign": (ALL, ALL),
    "heaviside": (ALL, ALL),
    "nextafter": (ALL, ALL),
    "equal": (ALL, ALL),
    "not_equal": (ALL, ALL),
    "less": (ALL, ALL),
    "less_equal": (ALL, ALL),
    "greater": (ALL, ALL),
    "greater_equal": (ALL, ALL),
    "isclose": (ALL, ALL),
}.items():
    binary(
        f"jnp.{_name}",
        getattr(jnp, _name),
        _domains,
        WIDE if _name in ("nextafter", "float_power") else FLOATS,
        broadcast=True,
    )
for _name in ("remainder", "fmod", "mod", "floor_divide", "divmod"):
    binary(
        f"jnp.{_name}",
        getattr(jnp, _name),
        (ALL, POSITIVE),
        ("float32", "int32", "uint8"),
        special=False,
        broadcast=True,
    )
for _name in (
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "power",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
    "gcd",
    "lcm",
    "equal",
    "less",
    "floor_divide",
    "true_divide",
):
    binary(f"jnp.int_{_name}", getattr(jnp, _name), dtypes=("int32", "int8", "uint8", "uint32"), broadcast=True)
for _name in ("logical_and", "logical_or", "logical_xor"):
    binary(f"jnp.{_name}", getattr(jnp, _name), dtypes=("bool", "int32", "float32"), broadcast=True)
binary("jnp.ldexp", lambda x, n: jnp.ldexp(x, jnp.round(n).astype("int32")), dtypes=WIDE, special=False)


def _mixed(draw: Draw) -> Case:
    """Promotion of different element types, and of Python numbers."""
    first, second = draw.pick(*FLOATS, *INTS, "bool"), draw.pick(*FLOATS, *INTS, "bool")
    shape = draw.shape()
    number = draw.pick(2, 0.5, -1, True)
    operation = draw.pick(jnp.add, jnp.multiply, jnp.maximum)
    a, b = draw.any(shape, first), draw.any(shape, second)
    return Case("jnp.promotion", lambda a, b: operation(operation(a, number), b), (a, b))


entered("jnp.promotion", _mixed)


def _where(draw: Draw) -> Case:
    shape, dtype = draw.shape(), draw.pick(*FLOATS, "int32", "bool")
    a, b = draw.any(shape, dtype), draw.any(shape, dtype)
    return Case("jnp.where", jnp.where, (draw.bools(shape), a, b), differentiable=True)


def _clip(draw: Draw) -> Case:
    shape, dtype = draw.shape(), draw.pick(*FLOATS, "int32")
    return Case("jnp.clip", lambda x: jnp.clip(x, -1, 2), (draw.any(shape, dtype),), differentiable=True)


def _clamp(draw: Draw) -> Case:
    shape, dtype = draw.shape(), draw.pick("float32", "int32")
    bound = draw.pick((), shape)
    low, high = draw.any(bound, dtype), draw.any(bound, dtype)
    return Case(
        "lax.clamp",
        lax.clamp,
        (jnp.minimum(low, high), draw.any(shape, dtype), jnp.maximum(low, high)),
        differentiable=True,
    )


def _select_n(draw: Draw) -> Case:
    shape, count = draw.shape(), draw.integer(2, 4)
    which = draw.ints(draw.pick((), shape), "int32", 0, count - 1)
    cases = tuple(draw.floats(shape) for _ in range(count))
    return Case("lax.select_n", lambda w, *c: lax.select_n(w, *c), (which, *cases), differentiable=True)


for _builder in (_where, _clip, _clamp, _select_n):
    entered(
        {"_where": "jnp.where", "_clip": "jnp.clip", "_clamp": "lax.clamp", "_select_n": "lax.select_n"}[
            _builder.__name__
        ],
        _builder,
    )

# ---- jax.nn and jax.scipy.special ------------------------------------------------------------------------------------------
for _name in (
    "relu",
    "relu6",
    "sigmoid",
    "softplus",
    "soft_sign",
    "silu",
    "swish",
    "log_sigmoid",
    "leaky_relu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "elu",
    "celu",
    "selu",
    "gelu",
    "squareplus",
    "mish",
    "identity",
    "sparse_plus",
    "sparse_sigmoid",
):
    unary(f"nn.{_name}", getattr(jax.nn, _name))
unary("nn.gelu_exact", lambda x: jax.nn.gelu(x, approximate=False))
for _name, _domain in {
    "gammaln": (0.2, 9.0),
    "digamma": (0.2, 9.0),
    "erf": ALL,
    "erfc": ALL,
    "erfinv": UNIT,
    "expit": ALL,
    "logit": (0.05, 0.95),
    "ndtr": ALL,
    "ndtri": (0.05, 0.95),
    "log_ndtr": (-8.0, 6.0),
    "i0": ALL,
    "i0e": ALL,
    "i1": ALL,
    "i1e": ALL,
    "entr": (0.0, 3.0),
    "exp1": POSITIVE,
    "expi": POSITIVE,
    "gamma": (0.3, 5.0),
    "factorial": (0.0, 6.0),
    "spence": POSITIVE,
    "bernoulli": ALL,
}.items():
    if hasattr(jsp, _name) and _name != "bernoulli":
        unary(f"scipy.{_name}", getattr(jsp, _name), _domain, WIDE, special=False, bound=8)
for _name, _domains in {
    "xlogy": (POSITIVE, POSITIVE),
    "xlog1py": (POSITIVE, POSITIVE),
    "rel_entr": (POSITIVE, POSITIVE),
    "kl_div": (POSITIVE, POSITIVE),
    "gammainc": (POSITIVE, POSITIVE),
    "gammaincc": (POSITIVE, POSITIVE),
    "betaln": (POSITIVE, POSITIVE),
    "beta": (ABOVE, ABOVE),
    "zeta": (ABOVE, POSITIVE),
    "boxcox": (POSITIVE, ALL),
    "poch": (ABOVE, ABOVE),
}.items():
    if hasattr(jsp, _name):
        binary(f"scipy.{_name}", getattr(jsp, _name), _domains, WIDE, special=False, bound=16)


def _betainc(draw: Draw) -> Case:
    shape = draw.shape()
    operands = (
        draw.floats(shape, low=0.3, high=4.0),
        draw.floats(shape, low=0.3, high=4.0),
        draw.floats(shape, low=0.05, high=0.95),
    )
    return Case("scipy.betainc", jsp.betainc, operands, bound=8)


entered("scipy.betainc", _betainc)


def _multigammaln(draw: Draw) -> Case:
    return Case(
        "scipy.multigammaln", lambda x: jsp.multigammaln(x, 3), (draw.floats(draw.shape(), low=2.0, high=6.0),), True, 8
    )


entered("scipy.multigammaln", _multigammaln)


def _polygamma(draw: Draw) -> Case:
    n = draw.integer(0, 3)
    return Case(
        "scipy.polygamma", lambda x: jsp.polygamma(n, x), (draw.floats(draw.shape(), low=0.5, high=6.0),), True, 16
    )


entered("scipy.polygamma", _polygamma)
