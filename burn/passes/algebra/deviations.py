"""Sums of deviations: what a normalisation's mean receives in the backward pass.

The gradient of a batch norm's input is g * c + (x - mean) * d, with a number c and d for each channel. The mean receives its sum,
for which a kernel would read g and x once more. Both have been summed already: g for the bias's gradient, x for the mean.
"""

from __future__ import annotations

from functools import reduce

from burn.dialect import ops
from burn.dialect.compose import broadcast_to, convert, dim_value, number, reshape
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import is_named, is_used, op_of, result_type
from burn.dialect.reduction import Reduce
from burn.dialect.types import HALF_DTYPES, type_of
from burn.passes.algebra.law import Rewriter, law

MOST = 12
"""The most ops of such a linear combination."""


@law("reduce")
def sum_of_deviations(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """sum(x * c + (y - m) * d) = sum(x) * c + (sum(y) - n * m) * d, if c and d are constant along the n summed elements, m is y's
    mean, and x is summed anyway. Nothing else is split: sums of differences would cancel. A mean has been rounded, which changes
    the sum of the deviations as much as this cancellation. The mean of no elements is NaN, but the sum 0. The same for a
    combination in float32 that is rounded before it is summed."""
    narrow = is_named(op.x, "cast")
    rounds = narrow is not None and type_of(narrow.x).dtype == "float32" and type_of(op.x).dtype in HALF_DTYPES
    x = narrow.x if narrow is not None and rounds else op.x
    shape, dtype = type_of(x).shape, type_of(x).dtype
    axes = tuple(sorted(a % len(shape) for a in op.axes)) if shape else ()
    if op.kind != "sum" or dtype not in ("float32", "float64") or not axes:
        return None
    found = _Terms(op, shape, axes)
    if not found.walk(x, ()) or not found.deviations or len(found.others) > 1:
        return None
    elements = product([shape[a] for a in axes])
    if elements == 0:
        return None
    count = dim_value(elements, dtype)
    kept = tuple(1 if a in axes else d for a, d in enumerate(shape))
    terms = [_scaled(ops.sub(found.total(y, kept), ops.mul(mean, count)), c) for y, mean, c in found.deviations]
    terms += [_scaled(found.total(y, kept), c) for y, c in found.others]
    total = broadcast_to(reduce(ops.add, terms), kept)
    if not isinstance(elements, int):
        total = ops.select(ops.gt(count, number(0, dtype)), total, number(0, dtype))
    return convert(reshape(total, result_type(op).shape), result_type(op).dtype)


Factors = tuple[tuple[str, ir.Value | None], ...]
"""The ops on a term, the outermost first: "mul" and "div" by a value, and "neg"."""


def _scaled(term: ir.Value, factors: Factors) -> ir.Value:
    for name, value in reversed(factors):
        term = ops.neg(term) if value is None else ops.mul(term, value) if name == "mul" else ops.div(term, value)
    return term


def _unshaped(value: ir.Value) -> ir.Value:
    while (op := is_named(value, "reshape", "broadcast_to")) is not None:
        value = op.x
    return value


class _Terms:
    """The terms of a linear combination: deviations from a mean, and others. Their factors are constant along the summed axes,
    and their sums are known."""

    def __init__(self, op: Op, shape: tuple[Dim, ...], axes: tuple[int, ...]) -> None:
        self.op, self.shape, self.axes = op, shape, axes
        self.deviations: list[tuple[ir.Value, ir.Value, Factors]] = []
        self.others: list[tuple[ir.Value, Factors]] = []
        self.steps = 0

    def walk(self, value: ir.Value, factors: Factors) -> bool:
        """Adds the terms of a value; False if it has others."""
        self.steps += 1
        if self._is_constant(value):
            return False
        op = is_named(value, "add", "sub", "neg", "mul", "div")
        if (
            op is None or self.steps > MOST or self._known(value) is not None
        ):  # an activation's gradient is a sum, and is summed
            return self._adds(value, factors)
        if op.OP_NAME == "neg":
            return self.walk(op.x, (*factors, ("neg", None)))
        lhs, rhs = op.lhs, op.rhs
        if op.OP_NAME in ("mul", "div"):
            if op.OP_NAME == "mul" and self._is_constant(lhs):
                lhs, rhs = rhs, lhs
            if self._is_constant(rhs) and self._is_whole(lhs):
                return self.walk(lhs, (*factors, (op.OP_NAME, rhs)))
            return self._adds(value, factors)
        if op.OP_NAME == "sub" and self._is_constant(rhs):
            if not self._is_mean(rhs, lhs):
                return False
            self.deviations.append((lhs, rhs, factors))
            return True
        minus: Factors = (("neg", None),) if op.OP_NAME == "sub" else ()
        return self.walk(lhs, factors) and self.walk(rhs, (*factors, *minus))

    def _adds(self, value: ir.Value, factors: Factors) -> bool:
        self.others.append((value, factors))
        return self._known(value) is not None

    def _is_whole(self, value: ir.Value) -> bool:
        return type_of(value).shape == self.shape

    def _is_constant(self, value: ir.Value) -> bool:
        """True for a value without the summed axes, or of size 1 along them."""
        own = type_of(value).shape
        missing = len(self.shape) - len(own)
        return all(a < missing or own[a - missing] == 1 for a in self.axes)

    def _is_mean(self, value: ir.Value, of: ir.Value) -> bool:
        """True if a value is the sum of another one along the axes, divided by or times a number."""
        ratio = is_named(_unshaped(value), "div", "mul")
        if ratio is None or self._known(of) is None:
            return False
        numerators = (ratio.lhs,) if ratio.OP_NAME == "div" else (ratio.lhs, ratio.rhs)
        totals = [op_of(_unshaped(each)) for each in numerators]
        return any(isinstance(t, Reduce) and t.x == of and self._is_sum(t) for t in totals)

    def _is_sum(self, op: Reduce) -> bool:
        """True for a sum over the same axes."""
        return op.kind == "sum" and tuple(sorted(a % len(self.shape) for a in op.axes)) == self.axes

    def _known(self, value: ir.Value) -> Op | None:
        """Another sum of a value over the same axes."""
        for use in value.uses if self._is_whole(value) else ():
            other = use.owner
            if not isinstance(other, Reduce) or not self._is_sum(other) or other.operation == self.op.operation:
                continue
            if other.operation.block == self.op.operation.block and is_used(other.operation):
                return other
        return None

    def total(self, value: ir.Value, kept: tuple[Dim, ...]) -> ir.Value:
        """A value's sum. It is computed here like the other one, so that they become one op wherever that stands."""
        known = self._known(value)
        assert known is not None
        return reshape(ops.reduce(value, **known.attrs), kept)
