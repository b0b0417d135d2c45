"""Activations: composites of pointwise primitives, and softmax with its relatives.

Each is an op of its own, so that a back end can lower it as a whole and imported source stays readable. With 16-bit
operands, composites of several rounding steps compute in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burn.dialect import ops
from burn.dialect.batching.rules import elementwise, leading, spread
from burn.dialect.compose import check_spreads, convert, number_like, wide
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand, normalize_axis, same_type
from burn.dialect.pointwise import broadcast
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES, FLOATS, TensorType, may_spread, type_of


def _float(cls: type[Op], x: TensorType) -> TensorType:
    if x.dtype not in FLOATS:
        cls.fail(f"does not take {x.dtype}; it takes {', '.join(FLOATS)}")
    return x


def _number(cls: type[Op], x: TensorType) -> TensorType:
    if DTYPES[x.dtype].kind not in ("float", "int", "uint"):
        cls.fail(f"does not take {x.dtype}; it takes numbers")
    return x


def in_wide(function: Callable[..., ir.Value], *xs: ir.Value) -> ir.Value:
    """function(x..), computed in float32 for 16-bit floats."""
    dtype = type_of(xs[0]).dtype
    return convert(function(*(convert(x, wide(dtype)) for x in xs)), dtype)


class Relu(Op, name="relu", traits=Trait.FOLLOWS_PRECISION, batching=elementwise):
    """max(x, 0); NaN stays NaN. Shapes: x [...] -> [...], any number type."""

    x: Operand

    @classmethod
    def infer(cls, x: TensorType) -> TensorType:
        return _number(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value) -> ir.Value:
        return ops.max(x, number_like(0, x))


class LeakyRelu(Op, name="leaky_relu", traits=Trait.FOLLOWS_PRECISION, batching=elementwise):
    """x for x > 0, else alpha * x. Shapes: x [...] -> [...]."""

    x: Operand
    alpha: float = 0.01

    @classmethod
    def infer(cls, x: TensorType, alpha: float) -> TensorType:
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, alpha: float) -> ir.Value:
        return ops.select(ops.gt(x, number_like(0, x)), x, ops.mul(x, number_like(alpha, x)))


class Prelu(Op, name="prelu", traits=Trait.FOLLOWS_PRECISION, batching=spread):
    """x for x > 0, else slope * x. Shapes: x [...], slope broadcast to it -> [...], any number type."""

    x: Operand
    slope: Operand

    @classmethod
    def infer(cls, x: TensorType, slope: TensorType) -> TensorType:
        same_type(cls, x, slope)
        if not may_spread(slope.shape, x.shape):
            cls.fail(f"the slope {slope} does not broadcast to {x}")
        return _number(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, slope: ir.Value) -> ir.Value:
        check_spreads(type_of(slope).shape, type_of(x).shape, "the slope broadcasts to the input")
        return ops.select(ops.gt(x, number_like(0, x)), x, ops.mul(x, slope))


class ThresholdedRelu(Op, name="thresholded_relu", batching=elementwise):
    """x if x > alpha, else 0. Shapes: x [...] -> [...]."""

    x: Operand
    alpha: float = 1.0

    @classmethod
    def infer(cls, x: TensorType, alpha: float) -> TensorType:
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, alpha: float) -> ir.Value:
        return ops.select(ops.gt(x, number_like(alpha, x)), x, number_like(0, x))


class Clip(Op, name="clip", traits=Trait.FOLLOWS_PRECISION, batching=leading()):
    """min(max(x, low), high); either bound (a scalar) may be absent. The derivative at a bound is 1, as for torch's
    clamp; with `strict` it is 0, as for torch's hardtanh. Shapes: x [...], low [], high [] -> [...]."""

    x: Operand
    low: Operand | None
    high: Operand | None
    strict: bool = False

    @classmethod
    def infer(cls, x: TensorType, low: TensorType | None, high: TensorType | None, strict: bool) -> TensorType:
        for bound in (low, high):
            if bound is not None:
                same_type(cls, x, bound)
                if bound.elements != 1:
                    cls.fail(f"a bound must be one number, not {bound}")
        return _number(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, low: ir.Value | None, high: ir.Value | None, strict: bool) -> ir.Value:
        if low is not None:
            x = ops.max(x, ops.reshape(low, shape=()))
        if high is not None:
            x = ops.min(x, ops.reshape(high, shape=()))
        return x


class Elu(Op, name="elu", batching=elementwise):
    """x for x >= 0, alpha * (exp(x) - 1) below (arXiv:1511.07289). Shapes: x [...] -> [...]."""

    x: Operand
    alpha: float = 1.0

    @classmethod
    def infer(cls, x: TensorType, alpha: float) -> TensorType:
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, alpha: float) -> ir.Value:
        return in_wide(lambda v: _elu(v, alpha, 1.0, 1.0), x)


class Selu(Op, name="selu", batching=elementwise):
    """gamma * elu(x, alpha) (arXiv:1706.02515). Shapes: x [...] -> [...]."""

    x: Operand
    alpha: float = 1.6732632423543772
    gamma: float = 1.0507009873554805

    @classmethod
    def infer(cls, x: TensorType, alpha: float, gamma: float) -> TensorType:
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, alpha: float, gamma: float) -> ir.Value:
        return in_wide(lambda v: _elu(v, alpha, gamma, 1.0), x)


class Celu(Op, name="celu", batching=elementwise):
    """x for x >= 0, alpha * (exp(x / alpha) - 1) below (arXiv:1704.07483). Shapes: x [...] -> [...]."""

    x: Operand
    alpha: float = 1.0

    @classmethod
    def infer(cls, x: TensorType, alpha: float) -> TensorType:
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, alpha: float) -> ir.Value:
        return in_wide(lambda v: _elu(v, alpha, 1.0, alpha), x)


def _elu(x: ir.Value, alpha: float, gamma: float, width: float) -> ir.Value:
    """gamma * x for x >= 0, gamma * alpha * (exp(x / width) - 1) below."""
    scaled = x if width == 1.0 else ops.div(x, number_like(width, x))
    below = ops.mul(ops.expm1(scaled), number_like(gamma * alpha, x))
    above = x if gamma == 1.0 else ops.mul(x, number_like(gamma, x))
    return ops.select(ops.lt(x, number_like(0, x)), below, above)


class HardSigmoid(Op, name="hard_sigmoid", traits=Trait.FOLLOWS_PRECISION, batching=elementwise):
    """alpha * x + beta, clamped to [0, 1]. Shapes: x [...] -> [...]."""

    x: Operand
    alpha: float = 0.2
    beta: float = 0.5

    @classmethod
    def infer(cls, x: TensorType, alpha: float, beta: float) -> TensorType:
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, alpha: float, beta: float) -> ir.Value:
        return in_wide(lambda v: _hard_sigmoid(v, alpha, beta), x)


class HardSwish(Op, name="hard_swish", traits=Trait.FOLLOWS_PRECISION, batching=elementwise):
    """x * hard_sigmoid(x, 1/6, 1/2) (arXiv:1905.02244). Shapes: x [...] -> [...]."""

    x: Operand

    @classmethod
    def infer(cls, x: TensorType) -> TensorType:
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value) -> ir.Value:
        return in_wide(lambda v: ops.mul(v, _hard_sigmoid(v, 1 / 6, 0.5)), x)


def _hard_sigmoid(x: ir.Value, alpha: float, beta: float) -> ir.Value:
    line = ops.add(ops.mul(x, number_like(alpha, x)), number_like(beta, x))
    return ops.max(ops.min(line, number_like(1, x)), number_like(0, x))


class Silu(Op, name="silu", traits=Trait.FOLLOWS_PRECISION, batching=elementwise):
    """x * sigmoid(alpha * x), also called swish (arXiv:1710.05941). Shapes: x [...] -> [...]."""

    x: Operand
    alpha: float = 1.0

    @classmethod
    def infer(cls, x: TensorType, alpha: float) -> TensorType:
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, alpha: float) -> ir.Value:
        def silu(v: ir.Value) -> ir.Value:
            return ops.mul(v, ops.sigmoid(v if alpha == 1.0 else ops.mul(v, number_like(alpha, v))))

        return in_wide(silu, x)


GELU_CUBE = 0.044715
"""The factor of the cube in GELU's approximation by tanh."""


def tanh_curve(v: ir.Value) -> ir.Value:
    """The tanh of GELU's approximation."""
    cube = ops.mul(ops.mul(ops.mul(v, v), v), number_like(GELU_CUBE, v))
    return ops.tanh(ops.mul(ops.add(v, cube), number_like(math.sqrt(2 / math.pi), v)))


class Gelu(Op, name="gelu", traits=Trait.FOLLOWS_PRECISION, batching=elementwise):
    """x times the cumulative distribution function of the standard normal distribution (arXiv:1606.08415): by erf
    ("none") or by tanh ("tanh"). Shapes: x [...] -> [...]."""

    x: Operand
    approximate: str = "none"

    @classmethod
    def infer(cls, x: TensorType, approximate: str) -> TensorType:
        if approximate not in ("none", "tanh"):
            cls.fail(f"'{approximate}' is neither none nor tanh", "approximate")
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, approximate: str) -> ir.Value:
        def gelu(v: ir.Value) -> ir.Value:
            if approximate == "tanh":
                curve = tanh_curve(v)
            else:
                curve = ops.erf(ops.mul(v, number_like(math.sqrt(0.5), v)))
            return ops.mul(ops.mul(v, number_like(0.5, v)), ops.add(curve, number_like(1, v)))

        return in_wide(gelu, x)


class Softplus(Op, name="softplus", batching=elementwise):
    """log(1 + exp(x)), written so that exp does not overflow. Shapes: x [...] -> [...]."""

    x: Operand

    @classmethod
    def infer(cls, x: TensorType) -> TensorType:
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value) -> ir.Value:
        return in_wide(_softplus, x)


def _softplus(x: ir.Value) -> ir.Value:
    return ops.add(ops.max(x, number_like(0, x)), ops.log1p(ops.exp(ops.neg(ops.abs(x)))))


class Mish(Op, name="mish", traits=Trait.FOLLOWS_PRECISION, batching=elementwise):
    """x * tanh(softplus(x)) (arXiv:1908.08681). Shapes: x [...] -> [...]."""

    x: Operand

    @classmethod
    def infer(cls, x: TensorType) -> TensorType:
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value) -> ir.Value:
        return in_wide(lambda v: ops.mul(v, ops.tanh(_softplus(v))), x)


class Softsign(Op, name="softsign", traits=Trait.FOLLOWS_PRECISION, batching=elementwise):
    """x / (1 + |x|). Shapes: x [...] -> [...]."""

    x: Operand

    @classmethod
    def infer(cls, x: TensorType) -> TensorType:
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value) -> ir.Value:
        return in_wide(lambda v: ops.div(v, ops.add(ops.abs(v), number_like(1, v))), x)


class Softmax(Op, name="softmax", batching=leading("axis")):
    """exp(x) / sum of exp(x) along `axis`, with the maximum subtracted first. Shapes: x [...] -> [...]."""

    x: Operand
    axis: int = -1

    @classmethod
    def infer(cls, x: TensorType, axis: int) -> TensorType:
        normalize_axis(cls, axis, x.rank)
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, axis: int) -> ir.Value:
        def softmax(v: ir.Value) -> ir.Value:
            powers = ops.exp(_centred(v, axis))
            return ops.div(powers, _over(powers, "sum", axis))

        return in_wide(softmax, x)


class LogSoftmax(Op, name="log_softmax", batching=leading("axis")):
    """log(softmax(x)) along `axis`, without the division. Shapes: x [...] -> [...]."""

    x: Operand
    axis: int = -1

    @classmethod
    def infer(cls, x: TensorType, axis: int) -> TensorType:
        normalize_axis(cls, axis, x.rank)
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, axis: int) -> ir.Value:
        def log_softmax(v: ir.Value) -> ir.Value:
            centred = _centred(v, axis)
            return ops.sub(centred, ops.log(_over(ops.exp(centred), "sum", axis)))

        return in_wide(log_softmax, x)


def _over(x: ir.Value, kind: str, axis: int) -> Any:
    rank = type_of(x).rank
    return ops.reduce(x, kind=kind, axes=(axis % rank,) if rank else (), keepdims=True)


def _centred(x: ir.Value, axis: int) -> ir.Value:
    return ops.sub(x, _over(x, "max", axis))


class Hypot(Op, name="hypot", batching=elementwise):
    """sqrt(lhs^2 + rhs^2). Shapes: lhs, rhs broadcast to [...] -> [...], floats."""

    lhs: Operand
    rhs: Operand

    @classmethod
    def infer(cls, lhs: TensorType, rhs: TensorType) -> TensorType:
        same_type(cls, lhs, rhs)
        return TensorType(_float(cls, lhs).dtype, broadcast(cls, lhs, rhs))

    @classmethod
    def decompose(cls, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        return in_wide(_length, lhs, rhs)


class Root(Op, name="root", batching=elementwise):
    """x^(1/degree), for x a sum of powers. If the result is 0, the derivative is 0, the subgradient of least norm.
    Shapes: x [...] -> [...], floats."""

    x: Operand
    degree: float = 2.0

    @classmethod
    def infer(cls, x: TensorType, degree: float) -> TensorType:
        if degree == 0.0:
            cls.fail("there is no root of degree 0", "degree")
        return _float(cls, x)

    @classmethod
    def decompose(cls, x: ir.Value, degree: float) -> ir.Value:
        return ops.sqrt(x) if degree == 2.0 else ops.pow(x, number_like(1.0 / degree, x))


MIDDLE = {"float32": (2.0**-50, 2.0**100, 2.0**60, 2.0**-80), "float64": (2.0**-450, 2.0**700, 2.0**500, 2.0**-600)}
"""The range in which squares neither underflow nor overflow, and the factors that scale smaller and larger numbers into
it."""


def _length(x: ir.Value, y: ir.Value) -> ir.Value:
    """sqrt(x^2 + y^2), scaled by a power of two if a square would underflow or overflow; C99's result for an infinity."""
    low, up, high, down = (number_like(c, x) for c in MIDDLE[type_of(x).dtype])
    one, top = number_like(1.0, x), ops.max(ops.abs(x), ops.abs(y))
    large, small = ops.gt(top, high), ops.lt(top, low)
    factor = ops.select(large, down, ops.select(small, up, one))
    back = ops.select(large, ops.reciprocal(down), ops.select(small, ops.reciprocal(up), one))
    x, y = ops.mul(x, factor), ops.mul(y, factor)
    length = ops.mul(ops.sqrt(ops.add(ops.mul(x, x), ops.mul(y, y))), back)
    return ops.select(ops.or_(ops.isinf(x), ops.isinf(y)), number_like(math.inf, x), length)
