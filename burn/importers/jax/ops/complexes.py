"""Complex numbers: what moves them, arithmetic, functions, sums, sorts and Fourier transforms. Decompositions are in
complex_linalg.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from jax import lax
from jax import numpy as jnp

from burn.dialect import ops
from burn.dialect.complexes.functions import FUNCTIONS, exponential, logarithm, power, shifted
from burn.dialect.complexes.pair import (
    Complex,
    as_complex,
    as_pairs,
    conjugate,
    converted,
    divided,
    each,
    equal,
    integer_power,
    larger,
    leaves,
    of_pairs,
    rebuilt,
    smaller,
    times,
)
from burn.dialect.compose import broadcast_to
from burn.dialect.deferred import Value
from burn.dialect.types import type_of
from burn.importers.jax.complexes import as_it_is, by_parts, complex_primitive, zeros
from burn.importers.jax.dtypes import dtype_name, is_complex
from burn.importers.jax.equation import RULES, Equation
from burn.importers.jax.ops import calls, control, indexing, reduction, sorting, windows  # noqa: F401  enter rules for all values
from burn.importers.lax import fourier
from burn.importers.lax.conversion import convert_element_type
from burn.importers.lax.reduction import reduce_with
from burn.importers.lax.scalars import like
from burn.importers.lax.shaping import iota
from burn.importers.lax.sort import Key
from burn.importers.lax.sort import sort as sorted_

MOVED = (
    *("add", "add_any", "broadcast_in_dim", "broadcast_to", "concatenate", "copy", "copy_p", "cumsum", "dynamic_slice"),
    *(
        "dynamic_update_slice",
        "dimension_size",
        "expand_dims",
        "neg",
        "pad",
        "psum",
        "reduce_precision",
        "reduce_sum",
        "reduce_window_sum",
    ),
    *("reshape", "rev", "select_n", "slice", "split", "squeeze", "stack", "stop_gradient", "sub", "tile", "transpose"),
    "unstack",
)
"""Primitives that move elements or are linear in them."""
ALIKE = (
    *(
        "call",
        "call_hi_primitive",
        "closed_call",
        "composite",
        "cond",
        "core_call",
        "custom_jvp_call",
        "custom_linear_solve",
    ),
    *("custom_lin", "custom_vjp_call", "custom_vmap_call", "device_put", "eval_jaxpr", "jit", "layout_constraint"),
    *(
        "linear_call",
        "name",
        "optimization_barrier",
        "optimization_barrier_p",
        "pjit",
        "reduced_vary_cast_p",
        "remat_opt",
    ),
    *(
        "reshard",
        "scan",
        "sharding_constraint",
        "tie",
        "tie_in",
        "ragged_dot_general",
        "vary_unreduced_cast_p",
        "while",
    ),
    *("with_memory_space_constraint", "xla_call", "checkpoint", "remat", "remat2"),
)
"""Primitives that run other jaxprs, give their operands, or are expanded into functions of JAX's arrays."""
for _name in MOVED:
    complex_primitive(_name)(by_parts)
for _name in ALIKE:
    complex_primitive(_name)(as_it_is)


# ---- functions of elements ---------------------------------------------------------------------------------------------------
def _of_one(function: Callable[[Complex], Any]) -> Callable[..., Any]:
    return lambda eqn, x: function(as_complex(x))


def _of_two(function: Callable[[Complex, Complex], Any]) -> Callable[..., Any]:
    return lambda eqn, a, b: function(as_complex(a), as_complex(b))


UNARY: dict[str, Callable[[Complex], Any]] = {
    **{name: function for name, function in FUNCTIONS.items() if name != "conj"},
    "log2": lambda z: each(logarithm(z), lambda x: ops.div(x, like(math.log(2.0), x))),
    "one_minus_square": lambda z: times(_from_one(z), shifted(z, 1.0)),
    "exp2": lambda z: exponential(times(z, Complex(like(math.log(2.0), z.real), like(0.0, z.real)))),
}
BINARY: dict[str, Callable[[Complex, Complex], Any]] = {
    "atan2": lambda a, b: _angle(a, b),
    "div": divided,
    "eq": equal,
    "max": larger,
    "min": smaller,
    "mul": times,
    "ne": lambda a, b: ops.not_(equal(a, b)),
    "pow": lambda a, b: power(a, converted(b, type_of(a.real).dtype)),  # JAX takes a power of integers
}


@complex_primitive("conj")
def conj(eqn: Equation, x: Any, *, input_dtype: Any) -> Complex:
    return conjugate(as_complex(x))


for _name, _one in UNARY.items():
    complex_primitive(_name)(_of_one(_one))
for _name, _two in BINARY.items():
    complex_primitive(_name)(_of_two(_two))


def _from_one(z: Complex) -> Complex:
    """1 - z; the imaginary part 0 - 0 is +0, which chooses the side of a branch cut."""
    return Complex(ops.sub(like(1.0, z.real), z.real), ops.sub(like(0.0, z.imag), z.imag))


def _angle(y: Complex, x: Complex) -> Complex:
    """-i log((x + iy) / sqrt(x^2 + y^2)), as StableHLO defines it."""
    inner = Complex(ops.sub(x.real, y.imag), ops.add(x.imag, y.real))
    square = Complex(*(ops.add(p, q) for p, q in zip(leaves([times(x, x)]), leaves([times(y, y)]), strict=True)))
    found = logarithm(divided(inner, FUNCTIONS["sqrt"](square)))
    return Complex(found.imag, ops.neg(found.real))


@complex_primitive("le_to", "lt_to", "eq_to")
def in_order(eqn: Equation, a: Any, b: Any) -> Value:
    """In the order of real parts, then of imaginary parts, each in the total order of floats."""
    a, b = as_complex(a), as_complex(b)
    compare = partial(eqn.call, RULES["lt_to"])
    same = ops.and_(*(_total_equal(p, q) for p, q in ((a.real, b.real), (a.imag, b.imag))))
    if eqn.op == "eq_to":
        return same
    first, second = compare([a.real, b.real]), compare([a.imag, b.imag])
    before = ops.or_(first, ops.and_(_total_equal(a.real, b.real), second))
    return before if eqn.op == "lt_to" else ops.or_(before, same)


def _total_equal(a: Value, b: Value) -> Value:
    word = f"int{8 * np.dtype(type_of(a).dtype).itemsize}"
    return ops.eq(ops.bitcast(a, dtype=word), ops.bitcast(b, dtype=word))


@complex_primitive("integer_pow")
def integer_pow(eqn: Equation, x: Complex, *, y: int) -> Complex:
    return integer_power(x, y)


@complex_primitive("complex")
def complex_(eqn: Equation, real: Value, imag: Value) -> Complex:
    return Complex(*(broadcast_to(part, eqn.shape) for part in (real, imag)))


@complex_primitive("clamp")
def clamp(eqn: Equation, low: Any, x: Complex, high: Any) -> Complex:
    return smaller(larger(x, as_complex(low)), as_complex(high))


@complex_primitive("convert_element_type")
def convert_(eqn: Equation, x: Any, *, new_dtype: Any, weak_type: bool, sharding: Any) -> Any:
    """To real numbers: the real part; to bools: whether it is not 0."""
    dtype = dtype_name(new_dtype)
    if not is_complex(new_dtype):
        if dtype == "bool":
            return ops.or_(*(ops.ne(p, like(0.0, p)) for p in (x.real, x.imag)))
        return convert_element_type(x.real, dtype)
    return converted(x, dtype) if isinstance(x, Complex) else as_complex(convert_element_type(x, dtype))


@complex_primitive("iota")
def iota_(eqn: Equation, *sizes: Value, dtype: Any, shape: Any, dimension: int, sharding: Any) -> Complex:
    return as_complex(iota(eqn.sizes(shape), dimension, dtype_name(dtype)))


@complex_primitive("empty", "empty2", "zeros_like")
def nothing(eqn: Equation, *operands: Any, **params: Any) -> Any:
    return zeros(eqn, eqn.aval())


# ---- contractions ------------------------------------------------------------------------------------------------------------
@complex_primitive("dot_general", "conv_general_dilated")
def contraction(eqn: Equation, lhs: Any, rhs: Any, **params: Any) -> Any:
    """Of both parts with both; a real operand has one. If real numbers are asked for, the real part."""

    def multiply(a: Value, b: Value) -> Value:
        return eqn.call(RULES[eqn.op], [a, b])

    if not isinstance(lhs, Complex):
        found = each(rhs, lambda part: multiply(lhs, part))
    elif not isinstance(rhs, Complex):
        found = each(lhs, lambda part: multiply(part, rhs))
    else:
        found = times(lhs, rhs, multiply)
    return found if is_complex(eqn.aval().dtype) else found.real


# ---- reductions --------------------------------------------------------------------------------------------------------------
COMBINE: dict[str, tuple[Callable[[Complex, Complex], Complex], complex]] = {
    "prod": (times, 1.0),
    "max": (larger, complex(-np.inf, -np.inf)),
    "min": (smaller, complex(np.inf, np.inf)),
}
"""A function of two, and the number that a reduction of nothing gives."""


def _by(function: Callable[[Complex, Complex], Complex]) -> Callable[..., list[Value]]:
    return lambda a, b: leaves([function(Complex(*a), Complex(*b))])


@complex_primitive("reduce_prod", "reduce_max", "reduce_min")
def reduce_(eqn: Equation, x: Complex, *, axes: Sequence[int], out_sharding: Any = None) -> Complex:
    function, start = COMBINE[eqn.op.removeprefix("reduce_")]
    starts = [like(start.real, x.real), like(start.imag, x.imag)]
    return Complex(*reduce_with(leaves([x]), starts, axes, _by(function)))


@complex_primitive("cumprod", "cummax", "cummin")
def cumulative(eqn: Equation, x: Complex, *, axis: int, reverse: bool) -> Any:
    function = {"cumprod": lax.mul, "cummax": lax.max, "cummin": lax.min}[eqn.op]
    return eqn.expand(partial(lax.associative_scan, function, axis=axis, reverse=reverse), x)


@complex_primitive("cumlogsumexp")
def cumlogsumexp(eqn: Equation, x: Complex, *, axis: int, reverse: bool) -> Any:
    """The sum starts at log 0, so that the first angle too is between -pi and pi."""

    def function(x: Any) -> Any:
        started = jnp.logaddexp(jnp.full_like(x, -jnp.inf), x)
        return lax.associative_scan(jnp.logaddexp, started, axis=axis, reverse=reverse)

    return eqn.expand(function, x)


def _many(operands: Sequence[Any]) -> tuple[list[Any], list[Any], list[bool]]:
    """Operands and starts of a reduction by a function, flat, and which are complex."""
    count = len(operands) // 2
    both = [isinstance(x, Complex) for x in operands[:count]]
    return leaves(operands[:count]), leaves(operands[count:]), both


@complex_primitive("reduce")
def reduce_by(eqn: Equation, *operands: Any, computation: Any, jaxpr: Any, dimensions: Sequence[int]) -> Any:
    """By a function of the user's, which the jaxpr is of scalars."""
    xs, starts, both = _many(operands)

    def combine(a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        return leaves(eqn.elementwise(jaxpr, [*rebuilt(a, both), *rebuilt(b, both)]))

    return rebuilt(reduce_with(xs, starts, dimensions, combine), both)


@complex_primitive("reduce_window")
def reduce_windows(eqn: Equation, *operands: Any, jaxpr: Any, consts: Any, padding: Any, **window: Any) -> Any:
    xs, starts, both = _many(operands)

    def combine(a: Any, b: Any) -> list[Value]:
        return leaves(eqn.elementwise(jaxpr, [*rebuilt(a, both), *rebuilt(b, both)], consts))

    return rebuilt(windows.reduced(eqn, xs, starts, padding, combine, **window), both)


# ---- gather and scatter --------------------------------------------------------------------------------------------------------
@complex_primitive("gather")
def gather(eqn: Equation, x: Complex, indices: Value, *, fill_value: Any, **params: Any) -> Complex:
    """Elements out of range are NaN + 0i unless a number is given."""
    fill = complex(np.nan, 0.0) if fill_value is None else complex(fill_value)
    return Complex(
        *(
            eqn.with_parameters(fill_value=number).call(RULES[eqn.op], [part, indices])
            for part, number in ((x.real, fill.real), (x.imag, fill.imag))
        )
    )


@complex_primitive("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max")
def scatter(eqn: Equation, x: Complex, indices: Value, updates: Complex, **params: Any) -> Complex:
    """Sums and new elements by parts. Any other function takes pairs, as elements with a further axis."""
    jaxpr, consts = params["update_jaxpr"], params["update_consts"]
    if eqn.op in COMBINED:
        function = COMBINED[eqn.op]
    elif eqn.op == "scatter" and jaxpr is not None and not indexing.takes_the_update(jaxpr):
        function = partial(_by_jaxpr, eqn, jaxpr, consts)
    else:
        return by_parts(eqn, x, indices, updates)[0]

    def combine(a: Value, b: Value) -> Value:
        return as_pairs(function(of_pairs(a), of_pairs(b)))

    return of_pairs(
        indexing.scattered_with(
            eqn, as_pairs(x), indices, as_pairs(updates), (2,), combine, params["dimension_numbers"], params["mode"]
        )
    )


COMBINED: dict[str, Callable[[Complex, Complex], Complex]] = {
    "scatter-mul": times,
    "scatter-min": smaller,
    "scatter-max": larger,
}


def _by_jaxpr(eqn: Equation, jaxpr: Any, consts: Any, a: Complex, b: Complex) -> Complex:
    return as_complex(eqn.elementwise(jaxpr, [a, b], consts)[0])


# ---- sorts -------------------------------------------------------------------------------------------------------------------
@complex_primitive("sort")
def sort(eqn: Equation, *xs: Any, dimension: int, num_keys: int, is_stable: bool) -> list[Any]:
    """By real parts, then by imaginary parts."""
    both = [isinstance(x, Complex) for x in xs]
    keys = [Key(i) for i in range(len(leaves(xs[:num_keys])))]
    return rebuilt(sorted_(leaves(xs), dimension, keys), both)


# ---- Fourier transforms --------------------------------------------------------------------------------------------------------
@complex_primitive("fft")
def fft(eqn: Equation, x: Any, *, fft_type: Any, fft_lengths: Any) -> Any:
    kind = getattr(fft_type, "name", str(fft_type)).rpartition(".")[2]
    return fourier.fft(as_complex(x), kind, eqn.sizes(fft_lengths))
