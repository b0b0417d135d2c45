"""Arithmetic, comparison, logic and conversion: operators that are pointwise primitives."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold

from burn.dialect import ops
from burn.dialect.compose import convert, number_like, reshape
from burn.dialect.functions import FUNCTIONS
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, FLOATS, type_of
from burn.dialect.weights import stored_bits
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.strings import from_text, to_text

OWN = ("IsInf",)
"""Operators with attributes, whose builders are written out."""

UNARY = {
    "BitwiseNot": "not_",
    "Not": "not_",
    **{row.onnx: row.name for row in FUNCTIONS if row.arity == 1 and row.onnx and row.onnx not in OWN},
}
BINARY = {
    "Add": "add",
    "And": "and_",
    "BitwiseAnd": "and_",
    "BitwiseOr": "or_",
    "BitwiseXor": "xor",
    "Div": "div",
    "Equal": "eq",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
    "Mul": "mul",
    "Or": "or_",
    "Sub": "sub",
    "Xor": "xor",
}
VARIADIC = {"Max": "max", "Min": "min", "Sum": "add"}


def _wide_enough(x: ir.Value) -> ir.Value:
    """The 8- and 4-bit floats have no arithmetic; they are looked at as float32."""
    return convert(x, "float32") if DTYPES[type_of(x).dtype].kind == "small" else x


@onnx_op(*UNARY)
def unary(node: Node) -> ir.Value:
    return getattr(ops, UNARY[node.op])(_wide_enough(node.required(0)))


@onnx_op(*BINARY)
def binary(node: Node) -> ir.Value:
    left, right = node.required(0), node.required(1)
    if node.opset < 7:
        right = _aligned(node, right)
    return getattr(ops, BINARY[node.op])(left, right)


def _aligned(node: Node, right: ir.Value) -> ir.Value:
    """Before opset 7 the right operand was laid along the left one's axes from `axis` on, with `broadcast` set."""
    rank, type_ = node.type(0).rank, type_of(right)
    if not node.int("broadcast", 0) or not node.has("axis"):
        node.no_effect("axis", because="operands of one shape are not aligned")
        return right
    after = rank - node.axis(node.int("axis"), rank) - type_.rank
    if after < 0:
        node.fail(f"{type_} does not fit {node.type(0)} there", "axis")
    return reshape(right, (*type_.shape, *[1] * after))


@onnx_op(*VARIADIC)
def variadic(node: Node) -> ir.Value:
    return fold(getattr(ops, VARIADIC[node.op]), node.tensors())


@onnx_op("Mean")
def mean(node: Node) -> ir.Value:
    total = fold(ops.add, node.tensors())
    return ops.div(total, number_like(len(node.inputs), total))


@onnx_op("Mod")
def mod(node: Node) -> ir.Value:
    function = ops.fmod if node.int("fmod", 0) else ops.mod
    return function(node.required(0), node.required(1))


@onnx_op("BitShift")
def bit_shift(node: Node) -> ir.Value:
    directions: dict[str, Callable[..., ir.Value]] = {"LEFT": ops.shift_left, "RIGHT": ops.shift_right}
    direction = node.string("direction")
    if direction not in directions:
        node.fail(f"must be LEFT or RIGHT, not {direction}", "direction")
    x, by = node.required(0), node.required(1)
    if DTYPES[type_of(x).dtype].kind == "uint":
        return directions[direction](x, by)
    # a negative distance is as good as a far one
    by = ops.select(ops.lt(by, number_like(0, by)), number_like(DTYPES[type_of(by).dtype].bits - 1, by), by)
    if direction == "LEFT":
        far = ops.lt(node.required(1), number_like(0, by))
        return ops.select(far, number_like(0, x), ops.shift_left(x, by))
    # shift_right fills with zeros; turned over, that is filling with the sign
    negative = ops.lt(x, number_like(0, x))
    shifted = ops.shift_right(ops.select(negative, ops.not_(x), x), _at_most(by))
    return ops.select(negative, ops.not_(shifted), shifted)


def _at_most(by: ir.Value) -> ir.Value:
    """A shift distance, at most that of the sign bit: larger ones have the same result."""
    return ops.min(by, number_like(DTYPES[type_of(by).dtype].bits - 1, by))


@onnx_op("Pow")
def pow_(node: Node) -> ir.Value:
    """The result has the base's type, whatever the exponent's; integers to a float power are computed in float64."""
    base, exponent = node.required(0), node.required(1)
    if node.opset < 7:
        exponent = _aligned(node, exponent)
    dtype, other = type_of(base).dtype, type_of(exponent).dtype
    if dtype in FLOATS or dtype == other:
        common = dtype
    elif other in FLOATS:
        common = "float64"
    else:
        common = "int64"
    return convert(ops.pow(convert(base, common), convert(exponent, common)), dtype)


@onnx_op("IsInf")
def is_inf(node: Node) -> ir.Value:
    x = _wide_enough(node.required(0))
    infinite = ops.isinf(x)
    if not node.int("detect_positive", 1):
        infinite = ops.and_(infinite, ops.lt(x, number_like(0, x)))
    if not node.int("detect_negative", 1):
        infinite = ops.and_(infinite, ops.gt(x, number_like(0, x)))
    return infinite


@onnx_op("Where")
def where(node: Node) -> ir.Value:
    return ops.select(node.required(0), node.required(1), node.required(2))


@onnx_op("Cast")
def cast(node: Node) -> ir.Value:
    dtype = _old_name(node) if node.opset < 6 else node.dtype("to")
    return _cast(node, dtype)


@onnx_op("CastLike")
def cast_like(node: Node) -> ir.Value:
    return _cast(node, node.type_only(1).dtype)


def _cast(node: Node, dtype: str) -> ir.Value:
    x = node.required(0)
    if node.string("round_mode", "up") != "up" and dtype == "float8_e8m0fnu":
        node.fail(f"rounding '{node.string('round_mode')}' is not supported; only 'up' is", "round_mode")
    if type_of(x).dtype == dtype:
        return x
    if dtype == "string":
        return to_text(x)
    if type_of(x).dtype == "string":
        return from_text(x, dtype)
    return ops.cast(x, dtype=dtype, saturate=bool(node.int("saturate", 1)))


def _old_name(node: Node) -> str:
    """Before opset 6 the type was given by name."""
    name = {"FLOAT": "float32", "DOUBLE": "float64"}.get(node.string("to"), node.string("to").lower())
    if name not in DTYPES:
        node.fail(f"there is no element type {node.string('to')}", "to")
    return name


@onnx_op("BitCast")
def bit_cast(node: Node) -> ir.Value:
    x, dtype = node.required(0), node.dtype("to")
    if stored_bits(dtype) != stored_bits(type_of(x).dtype):
        node.fail(f"{type_of(x).dtype} and {dtype} differ in width", "to")
    if "bool" in (dtype, type_of(x).dtype):  # a byte of 0 or 1
        return convert(x, dtype)
    return x if type_of(x).dtype == dtype else ops.bitcast(x, dtype=dtype)
