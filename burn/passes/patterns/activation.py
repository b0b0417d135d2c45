"""Activations: GELU, SiLU, Mish and their piecewise linear relatives."""

from __future__ import annotations

import math

from burn.dialect import ops
from burn.dialect.activation import Softplus
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Erf, Log, Min, Tanh
from burn.dialect.query import is_named, result_type, splat, used_once
from burn.dialect.types import type_of
from burn.passes.algebra.law import Rewriter
from burn.passes.patterns.match import factors, is_polynomial, near, pattern, polynomial


def _gate(op: Op) -> tuple[float, ir.Value, ir.Value] | None:
    """(number, x, gate) of number * x * gate; None unless there are two factors of one type."""
    split = factors(op)
    if len(split.factors) != 2 or any(type_of(f) != result_type(op) for f in split.factors):
        return None
    a, b = split.factors
    return split.number, a, b


def _orders(op: Op) -> list[tuple[float, ir.Value, ir.Value]]:
    found = _gate(op)
    return [] if found is None else [found, (found[0], found[2], found[1])]


@pattern("mul", "div")
def gelu(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x * (1 + erf(x / sqrt 2)) / 2, and x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2"""
    root = math.sqrt(2 / math.pi)
    for number, x, gate in _orders(op):
        curve = _curve(gate)
        if curve is None or not near(number * curve[1], 0.5):
            continue
        function = curve[0]
        if isinstance(function, Erf) and is_polynomial(function.x, x, p1=math.sqrt(0.5)):
            return ops.gelu(x)
        if isinstance(function, Tanh) and is_polynomial(function.x, x, p1=root, p3=0.044715 * root):
            return ops.gelu(x, approximate="tanh")
    return None


def _curve(gate: ir.Value) -> tuple[Op, float] | None:
    """(f, c) of a value c * f(y) + c, f erf or tanh."""
    add = is_named(gate, "add")
    if add is None or not used_once(gate):
        return None
    value = add.lhs
    scaled = is_named(value, "mul")
    function = is_named(scaled.lhs if scaled is not None else value, "erf", "tanh")
    if function is None or not used_once(function.operation.results[0]):
        return None
    line = polynomial(gate, function.operation.results[0])
    if line is None or line.keys() != {0, 1} or not near(line[0], line[1]):
        return None
    return function, line[1]


@pattern("mul")
def silu(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x * sigmoid(a x)"""
    for number, x, gate in _orders(op):
        curve = is_named(gate, "sigmoid")
        line = polynomial(curve.x, x) if curve is not None and used_once(gate) else None
        if number == 1 and line is not None and line.keys() == {1}:
            return ops.silu(x, alpha=line[1])
    return None


@pattern("mul")
def mish(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x * tanh(log(1 + exp(x)))"""
    for number, x, gate in _orders(op):
        curve = is_named(gate, "tanh")
        inner = _softplus(curve.x) if number == 1 and curve is not None and used_once(gate) else None
        if inner is not None and inner == x:  # a value cannot be compared with None
            return ops.mish(x)
    return None


def _softplus(value: ir.Value) -> ir.Value | None:
    """x of softplus(x), log1p(exp(x)) or log(exp(x) + 1)"""
    op = is_named(value, "softplus", "log1p", "log")
    if op is None or isinstance(op, Softplus):
        return op.x if op is not None else None
    inner = op.x
    if isinstance(op, Log):
        add = is_named(inner, "add")
        if add is None or splat(add.rhs) != 1:
            return None
        inner = add.lhs
    power = is_named(inner, "exp")
    return power.x if power is not None else None


@pattern("mul", "div")
def hard_sigmoid(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """c * clip(a x + b, 0, 1 / c)"""
    split = factors(op)
    if len(split.factors) != 1 or split.number <= 0:
        return None
    clipped = _clipped(split.factors[0])
    if clipped is None or clipped[1] != 0 or not near(clipped[2] * split.number, 1.0):
        return None
    line = is_named(clipped[0], "add")
    x = line.lhs if line is not None else clipped[0]
    scaled = is_named(x, "mul")
    x = scaled.lhs if scaled is not None and splat(scaled.rhs) is not None else x
    found = polynomial(clipped[0], x)
    if found is None or type_of(x) != result_type(op):
        return None
    return ops.hard_sigmoid(x, alpha=found.get(1, 0.0) * split.number, beta=found.get(0, 0.0) * split.number)


def _clipped(value: ir.Value) -> tuple[ir.Value, float, float] | None:
    """(x, low, high) of min(max(x, low), high), in either order or as a clip."""
    if not used_once(value):
        return None
    clip = is_named(value, "clip")
    if clip is not None and clip.low is not None and clip.high is not None:
        low, high = splat(clip.low), splat(clip.high)
        return (clip.x, low, high) if low is not None and high is not None else None
    outer = is_named(value, "min", "max")
    inner = is_named(outer.lhs, "max" if isinstance(outer, Min) else "min") if outer is not None else None
    if outer is None or inner is None:
        return None
    bounds = {each.OP_NAME: splat(each.rhs) for each in (outer, inner)}
    low, high = bounds["max"], bounds["min"]
    return (inner.lhs, low, high) if low is not None and high is not None else None


@pattern("mul")
def hard_swish(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x * hard_sigmoid(x) with slope 1/6 and offset 1/2"""
    for number, x, gate in _orders(op):
        curve = is_named(gate, "hard_sigmoid")
        if curve is None or curve.x != x or number != 1 or not used_once(gate):
            continue
        if near(curve.alpha, 1 / 6) and near(curve.beta, 0.5):
            return ops.hard_swish(x)
    return None


@pattern("div", "mul")
def hard_swish_late_division(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x * clip(x + 3, 0, 6) / 6"""
    for number, x, gate in _orders(op):
        clipped = _clipped(gate)
        if clipped is None or not near(number, 1 / 6) or clipped[1] != 0 or not near(clipped[2], 6.0):
            continue
        if is_polynomial(clipped[0], x, p0=3.0, p1=1.0):
            return ops.hard_swish(x)
    return None
