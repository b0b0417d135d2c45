"""Rules for ops with complex operands or results: pairs in, pairs out.

    @pair_rule("exp")
    def exp(z: Complex) -> Complex: ...

A rule is called with the op's operands, complex ones as `Complex`, and its attributes. It returns a value for each result, a
`Complex` if the result is complex. Attributes that name the complex element type name that of the parts (`Complex` has none).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burn.dialect import ops
from burn.dialect.complexes import functions, pair
from burn.dialect.complexes.c99 import C99
from burn.dialect.complexes.pair import Complex, as_complex, chosen, converted, each, equal, full, part_of
from burn.dialect.compose import broadcast_to, convert, dim_value, number, number_like, part, reshape, transpose
from burn.dialect.constants import written
from burn.dialect.control import Loop
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim, dim_max, product
from burn.dialect.mlir import ir
from burn.dialect.types import PARTS, TensorType, broadcast_shapes, type_of

Rule = Callable[..., Any]

UNROLLED = 64
"""The largest exponent of a power that is computed by multiplications."""

RULES: dict[str, Rule] = {}
"""An op's name -> its rule."""

BY_PARTS = (
    *("reshape", "broadcast_to", "transpose", "slice", "pad", "concat", "gather", "gather_elements", "gather_nd"),
    *("add", "sub", "neg", "stop_gradient", "barrier", "windows", "scatter_elements", "scatter_nd", "window_reduce"),
)
"""Ops that move elements or are linear in them: both parts alike. Operands that are not complex serve both."""

WHOLE = frozenset({
    "unique", "nonzero", "list_empty", "list_insert", "list_erase", "list_length", "list_at", "list_concat", "list_split",
})  # fmt: skip
"""Ops that only move and compare elements, and take complex tensors as they are in memory."""

REFUSED = {
    **dict.fromkeys(
        ("lt", "le", "gt", "ge", "min", "max", "sort", "arg_reduce", "clip"), "complex numbers have no order"
    ),
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "floordiv", "mod", "fmod"), "complex numbers are not rounded"),
}
"""Ops without a rule, with the reason."""


def pair_rule(*names: str) -> Callable[[Rule], Rule]:
    """Enters the rule of these ops."""

    def register(rule: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"burn.{name} has two rules for complex numbers")
            RULES[name] = rule
        return rule

    return register


def refusal(name: str, attrs: dict[str, Any]) -> str:
    """The reason why an op has no rule for complex tensors; "" if it has one."""
    kind = attrs.get("kind")
    if name in ("reduce", "cumulative") and kind not in ("sum", "prod"):
        return f"'{kind}' needs an order, which complex numbers do not have"
    if name == "window_reduce" and kind != "sum":
        return f"'{kind}' over windows has no rule for complex numbers"
    if name in ("scatter_elements", "scatter_nd") and attrs["reduction"] not in ("none", "add"):
        return f"the reduction '{attrs['reduction']}' has no rule for complex numbers"
    if name in RULES or name in WHOLE:
        return ""
    return REFUSED.get(name, "it has no rule for complex numbers")


# ---- movement ----------------------------------------------------------------------------------------------------------
def _by_parts(name: str) -> Rule:
    def rule(*operands: Any, **attrs: Any) -> Complex:
        return Complex(
            *(getattr(ops, name)(*(_part(o, which) for o in operands), **attrs) for which in ("real", "imag"))
        )

    return rule


def _part(operand: Any, which: str) -> Any:
    return [_part(o, which) for o in operand] if isinstance(operand, list) else part_of(operand, which)


for _name in BY_PARTS:
    RULES[_name] = _by_parts(_name)


@pair_rule("complex")
def complex_(re: Value, im: Value) -> Complex:
    shape = broadcast_shapes(type_of(re).shape, type_of(im).shape)
    return Complex(broadcast_to(re, shape), broadcast_to(im, shape))


@pair_rule("real")
def real(z: Complex) -> Value:
    return z.real


@pair_rule("imag")
def imag(z: Complex) -> Value:
    return z.imag


@pair_rule("view_as_real")
def view_as_real(z: Complex) -> Value:
    return pair.as_pairs(z)


@pair_rule("view_as_complex")
def view_as_complex(x: Value) -> Complex:
    return pair.of_pairs(x)


@pair_rule("full")
def full_(shape: Any, dtype: str, value: float, bits: int | None) -> Complex:
    type_ = TensorType(PARTS[dtype], shape)
    return Complex(full(type_, value), full(type_, 0))


@pair_rule("constant")
def constant(values: Any, shape: Any, dtype: str, bits: Any) -> Complex:
    re = ops.constant(values=values, shape=shape, dtype=PARTS[dtype])
    return Complex(re, full(type_of(re), 0))


@pair_rule("iota")
def iota(shape: Any, axis: int, dtype: str) -> Complex:
    return as_complex(ops.iota(shape=shape, axis=axis, dtype=PARTS[dtype]))


@pair_rule("cast")
def cast(x: Any, dtype: str, saturate: bool) -> Any:
    """To a real type the real part, to bool a test for zero, as in numpy."""
    if dtype in PARTS:
        return converted(as_complex(x if isinstance(x, Complex) else convert(x, PARTS[dtype])), PARTS[dtype])
    if dtype == "bool":
        return ops.or_(*(ops.cast(p, dtype=dtype, saturate=saturate) for p in (x.real, x.imag)))
    return ops.cast(x.real, dtype=dtype, saturate=saturate)


@pair_rule("select")
def select(condition: Value, a: Complex, b: Complex) -> Complex:
    return chosen(condition, a, b)


# ---- arithmetic --------------------------------------------------------------------------------------------------------
@pair_rule("mul")
def mul(a: Complex, b: Complex) -> Complex:
    """A factor that is known to be real scales both parts, as in C."""
    for z, factor in ((a, b), (b, a)):
        if _is_zero(factor.imag):
            return each(z, lambda p, f=factor.real: ops.mul(p, f))
    return pair.times(a, b)


def _is_zero(x: Value) -> bool:
    number = written(x)
    return number is not None and number == 0.0 and math.copysign(1.0, number) > 0


@pair_rule("div")
def div(a: Complex, b: Complex) -> Complex:
    if _is_zero(b.imag):
        return each(a, lambda p: ops.div(p, b.real))
    return pair.divided(a, b)


@pair_rule("eq")
def eq(a: Complex, b: Complex) -> Value:
    return equal(a, b)


@pair_rule("ne")
def ne(a: Complex, b: Complex) -> Value:
    return ops.or_(ops.ne(a.real, b.real), ops.ne(a.imag, b.imag))


@pair_rule("isnan")
def isnan(z: Complex) -> Value:
    return ops.or_(ops.isnan(z.real), ops.isnan(z.imag))


@pair_rule("isinf")
def isinf(z: Complex) -> Value:
    return ops.or_(ops.isinf(z.real), ops.isinf(z.imag))


@pair_rule("reciprocal")
def reciprocal(z: Complex) -> Complex:
    return pair.divided(pair.one(z), z)


@pair_rule("pow")
def pow_(a: Complex, b: Complex) -> Complex:
    exponent = written(b.real) if _is_zero(b.imag) else None
    if exponent is not None and abs(exponent) <= UNROLLED and exponent == round(exponent):  # neither NaN nor infinite
        return pair.integer_power(a, int(exponent))
    return functions.power(a, b)


@pair_rule("abs")
def abs_(z: Complex) -> Value:
    return functions.magnitude(z)


for _name, _own in {"sigmoid": "logistic", **{n: n for n in (
    "conj", "sign", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh",
)}}.items():  # fmt: skip
    RULES[_name] = C99[_own]


# ---- reductions and contractions ---------------------------------------------------------------------------------------
@pair_rule("reduce")
def reduce(z: Complex, kind: str, axes: tuple[int, ...], keepdims: bool) -> Complex:
    if kind == "sum":
        return each(z, lambda p: ops.reduce(p, kind=kind, axes=axes, keepdims=keepdims))
    return _multiplied_along(z, axes, keepdims)


def _multiplied_along(z: Complex, axes: tuple[int, ...], keepdims: bool) -> Complex:
    shape = type_of(z.real).shape
    axes = tuple(a % len(shape) for a in axes)
    kept = [i for i in range(len(shape)) if i not in axes]
    rest, count = tuple(shape[i] for i in kept), product(shape[a] for a in axes)
    flat = each(z, lambda p: reshape(transpose(p, (*axes, *kept)), (count, *rest)))
    found = _multiplied(flat, count) if isinstance(count, int) else _multiplied_in_loop(flat, count)
    return each(
        found, lambda p: reshape(p, tuple(1 if i in axes else d for i, d in enumerate(shape)) if keepdims else rest)
    )


def _multiplied(z: Complex, count: int) -> Complex:
    """Multiplies the elements of the first axis: one part of it by the other, log2(count) times."""
    rest = type_of(z.real).shape[1:]
    if not count:
        return as_complex(full(TensorType(type_of(z.real).dtype, rest), 1))
    while count > 1:
        half = count // 2
        low, high = (each(z, lambda p, s=s, h=half: part(p, 0, s, h)) for s in (0, half))
        made = pair.times(low, high)
        if count % 2:
            last = each(z, lambda p, c=count: part(p, 0, c - 1, 1))
            made = Complex(*(ops.concat([a, b], axis=0) for a, b in ((made.real, last.real), (made.imag, last.imag))))
        z, count = made, half + count % 2
    return each(z, lambda p: reshape(p, rest))


def _multiplied_in_loop(z: Complex, count: Dim) -> Complex:
    return _loop(z, count, scans=False)


def _loop(z: Complex, count: Dim, scans: bool) -> Complex:
    """Multiplies along the first axis one by one. With `scans` returns every intermediate result."""
    type_ = TensorType(type_of(z.real).dtype, type_of(z.real).shape[1:])
    start = as_complex(full(type_, 1))
    stacked = [type_.with_shape((count, *type_.shape))] * 2 if scans else []
    loop = Loop.create(
        dim_value(count), None, [start.real, start.imag], result_types=[type_, type_, *stacked], scans=len(stacked)
    )
    arguments = [TensorType("int64", ()), TensorType("bool", ()), type_, type_]
    block = loop.regions[0].blocks.append(*[t.to_mlir() for t in arguments])
    with ir.InsertionPoint(block):
        index, _, re, im = block.arguments
        here = each(z, lambda p: ops.gather(p, index, axis=0))
        made = pair.times(Complex(re, im), here)
        ops.yield_([number(True, "bool"), made.real, made.imag, *([made.real, made.imag] if scans else [])])
    results = list(loop.results)
    return Complex(*(results[2:] if scans else results))


@pair_rule("cumulative")
def cumulative(z: Complex, kind: str, axis: int, exclusive: bool, reverse: bool) -> Complex:
    if kind == "sum":
        return each(z, lambda p: ops.cumulative(p, kind=kind, axis=axis, exclusive=exclusive, reverse=reverse))
    shape = type_of(z.real).shape
    axis %= len(shape)
    count, order = shape[axis], (axis, *(i for i in range(len(shape)) if i != axis))
    moved = each(z, lambda p: transpose(p, order))
    if reverse:
        moved = each(moved, _reversed)
    found = _doubled(moved, count) if isinstance(count, int) else _loop(moved, count, scans=True)
    if exclusive:
        found = _shifted(found, 1)
    if reverse:
        found = each(found, _reversed)
    return each(found, lambda p: transpose(p, tuple(order.index(i) for i in range(len(shape)))))


def _reversed(x: Value) -> Value:
    shape = type_of(x).shape
    rest = len(shape) - 1
    return ops.slice(x, starts=(shape[0] - 1, *[0] * rest), sizes=shape, steps=(-1, *[1] * rest))


def _shifted(z: Complex, by: int) -> Complex:
    """Moved towards the end of the first axis, with ones in front."""
    shape = type_of(z.real).shape
    size = dim_max(shape[0] - by, 0)
    low, high = (by, *[0] * (len(shape) - 1)), (0,) * len(shape)
    if size == 0:
        return as_complex(full(type_of(z.real), 1))
    return Complex(
        *(
            ops.pad(part(p, 0, 0, size), number_like(fill, p), low=low, high=high)
            for p, fill in ((z.real, 1.0), (z.imag, 0.0))
        )
    )


def _doubled(z: Complex, count: int) -> Complex:
    """Cumulative multiplication along the first axis, in log2(count) steps (Hillis and Steele, 1986)."""
    step = 1
    while step < count:
        z, step = pair.times(_shifted(z, step), z), step * 2
    return z


@pair_rule("dot_general")
def dot_general(a: Complex, b: Complex, dtype: str | None, **attrs: Any) -> Complex:
    part = None if dtype is None else PARTS[dtype]
    return pair.times(as_complex(a), as_complex(b), lambda x, y: ops.dot_general(x, y, dtype=part, **attrs))


@pair_rule("conv")
def conv(x: Complex, weight: Complex, **attrs: Any) -> Complex:
    return pair.times(x, weight, lambda a, b: ops.conv(a, b, **attrs))
