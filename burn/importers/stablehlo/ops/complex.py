"""Ops of complex tensors, and fft."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, transpose
from burn.dialect.mlir import ir
from burn.dialect.types import broadcast_shapes, type_of
from burn.fft import irfft
from burn.importers.lax.scalars import full, like
from burn.importers.stablehlo.complexes import COMPLEX, PARTS, Complex, by_parts, complex_rule, part_node
from burn.importers.stablehlo.node import RULES, Node
from burn.importers.stablehlo.regions import combination
from burn.importers.stablehlo.syntax.module import Elements
from burn.tensors.base import made

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


def of(value: Any) -> Complex:
    """A complex operand; a real one has the imaginary part 0."""
    return value if isinstance(value, Complex) else Complex(value, full(type_of(value), 0))


def times(a: Complex, b: Complex) -> Complex:
    real = ops.sub(ops.mul(a.real, b.real), ops.mul(a.imag, b.imag))
    return Complex(real, ops.add(ops.mul(a.real, b.imag), ops.mul(a.imag, b.real)))


def divided(a: Complex, b: Complex) -> Complex:
    """Smith's algorithm (Communications of the ACM 5(8), 1962): no overflow where the quotient has none."""
    wide = ops.ge(ops.abs(b.real), ops.abs(b.imag))
    large, small = (ops.select(wide, *pair) for pair in ((b.real, b.imag), (b.imag, b.real)))
    ratio = ops.div(small, large)
    below = ops.add(large, ops.mul(small, ratio))
    first = ops.select(wide, ops.add(a.real, ops.mul(a.imag, ratio)), ops.add(ops.mul(a.real, ratio), a.imag))
    second = ops.select(wide, ops.sub(a.imag, ops.mul(a.real, ratio)), ops.sub(ops.mul(a.imag, ratio), a.real))
    return Complex(ops.div(first, below), ops.div(second, below))


def magnitude(z: Complex) -> Value:
    return ops.hypot(z.real, z.imag)


def exponential(z: Complex) -> Complex:
    scale = ops.exp(z.real)
    sine = ops.select(ops.eq(z.imag, like(0.0, z.imag)), z.imag, ops.mul(scale, ops.sin(z.imag)))
    return Complex(ops.mul(scale, ops.cos(z.imag)), sine)


def logarithm(z: Complex) -> Complex:
    return Complex(ops.log(magnitude(z)), ops.atan2(z.imag, z.real))


def square_root(z: Complex) -> Complex:
    """The root with a real part that is not negative. For a negative real part the larger part of the root is computed first."""
    half = ops.sqrt(ops.mul(ops.add(magnitude(z), ops.abs(z.real)), like(0.5, z.real)))
    zero = ops.eq(half, like(0.0, half))
    other = ops.div(ops.mul(z.imag, like(0.5, z.imag)), ops.select(zero, like(1.0, half), half))
    right = ops.ge(z.real, like(0.0, z.real))
    signed = ops.select(ops.lt(z.imag, like(0.0, z.imag)), ops.neg(half), half)
    return Complex(ops.select(right, half, ops.abs(other)), ops.select(right, other, signed))


def one(z: Complex) -> Complex:
    return Complex(full(type_of(z.real), 1), full(type_of(z.real), 0))


def _sum(a: Complex, b: Complex) -> Complex:
    return Complex(ops.add(a.real, b.real), ops.add(a.imag, b.imag))


def negated(z: Complex) -> Complex:
    return Complex(ops.neg(z.real), ops.neg(z.imag))


def sine(z: Complex) -> Complex:
    return Complex(ops.mul(ops.sin(z.real), ops.cosh(z.imag)), ops.mul(ops.cos(z.real), ops.sinh(z.imag)))


def cosine(z: Complex) -> Complex:
    return Complex(ops.mul(ops.cos(z.real), ops.cosh(z.imag)), ops.neg(ops.mul(ops.sin(z.real), ops.sinh(z.imag))))


def hyperbolic_tangent(z: Complex) -> Complex:
    """tanh(x + iy) with t = tan y and u = tanh x: (u + it) / (1 + iut)."""
    t, u = ops.tan(z.imag), ops.tanh(z.real)
    return divided(Complex(u, t), Complex(full(type_of(t), 1), ops.mul(u, t)))


def tangent(z: Complex) -> Complex:
    """tan z = -i tanh(iz)."""
    turned = hyperbolic_tangent(Complex(ops.neg(z.imag), z.real))
    return Complex(turned.imag, ops.neg(turned.real))


def exponential_minus_one(z: Complex) -> Complex:
    """Without cancellation: exp(x) cos y - 1 = expm1(x) cos y - 2 sin(y / 2)^2."""
    half = ops.sin(ops.mul(z.imag, like(0.5, z.imag)))
    real = ops.sub(ops.mul(ops.expm1(z.real), ops.cos(z.imag)), ops.mul(like(2.0, half), ops.mul(half, half)))
    return Complex(real, exponential(z).imag)


def log_plus_one(z: Complex) -> Complex:
    """log|1 + z| as half of log1p(x (x + 2) + y^2), unless the square overflows."""
    moved = Complex(ops.add(z.real, like(1.0, z.real)), z.imag)
    inner = ops.add(ops.mul(z.real, ops.add(z.real, like(2.0, z.real))), ops.mul(z.imag, z.imag))
    small = ops.lt(ops.max(ops.abs(z.real), ops.abs(z.imag)), like(0.5, z.real))
    near = ops.mul(like(0.5, inner), ops.log1p(ops.select(small, inner, like(0.0, inner))))
    found = logarithm(moved)
    return Complex(ops.select(small, near, found.real), found.imag)


def logistic(z: Complex) -> Complex:
    return divided(one(z), _sum(one(z), exponential(negated(z))))


def sign(z: Complex) -> Complex:
    size = magnitude(z)
    size = ops.select(ops.eq(size, like(0.0, size)), like(1.0, size), size)
    return Complex(ops.div(z.real, size), ops.div(z.imag, size))


UNARY: dict[str, Callable[[Complex], Any]] = {
    "abs": magnitude,
    "cosine": cosine,
    "exponential": exponential,
    "exponential_minus_one": exponential_minus_one,
    "imag": lambda z: z.imag,
    "log": logarithm,
    "log_plus_one": log_plus_one,
    "logistic": logistic,
    "real": lambda z: z.real,
    "rsqrt": lambda z: divided(one(z), square_root(z)),
    "sign": sign,
    "sine": sine,
    "sqrt": square_root,
    "tan": tangent,
    "tanh": hyperbolic_tangent,
}
BINARY: dict[str, Callable[[Complex, Complex], Complex]] = {
    "divide": divided,
    "multiply": times,
    "power": lambda a, b: _power(a, b),
}


def _power(a: Complex, b: Complex) -> Complex:
    """exp(b log a); 0 to a power is 0, and 1 to the power 0."""
    found = exponential(times(b, logarithm(a)))
    zero = ops.eq(magnitude(a), like(0.0, a.real))
    empty = ops.eq(magnitude(b), like(0.0, b.real))
    at = ops.select(empty, like(1.0, a.real), like(0.0, a.real))
    return Complex(ops.select(zero, at, found.real), ops.select(zero, like(0.0, a.real), found.imag))


for _name, _function in UNARY.items():
    complex_rule(_name)(lambda node, function=_function: function(of(node.operands[0])))
for _name, _two in BINARY.items():
    complex_rule(_name)(lambda node, function=_two: function(of(node.operands[0]), of(node.operands[1])))


@complex_rule("square", dialect="chlo")
def square(node: Node) -> Complex:
    z = of(node.operands[0])
    return times(z, z)


@complex_rule("conj", dialect="chlo")
def conj(node: Node) -> Complex:
    z = of(node.operands[0])
    return Complex(z.real, ops.neg(z.imag))


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
    a, b = (of(v) for v in node.operands)
    direction = node.word("comparison_direction")
    same = ops.and_(ops.eq(a.real, b.real), ops.eq(a.imag, b.imag))
    if direction not in ("EQ", "NE"):
        node.fail(f"complex numbers have no order, and it compares by {direction}")
    return same if direction == "EQ" else ops.not_(same)


@complex_rule("convert")
def convert_(node: Node) -> Any:
    """To real numbers: the real part."""
    z, element = of(node.operands[0]), str(node.result().element)
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
    a, b = (of(v) for v in node.operands)

    def multiply(x: Value, y: Value) -> Value:
        part = part_node(node, "real")
        part.operands = [x, y]
        return RULES[node.op.name](part)

    real = ops.sub(multiply(a.real, b.real), multiply(a.imag, b.imag))
    return Complex(real, ops.add(multiply(a.real, b.imag), multiply(a.imag, b.real)))


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
    kind, lengths = node.word("fft_type"), node.ints("fft_length")
    z = of(node.operands[0])
    rank = type_of(z.real).rank
    axes = list(range(rank - len(lengths), rank))
    if kind == "RFFT":
        size = lengths[-1] // 2 + 1
        shape = type_of(z.real).shape
        re, im = _along(z, axes[-1], inverse=False, real=True)
        cut = [ops.slice(p, starts=(0,) * rank, sizes=(*shape[:-1], size), steps=(1,) * rank) for p in (re, im)]
        return _over(Complex(*cut), axes[:-1], inverse=False)
    if kind == "IRFFT":
        z = _over(z, axes[:-1], inverse=True)
        return irfft((made(z.real), made(z.imag)), n=lengths[-1], axis=axes[-1]).value
    if kind not in ("FFT", "IFFT"):
        node.fail(f"has the unknown kind {kind}")
    return _over(z, axes, inverse=kind == "IFFT")


def _over(z: Complex, axes: Sequence[int], inverse: bool) -> Complex:
    for axis in axes:
        z = Complex(*_along(z, axis, inverse))
    return z


def _along(z: Complex, axis: int, inverse: bool, real: bool = False) -> tuple[Value, Value]:
    rank = type_of(z.real).rank
    order = (*(a for a in range(rank) if a != axis), axis)
    back = tuple(order.index(a) for a in range(rank))
    re, im = (transpose(part, order) for part in (z.real, z.imag))
    found = ops.dft(re, None if real else im, inverse=inverse)
    return transpose(found[0], back), transpose(found[1], back)
