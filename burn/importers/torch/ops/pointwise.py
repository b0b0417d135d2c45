"""Arithmetic, comparison, logic and elementary functions: operators that are pointwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burn.dialect import ops, special
from burn.dialect.compose import clamp as clamp_to
from burn.dialect.compose import convert, limit, number, number_like
from burn.dialect.functions import FUNCTIONS
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, FLOATS, PARTS, type_of
from burn.importers.torch.node import Node, aten
from burn.importers.torch.promote import common_dtype

# ---- one operand: operator -> (burn's function, the promotion's kind) ---------------------------------------------------
UNARY: dict[str, tuple[str, str]] = {
    "abs.default": ("abs", "same"),
    "neg.default": ("neg", "same"),
    "_neg_view.default": ("neg", "same"),
    "_neg_view_copy.default": ("neg", "same"),
    "bitwise_not.default": ("not_", "same"),
    "logical_not.default": ("not_", "logical"),
    "isnan.default": ("isnan", "compare"),
    "isinf.default": ("isinf", "compare"),
    **{f"{row.aten}.default": (row.name, "float") for row in FUNCTIONS if row.aten},
}

ROUNDING = {"floor.default": "floor", "ceil.default": "ceil", "round.default": "round", "trunc.default": "trunc"}


def _unary(function: str, kind: str) -> Callable[[Node, ir.Value], ir.Value]:
    def build(node: Node, x: ir.Value) -> ir.Value:
        return apply(function, convert(x, common_dtype(kind, node.argument_meta(0))))

    return build


def apply(function: str, x: ir.Value) -> ir.Value:
    """A function of one operand, where the answer is plain for types that burn's primitive does not take."""
    dtype = type_of(x).dtype
    kind = DTYPES[dtype].kind
    if function in ("isnan", "isinf") and kind not in ("float", "complex"):
        return ops.full(shape=type_of(x).shape, dtype="bool", value=0.0)
    if function == "abs" and kind in ("uint", "bool"):
        return x
    if kind == "uint" and function == "neg":
        return ops.sub(number_like(0, x), x)
    return getattr(ops, function)(x)


for _name, (_function, _kind) in UNARY.items():
    aten(_name)(_unary(_function, _kind))


@aten("square.default")
def square(node: Node, x: ir.Value) -> ir.Value:
    x = node.as_result(x)
    return ops.mul(x, x)


@aten(*ROUNDING)
def rounding(node: Node, x: ir.Value) -> ir.Value:
    """Integers are as they are."""
    function = getattr(ops, node.op.split(".")[1])
    return function(x) if type_of(x).dtype in FLOATS else x


@aten("round.decimals")
def round_decimals(node: Node, x: ir.Value, decimals: int) -> ir.Value:
    if type_of(x).dtype not in FLOATS:
        return x
    scale = number_like(10.0 ** abs(decimals), x)
    if decimals < 0:
        return ops.mul(ops.round(ops.div(x, scale)), scale)
    return ops.div(ops.round(ops.mul(x, scale)), scale)


@aten("sign.default", "sgn.default")
def sign(node: Node, x: ir.Value) -> ir.Value:
    """A NaN's sign is 0, as torch has it."""
    if type_of(x).dtype == "bool":
        return x
    result = ops.sign(x)
    return ops.select(ops.isnan(x), number_like(0, x), result) if type_of(x).dtype in FLOATS else result


@aten("signbit.default")
def signbit(node: Node, x: ir.Value) -> ir.Value:
    type_ = type_of(x)
    if type_.dtype in FLOATS:
        x = ops.bitcast(x, dtype=f"int{DTYPES[type_.dtype].bits}")
    elif DTYPES[type_.dtype].kind != "int":
        return ops.full(shape=type_.shape, dtype="bool", value=0.0)
    return ops.lt(x, number_like(0, x))


@aten("exp2.default")
def exp2(node: Node, x: ir.Value) -> ir.Value:
    x = node.as_result(x)
    return ops.pow(number_like(2.0, x), x)


LOGARITHMS = {"log2": math.log(2.0), "log10": math.log(10.0)}


@aten(*(f"{name}.default" for name in LOGARITHMS))
def logarithm(node: Node, x: ir.Value) -> ir.Value:
    x = node.as_result(x)
    return ops.div(ops.log(x), number_like(LOGARITHMS[node.op.split(".")[1]], x))


@aten("erfc.default")
def erfc(node: Node, x: ir.Value) -> ir.Value:
    x = node.as_result(x)
    return ops.sub(number_like(1.0, x), ops.erf(x))


@aten("isfinite.default")
def isfinite(node: Node, x: ir.Value) -> ir.Value:
    return ops.not_(ops.or_(apply("isnan", x), apply("isinf", x)))


@aten("isposinf.default", "isneginf.default")
def is_signed_infinity(node: Node, x: ir.Value) -> ir.Value:
    if type_of(x).dtype not in FLOATS:
        return ops.full(shape=type_of(x).shape, dtype="bool", value=0.0)
    return ops.eq(x, limit(type_of(x).dtype, highest="pos" in node.op))


@aten("nan_to_num.default")
def nan_to_num(node: Node, x: ir.Value, nan: Any, posinf: Any, neginf: Any) -> ir.Value:
    dtype = type_of(x).dtype
    if dtype not in FLOATS:
        return x
    import torch

    info = torch.finfo(getattr(torch, dtype))
    high = number(info.max if posinf is None else posinf, dtype)
    low = number(info.min if neginf is None else neginf, dtype)
    result = ops.select(ops.isnan(x), number(nan or 0.0, dtype), x)
    result = ops.select(ops.eq(x, limit(dtype, highest=True)), high, result)
    return ops.select(ops.eq(x, limit(dtype, highest=False)), low, result)


@aten("angle.default")
def angle(node: Node, x: ir.Value) -> ir.Value:
    """pi for negative numbers, 0 for the others, NaN for NaN."""
    if type_of(x).dtype in PARTS:
        return ops.atan2(ops.imag(x), ops.real(x))
    value = node.as_result(x)
    turned = ops.select(ops.lt(value, number_like(0, value)), number_like(math.pi, value), number_like(0, value))
    return ops.select(ops.isnan(value), value, turned)


# ---- two operands -------------------------------------------------------------------------------------------------------
_BOTH = ("Tensor", "Scalar")
BINARY: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "mul": ("mul", "same", _BOTH),
    "maximum": ("max", "same", ("default",)),
    "minimum": ("min", "same", ("default",)),
    "floor_divide": ("floordiv", "same", ("default", "Scalar")),
    "remainder": ("mod", "same", (*_BOTH, "Scalar_Tensor")),
    "fmod": ("fmod", "same", _BOTH),
    "atan2": ("atan2", "float", ("default",)),
    "hypot": ("hypot", "same", ("default",)),
    "eq": ("eq", "compare", _BOTH),
    "ne": ("ne", "compare", _BOTH),
    "lt": ("lt", "compare", _BOTH),
    "le": ("le", "compare", _BOTH),
    "gt": ("gt", "compare", _BOTH),
    "ge": ("ge", "compare", _BOTH),
    "logical_and": ("and_", "logical", ("default",)),
    "logical_or": ("or_", "logical", ("default",)),
    "logical_xor": ("xor", "logical", ("default",)),
    "bitwise_and": ("and_", "same", (*_BOTH, "Scalar_Tensor")),
    "bitwise_or": ("or_", "same", (*_BOTH, "Scalar_Tensor")),
    "bitwise_xor": ("xor", "same", (*_BOTH, "Scalar_Tensor")),
    "__and__": ("and_", "same", _BOTH),
    "__or__": ("or_", "same", _BOTH),
    "__xor__": ("xor", "same", _BOTH),
}
"""Operator -> burn's function, the promotion's kind, the overloads."""


def _binary(function: str, kind: str) -> Callable[[Node, Any, Any], ir.Value]:
    def build(node: Node, a: Any, b: Any) -> ir.Value:
        a, b = operands(node, kind, a, b)
        return pair(function, a, b)

    return build


def operands(node: Node, kind: str, *values: Any, first: int = 0) -> list[ir.Value]:
    """Operands converted to the type that they are computed in together."""
    metas = [node.argument_meta(first + i) for i in range(len(values))]
    dtype = common_dtype(kind, *metas)
    return [node.scalar(v, dtype) for v in values]


def pair(function: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """A function of two operands; `add` and `mul` of bools are `or` and `and`, as torch computes them."""
    if type_of(a).dtype == "bool":
        function = {"add": "or_", "mul": "and_"}.get(function, function)
    return getattr(ops, function)(a, b)


for _name, (_function, _kind, _variants) in BINARY.items():
    aten(*(f"{_name}.{v}" for v in _variants))(_binary(_function, _kind))


def _scaled(node: Node, b: ir.Value, alpha: Any) -> ir.Value:
    return b if isinstance(alpha, (int, float)) and alpha == 1 else pair("mul", b, node.scalar(alpha, type_of(b).dtype))


@aten("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def add(node: Node, a: ir.Value, b: Any, alpha: Any = 1, **keywords: Any) -> ir.Value:
    alpha = keywords.get("alpha", alpha)
    a, b = operands(node, "same", a, b)
    return pair(node.op.split(".")[1], a, _scaled(node, b, alpha))


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(node: Node, a: ir.Value, b: Any, alpha: Any = 1) -> ir.Value:
    a, b = operands(node, "same", a, b)
    return ops.sub(b, _scaled(node, a, alpha))


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(node: Node, a: ir.Value, b: Any) -> ir.Value:
    return ops.div(*operands(node, "float", a, b))


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_mode(node: Node, a: ir.Value, b: Any, rounding_mode: str | None) -> ir.Value:
    if rounding_mode is None:
        return div(node, a, b)
    a, b = operands(node, "same", a, b)
    if rounding_mode == "floor":
        return ops.floordiv(a, b)
    quotient = ops.div(a, b)  # integers truncate already
    return ops.trunc(quotient) if type_of(quotient).dtype in FLOATS else quotient


@aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(node: Node, a: Any, b: Any) -> ir.Value:
    """Small whole exponents are repeated multiplications; torch's square is also x * x."""
    a, exponent = operands(node, "same", a, b)
    if not isinstance(b, ir.Value) and type_of(a).dtype in FLOATS:
        if b in (2, 3):
            square = ops.mul(a, a)
            return square if b == 2 else ops.mul(square, a)
        if b == 0.5:
            return ops.sqrt(a)
        if b == -0.5:
            return ops.rsqrt(a)
        if b == 1:
            return a
    return ops.pow(a, exponent)


@aten("fmax.default", "fmin.default")
def number_extreme(node: Node, a: ir.Value, b: ir.Value) -> ir.Value:
    """The larger or smaller; a NaN gives way to the other operand."""
    a, b = operands(node, "same", a, b)
    result = (ops.max if "fmax" in node.op else ops.min)(a, b)
    if type_of(a).dtype not in FLOATS:
        return result
    return ops.select(ops.isnan(a), b, ops.select(ops.isnan(b), a, result))


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(node: Node, a: ir.Value, b: Any) -> ir.Value:
    a, b = operands(node, "float", a, b)
    integer = f"int{DTYPES[type_of(a).dtype].bits}"
    negative = ops.lt(ops.bitcast(b, dtype=integer), number(0, integer))
    magnitude = ops.abs(a)
    return ops.select(negative, ops.neg(magnitude), magnitude)


@aten("nextafter.default", namespace="prims")
@aten("nextafter.default")
def nextafter(node: Node, a: ir.Value, b: ir.Value) -> ir.Value:
    return special.next_after(a, b)


SHIFTS = {"bitwise_left_shift": "shift_left", "__lshift__": "shift_left"}


@aten(
    *(
        f"{name}.{o}"
        for name in SHIFTS
        for o in ("Tensor", "Tensor_Scalar", "Scalar")
        if (name[0] == "_") == (o == "Scalar") or o == "Tensor"
    )
)
def shift_left(node: Node, a: ir.Value, b: Any) -> ir.Value:
    return ops.shift_left(*operands(node, "same", a, b))


@aten("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__.Tensor", "__rshift__.Scalar")
def shift_right(node: Node, a: ir.Value, b: Any) -> ir.Value:
    """Negative numbers keep their sign: they are shifted with all bits inverted."""
    a, b = operands(node, "same", a, b)
    type_ = type_of(a)
    if DTYPES[type_.dtype].kind == "uint":
        return ops.shift_right(a, b)
    negative = ops.lt(a, number_like(0, a))
    shifted = ops.shift_right(ops.select(negative, ops.not_(a), a), b)
    return ops.select(negative, ops.not_(shifted), shifted)


# ---- choice -------------------------------------------------------------------------------------------------------------
@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(node: Node, condition: ir.Value, a: Any, b: Any) -> ir.Value:
    return ops.select(convert(condition, "bool"), node.scalar(a), node.scalar(b))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(node: Node, x: ir.Value, mask: ir.Value, value: Any) -> ir.Value:
    return ops.select(mask, node.scalar(value), x)


@aten("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_min.Tensor", "clamp_max.default", "clamp_max.Tensor")
def clamp(node: Node, x: ir.Value, low: Any = None, high: Any = None) -> ir.Value:
    """min(max(x, low), high): a low above the high gives the high."""
    if "clamp_max" in node.op:
        low, high = None, low
    bounds = (None if bound is None else node.scalar(bound) for bound in (low, high))
    return clamp_to(node.as_result(x), *bounds)
