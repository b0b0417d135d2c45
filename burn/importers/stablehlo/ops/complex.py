"""Ops of complex tensors, and fft."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.complexes.functions import FUNCTIONS, power
from burn.dialect.complexes.pair import Complex, as_complex, divided, equal, times
from burn.dialect.compose import broadcast_to, convert
from burn.dialect.mlir import ir
from burn.dialect.types import PARTS, broadcast_shapes
from burn.importers.lax import fourier
from burn.importers.stablehlo.complexes import COMPLEX, by_parts, complex_rule, part_node
from burn.importers.stablehlo.node import RULES, Node
from burn.importers.stablehlo.regions import combination
from burn.importers.stablehlo.syntax.module import Elements

Value = ir.Value

for _name in [
    "add",
    "broadcast",
    "broadcast_in_dim",
    "concatenate",
    "dynamic_broadcast_in_dim",
    "dynamic_gather",
    "dynamic_pad",
    "dynamic_reshape",
    "dynamic_slice",
    "dynamic_update_slice",
    "gather",
    "negate",
    "optimization_barrier",
    "pad",
    "real_dynamic_slice",
    "reshape",
    "reverse",
    "select",
    "slice",
    "subtract",
    "torch_index_select",
    "transpose",
    "tuple",
    "get_tuple_element",
    "get_dimension_size",
]:
    COMPLEX[f"stablehlo.{_name}"] = by_parts
for _name in ("tuple", "get_tuple_element", "optimization_barrier", "composite"):
    COMPLEX[f"stablehlo.{_name}"] = lambda node: RULES[node.op.name](node)
COMPLEX["func.call"] = lambda node: RULES[node.op.name](node)


UNARY = {
    **{name: FUNCTIONS[name] for name in ("abs", "imag", "logistic", "real", "rsqrt", "sign", "sqrt", "tan", "tanh")},
    "cosine": FUNCTIONS["cos"],
    "exponential": FUNCTIONS["exp"],
    "exponential_minus_one": FUNCTIONS["expm1"],
    "log": FUNCTIONS["log"],
    "log_plus_one": FUNCTIONS["log1p"],
    "sine": FUNCTIONS["sin"],
}
BINARY: dict[str, Callable[[Complex, Complex], Complex]] = {"divide": divided, "multiply": times, "power": power}

for _name, _function in UNARY.items():
    complex_rule(_name)(lambda node, function=_function: function(as_complex(node.operands[0])))
for _name, _two in BINARY.items():
    complex_rule(_name)(
        lambda node, function=_two: function(as_complex(node.operands[0]), as_complex(node.operands[1]))
    )


for _name in ("square", "conj", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh"):
    complex_rule(_name, dialect="chlo")(lambda node, function=FUNCTIONS[_name]: function(as_complex(node.operands[0])))


@complex_rule("complex")
def complex_(node: Node) -> Complex:
    return Complex(node.x(0), node.x(1))


@complex_rule("broadcast_complex", dialect="chlo")
def broadcast_complex(node: Node) -> Complex:
    """Real and imaginary parts of shapes that broadcast, aligned at the last axis."""
    node.no_effect("broadcast_dimensions")
    shape = broadcast_shapes(node.shape(0), node.shape(1))
    return Complex(*(broadcast_to(x, shape) for x in node.xs))


@complex_rule("compare")
def compare(node: Node) -> Value:
    node.no_effect("compare_type")
    a, b = (as_complex(v) for v in node.operands)
    direction = node.word("comparison_direction")
    same = equal(a, b)
    if direction not in ("EQ", "NE"):
        node.fail(f"complex numbers have no order, and it compares by {direction}")
    return same if direction == "EQ" else ops.not_(same)


@complex_rule("convert")
def convert_(node: Node) -> Any:
    """To real numbers: the real part."""
    z, element = as_complex(node.operands[0]), str(node.result().element)
    if element in PARTS:
        return Complex(*(convert(part, PARTS[element]) for part in (z.real, z.imag)))
    return RULES[node.op.name](part_node(node, "real"))


@complex_rule("constant")
def constant(node: Node) -> Complex:
    value = node.attribute("value")
    if not isinstance(value, Elements):
        node.fail("has no elements")
    array: np.ndarray[Any, Any] = np.array(value.full())
    return Complex(*(node.importer.constant(np.array(part), "constant") for part in (np.real(array), np.imag(array))))


# ---- sums and contractions ---------------------------------------------------------------------------------------------
@complex_rule("dot_general", "convolution")
def contraction(node: Node) -> Complex:
    """Of both parts with both."""
    a, b = (as_complex(v) for v in node.operands)

    def multiply(x: Value, y: Value) -> Value:
        part = part_node(node, "real")
        part.operands = [x, y]
        return RULES[node.op.name](part)

    return times(a, b, multiply)


@complex_rule("reduce", "reduce_window")
def reduce(node: Node) -> Any:
    """Sums of each part; multiplications and other regions are not supported."""
    count = len(node.operands) // 2
    if combination(node, count) != ["add"] * count:
        node.fail("a reduction of complex numbers is a sum, or is not supported")
    return by_parts(node)


@complex_rule("scatter")
def scatter(node: Node) -> Any:
    count = (len(node.operands) - 1) // 2
    if combination(node, count) not in (["add"] * count, ["none"] * count):
        node.fail("a scatter of complex numbers adds or replaces, or is not supported")
    return by_parts(node)


# ---- Fourier transforms --------------------------------------------------------------------------------------------------
@complex_rule("fft")
def fft(node: Node) -> Any:
    """Over the last axes, as many as there are lengths."""
    return fourier.fft(as_complex(node.operands[0]), node.word("fft_type"), node.ints("fft_length"))
