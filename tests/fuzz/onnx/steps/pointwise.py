"""Ops that compute each element alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from ..graph import Graph
from ..values import BOOL, SIGNED, Array, Value, is_bool, is_float, is_integer, is_number, words
from .registry import step

UNARY = words(
    "Abs Neg Relu Sigmoid Tanh Exp Log Sqrt Erf Floor Ceil Round Sign Sin Cos Atan Sinh Asinh Reciprocal"
    " Softplus Softsign Elu Selu Celu LeakyRelu ThresholdedRelu HardSigmoid HardSwish Identity Mish Gelu Acos"
    " Asin Atanh Acosh Cosh Tan Shrink"
)
ATTRIBUTES: dict[str, dict[str, list[Any]]] = {
    **{op: {"alpha": [None, 0.01, 0.5, 1.5]} for op in words("Elu Celu LeakyRelu ThresholdedRelu")},
    "HardSigmoid": {"alpha": [None, 0.3], "beta": [None, 0.4]},
    "Gelu": {"approximate": [None, "tanh"]},
    "Shrink": {"lambd": [0.6], "bias": [None, 0.1]},
}
BINARY = ["Add", "Sub", "Mul", "Div", "Add", "Sub", "Mul", "Max", "Min", "Mod", "Sum", "Mean"]
INTEGER = words("Add Sub Mul Div Max Min Mod Mod BitwiseAnd BitwiseOr BitwiseXor BitShift Pow")
COMPARISONS = words("Equal Greater Less GreaterOrEqual LessOrEqual")
TYPES = [TensorProto.FLOAT] * 3 + [
    TensorProto.DOUBLE,
    TensorProto.FLOAT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.BOOL,
]


@step(14)
def unary(graph: Graph) -> None:
    op = graph.choice(UNARY)
    graph.node(op, graph.pick(is_float), **{name: graph.choice(v) for name, v in ATTRIBUTES.get(op, {}).items()})


@step(2)
def integer_unary(graph: Graph) -> None:
    value = graph.pick(lambda v: is_integer(v) or is_bool(v))
    graph.node(graph.choice(["Abs", "Neg", "Sign", "Relu", "BitwiseNot"]) if is_integer(value) else "Not", value)


def constant(graph: Graph, value: Value) -> Array:
    """A constant that broadcasts against the value."""
    count = graph.random.randint(0, value.rank)
    shape = [size if size is not None and graph.chance(0.7) else 1 for size in value.dims[value.rank - count :]]
    if graph.chance(0.1) and len(shape) < 5:
        shape = [1, *shape]
    return graph.numbers(shape, value.dtype, graph.choice(["quarters", "small", "normal"]))


def partner(graph: Graph, value: Value) -> Value | Array:
    if graph.chance(0.35):
        return constant(graph, value)
    return graph.pick(lambda other: other.dtype == value.dtype, 0.4)


@step(14)
def binary(graph: Graph) -> None:
    value, op = graph.pick(is_float), graph.choice(BINARY)
    operands = [value, partner(graph, value)]
    if graph.chance(0.5):
        operands.reverse()
    if op in ("Max", "Min", "Sum", "Mean") and graph.chance(0.4):
        operands.append(graph.pick(lambda other: other.dtype == value.dtype))
    graph.node(op, *operands, fmod=1 if op == "Mod" else None)


@step(1)
def slope(graph: Graph) -> None:
    value = graph.pick(is_float)
    graph.node("PRelu", value, partner(graph, value))


@step(2)
def power(graph: Graph) -> None:
    value = graph.pick(is_float)
    if graph.chance(0.7):
        exponent = np.asarray(
            graph.choice([2, 3, 0.5, -1, 0, 1, -0.5, 2.5, 4]), graph.choice([value.dtype, np.float32])
        )
        graph.node("Pow", value, exponent)
    else:
        (base,) = graph.node("Abs", value)
        graph.node("Pow", base, value)


@step(5)
def integer_binary(graph: Graph) -> None:
    value, op = graph.pick(is_integer), graph.choice(INTEGER)
    other: Any = partner(graph, value)
    if op in ("BitShift", "Pow"):
        other = np.asarray(graph.choice([0, 1, 2, 3]), value.dtype)
    elif op in ("Div", "Mod") and graph.chance(0.8):
        signs = [-2, -3, -4] if value.dtype in SIGNED else []
        other = np.asarray(graph.choice([2, 3, 5, 7, *signs]), value.dtype)
    operands = [value, other]
    if op not in ("Div", "Mod", "BitShift", "Pow") and graph.chance(0.5):
        operands.reverse()
    direction = graph.choice(["LEFT", "RIGHT"]) if op == "BitShift" else None
    graph.node(op, *operands, fmod=graph.choice([None, 1]) if op == "Mod" else None, direction=direction)


@step(4)
def compare(graph: Graph) -> None:
    value = graph.pick(is_number)
    graph.node(graph.choice(COMPARISONS), value, partner(graph, value))


@step(2)
def logic(graph: Graph) -> None:
    value = graph.pick(is_bool)
    graph.node(graph.choice(["And", "Or", "Xor", "Equal"]), value, partner(graph, value))


@step(5)
def where(graph: Graph) -> None:
    condition, value = graph.pick(is_bool), graph.pick(is_number)
    branches = [value, partner(graph, value)]
    graph.random.shuffle(branches)
    graph.node("Where", condition, *branches)


@step(1)
def classify(graph: Graph) -> None:
    graph.node(graph.choice(["IsNaN", "IsInf"]), graph.pick(lambda v: v.dtype in (np.float32, np.float64)))


@step(5)
def cast(graph: Graph) -> None:
    if graph.chance(0.1):  # bfloat16 is none of numpy's types, so it stays within the piece
        (half,) = graph.node("Cast", graph.pick(lambda v: v.dtype == np.float32), to=TensorProto.BFLOAT16)
        graph.hide(half)
        graph.node("Cast", half, to=TensorProto.FLOAT)
    else:
        graph.node("Cast", graph.pick(), to=graph.choice(TYPES))


@step(3)
def clip(graph: Graph) -> None:
    value = graph.pick(lambda v: v.dtype != BOOL)
    low, high = sorted([graph.choice([-2, -1, 0, 0.5]), graph.choice([0, 1, 2.5, 3])])
    low = abs(low) if value.dtype.kind == "u" else low
    bounds = [np.asarray(bound, value.dtype) if graph.chance(0.8) else None for bound in (low, max(low, high))]
    graph.node("Clip", value, *bounds)
