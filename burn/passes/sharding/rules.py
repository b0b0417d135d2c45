"""The factors of ops of elements, reductions and contractions, and those of `views` and `indexing`. Enter at `factors_of`."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

from burn.dialect import ops
from burn.dialect.collective import REDUCTIONS
from burn.dialect.compose import number
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Cast, Pointwise
from burn.dialect.types import DTYPES, type_of
from burn.passes.sharding import indexing, views  # noqa: F401  they register their rules
from burn.passes.sharding.factors import (
    RULES,
    AxisFactors,
    Factors,
    New,
    Rule,
    aligned,
    factors_for,
    operand_shapes,
    result_shape,
    undivided,
)
from burn.passes.sharding.grid import Axes, Grid, local


def factors_of(op: Op) -> Factors | None:
    """The factors of an op; None if it has no rule for these operands."""
    found = RULES.get(op.OP_NAME) or (_pointwise if isinstance(op, Pointwise) else None)
    return None if found is None else found(op)


# ---- elements ------------------------------------------------------------------------------------------------------------------
_LINEAR = {"add": "all", "sub": "all", "neg": "one", "mul": "one", "div": "first"}


def _pointwise(op: Op) -> Factors:
    new, out = New(), result_shape(op)
    result = new.of(out)
    operands = [aligned(shape, out, result) for shape in operand_shapes(op)]
    linear = _LINEAR.get(op.OP_NAME, "")
    if DTYPES[type_of(op.operation.results[0]).dtype].kind != "float":
        linear = ""
    if isinstance(op, Cast) and _widens(op):
        linear = "one"
    return Factors(operands, [result], new.sizes, linear=linear)


def _widens(op: Op) -> bool:
    """True if a cast rounds nothing: partial sums may be added behind it."""
    x, y = (DTYPES[type_of(value).dtype] for value in (op.x, op.operation.results[0]))
    return x.kind == y.kind == "float" and (x.bits < y.bits)


@factors_for("barrier")
def _barrier(op: Op) -> Factors:
    new = New()
    x = new.of(operand_shapes(op)[0])
    return Factors([x, undivided(operand_shapes(op)[1])], [x], new.sizes, free=frozenset({1}))


@factors_for("full")
def _full(op: Op) -> Factors:
    new = New()

    def build(op: Op, operands: Sequence[ir.Value], results: Sequence[Axes], grid: Grid) -> Any:
        return ops.full(**{**op.attrs, "shape": local(op.shape, results[0], grid)})

    return Factors([], [new.of(result_shape(op))], new.sizes, build=build)


@factors_for("iota")
def _iota(op: Op) -> Factors:
    new = New()

    def build(op: Op, operands: Sequence[ir.Value], results: Sequence[Axes], grid: Grid) -> Any:
        """Counts on from the first element of the block. The device at position 0 adds 0: all devices have the same ops, by
        whose positions buckets are chosen."""
        shape, axis = local(op.shape, results[0], grid), op.axis % len(op.shape)
        made = ops.iota(shape=shape, axis=axis, dtype=op.dtype)
        start = grid.position(results[0][axis]) * shape[axis]
        return ops.add(made, number(start, op.dtype))

    return Factors([], [new.of(result_shape(op))], new.sizes, build=build)


# ---- reductions ----------------------------------------------------------------------------------------------------------------
@factors_for("reduce")
def _reduce(op: Op) -> Factors:
    new, have = New(), operand_shapes(op)[0]
    axes = {a % len(have) for a in op.axes} if have else set()
    kind = op.kind if op.kind in REDUCTIONS else None
    x = [new(d) if i not in axes or kind is not None else None for i, d in enumerate(have)]
    kept = [None if i in axes else x[i] for i in range(len(have)) if i not in axes or op.keepdims]
    reduced = {f: kind for i in axes if (f := x[i]) is not None and kind is not None}
    return Factors([x], [kept], new.sizes, reduced, linear="one" if kind == "sum" else "")


def _along(axis: str) -> Rule:
    """Ops that work along one axis, the others being independent."""

    def rule(op: Op) -> Factors:
        new, have = New(), operand_shapes(op)[0]
        if not have:
            return Factors([[]], [[] for _ in op.operation.results])
        own = getattr(op, axis) % len(have)
        x = [None if i == own else new(d) for i, d in enumerate(have)]
        results = []
        for result in range(len(op.operation.results)):
            rank = len(result_shape(op, result))
            results.append(x if rank == len(have) else [f for i, f in enumerate(x) if i != own])
        return Factors([x], results, new.sizes)

    return rule


RULES |= dict.fromkeys(("cumulative", "sort", "arg_reduce"), _along("axis"))


@factors_for("window_reduce")
def _window_reduce(op: Op) -> Factors:
    new, have = New(), operand_shapes(op)[0]
    rows = zip(have, op.window, op.strides, op.dilations, op.low, op.high, strict=True)
    x = [new(d) if (w, s, t, low, high) == (1, 1, 1, 0, 0) else None for d, w, s, t, low, high in rows]
    return Factors([x], [x], new.sizes)


# ---- contractions --------------------------------------------------------------------------------------------------------------
@factors_for("dot_general")
def _dot_general(op: Op) -> Factors:
    new, (a, b) = New(), operand_shapes(op)
    lhs, rhs = undivided(a), undivided(b)
    reduced: dict[int, str] = {}
    batch: AxisFactors = []
    for i, j in zip(op.lhs_batch, op.rhs_batch, strict=True):
        lhs[i] = rhs[j] = new(a[i])
        batch.append(lhs[i])
    for i, j in zip(op.lhs_contract, op.rhs_contract, strict=True):
        lhs[i] = rhs[j] = factor = new(a[i])
        if factor is not None:
            reduced[factor] = "sum"
    rest: AxisFactors = []
    for side, shape, taken in (
        (lhs, a, (*op.lhs_batch, *op.lhs_contract)),
        (rhs, b, (*op.rhs_batch, *op.rhs_contract)),
    ):
        for i, d in enumerate(shape):
            if i not in taken:
                side[i] = new(d)
                rest.append(side[i])
    return Factors([lhs, rhs], [[*batch, *rest]], new.sizes, reduced)


@factors_for("conv")
def _conv(op: Op) -> Factors:
    """The batch, and without groups the channels."""
    new, (x, weight) = New(), operand_shapes(op)
    last = op.layout == "last"
    channel, inputs, outputs = (-1, -2, -1) if last else (1, 1, 0)
    a, b, c = undivided(x), undivided(weight), undivided(result_shape(op))
    a[0] = c[0] = new(x[0])
    reduced: dict[int, str] = {}
    if op.groups == 1:
        b[outputs] = c[channel] = new(weight[outputs])
        if op.fill in (None, 0):
            a[channel] = b[inputs] = factor = new(x[channel])
            reduced |= {} if factor is None else {factor: "sum"}
    return Factors([a, b], [c], new.sizes, reduced)


@factors_for("attention", "attention_forward", "attention_backward")
def _attention(op: Op) -> Factors | None:
    """Batch entries and heads. Neighbouring query heads share a key head, so blocks of heads stay together. Dropout has no rule:
    a block would draw other numbers than the whole."""
    if op.key is not None:
        return None
    new, q = New(), type_of(op.q).shape
    batch, keys = new(q[0]), type_of(op.k).shape[1]
    heads = new(gcd(q[1], keys)) if isinstance(q[1], int) and isinstance(keys, int) else None

    def of(value: ir.Value) -> AxisFactors:
        rank = type_of(value).rank
        return [batch, heads, *[None] * (rank - 2)]

    def of_mask(value: ir.Value) -> AxisFactors:
        shape = type_of(value).shape
        row = [batch, heads, None, None][4 - len(shape) :]
        return [None if d == 1 else f for d, f in zip(shape, row, strict=True)]

    names = [name for name, _ in op.OPERANDS]
    operands: list[AxisFactors] = []
    for name, value in zip(names, op.args, strict=True):
        if value is not None:
            own = of_mask(value) if name == "mask" else [batch] if name == "lengths" else of(value)
            operands.append(own)
    return Factors(operands, [of(result) for result in op.operation.results], new.sizes)
