"""Factors: the axes of an op's operands and results that can be divided together. Enter at `factors_of`.

A factor of `c = dot_general(a, b)` is the rows of a, which are also the rows of c. Another is the depth of a and b, which no
result has: each device then has partial sums. This is the notation of einsum, as in Shardy's sharding rules
(openxla.org/shardy). `RULES` has a function for each op class. An op without a rule, and an axis without a factor, gets whole
operands, which is always right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any, TypeAlias

from burn.dialect import ops
from burn.dialect.compose import number
from burn.dialect.indexing import Gather
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Cast, Pointwise
from burn.dialect.query import splat
from burn.dialect.types import DTYPES, type_of
from burn.passes.sharding.grid import Axes, Grid, local

AxisFactors: TypeAlias = "list[int | None]"
"""The factor of each axis of a tensor; None for an axis that has to be whole."""

Build: TypeAlias = Callable[[Op, Sequence[ir.Value], Sequence[Axes], Grid], Any]
"""build(op, operands, results, grid): the op on one device's blocks. results: the results' shardings."""


@dataclass
class Factors:
    """operands, results: the factors of their axes. sizes: what the devices along a factor must divide. reduced: factors that
    results do not have, and the reduction over them. linear: the results of partial sums are partial sums ("one": of one
    operand, "first" or "last": of that one, "all": if all operands are partial). free: operands that may lie in any way."""

    operands: list[AxisFactors]
    results: list[AxisFactors]
    sizes: dict[int, int] = field(default_factory=dict)
    reduced: dict[int, str] = field(default_factory=dict)
    linear: str = ""
    free: frozenset[int] = frozenset()
    build: Build | None = None


class _New:
    """Numbers factors."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}

    def __call__(self, size: Any) -> int | None:
        """A factor for an axis; None if its size is no number, or 1."""
        if not isinstance(size, int) or size <= 1:
            return None
        self.sizes[len(self.sizes)] = size
        return len(self.sizes) - 1

    def of(self, shape: Sequence[Any]) -> AxisFactors:
        return [self(size) for size in shape]


Rule: TypeAlias = "Callable[[Op], Factors | None]"
RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def factors_of(op: Op) -> Factors | None:
    """The factors of an op; None if it has no rule for these operands."""
    found = RULES.get(op.OP_NAME) or (_pointwise if isinstance(op, Pointwise) else None)
    return None if found is None else found(op)


def _shapes(op: Op) -> list[tuple[Any, ...]]:
    return [type_of(value).shape for value in op.operation.operands]


def _shape(op: Op, result: int = 0) -> tuple[Any, ...]:
    return type_of(op.operation.results[result]).shape


def _none(shape: Sequence[Any]) -> AxisFactors:
    return [None] * len(shape)


# ---- elements --------------------------------------------------------------------------------------------------------------
_LINEAR = {"add": "all", "sub": "all", "neg": "one", "mul": "one", "div": "first"}


def _pointwise(op: Op) -> Factors:
    new, out = _New(), _shape(op)
    result = new.of(out)
    operands = [_aligned(shape, out, result) for shape in _shapes(op)]
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


def _aligned(shape: Sequence[Any], out: Sequence[Any], result: AxisFactors) -> AxisFactors:
    """The factors of an operand that broadcasts."""
    start = len(out) - len(shape)
    return [result[start + i] if d != 1 else None for i, d in enumerate(shape)]


@_rule("barrier")
def _barrier(op: Op) -> Factors:
    new = _New()
    x = new.of(_shapes(op)[0])
    return Factors([x, _none(_shapes(op)[1])], [x], new.sizes, free=frozenset({1}))


@_rule("full")
def _full(op: Op) -> Factors:
    new = _New()

    def build(op: Op, operands: Sequence[ir.Value], results: Sequence[Axes], grid: Grid) -> Any:
        return ops.full(**{**op.attrs, "shape": local(op.shape, results[0], grid)})

    return Factors([], [new.of(_shape(op))], new.sizes, build=build)


@_rule("iota")
def _iota(op: Op) -> Factors:
    new = _New()

    def build(op: Op, operands: Sequence[ir.Value], results: Sequence[Axes], grid: Grid) -> Any:
        """Counts on from the first element of the block. The device at position 0 adds 0: all devices have the same ops, by
        whose positions buckets are chosen."""
        shape, axis = local(op.shape, results[0], grid), op.axis % len(op.shape)
        made = ops.iota(shape=shape, axis=axis, dtype=op.dtype)
        start = grid.position(results[0][axis]) * shape[axis]
        return ops.add(made, number(start, op.dtype))

    return Factors([], [new.of(_shape(op))], new.sizes, build=build)


# ---- views -----------------------------------------------------------------------------------------------------------------
def _sized(attribute: str) -> Build:
    """The op whose attribute is the shape of its result."""

    def build(op: Op, operands: Sequence[ir.Value], results: Sequence[Axes], grid: Grid) -> Any:
        shape = local(_shape(op), results[0], grid)
        return op.build(*operands, **{**op.attrs, attribute: shape})

    return build


@_rule("broadcast_to")
def _broadcast_to(op: Op) -> Factors:
    new, out = _New(), _shape(op)
    result = new.of(out)
    return Factors([_aligned(_shapes(op)[0], out, result)], [result], new.sizes, linear="one", build=_sized("shape"))


@_rule("transpose")
def _transpose(op: Op) -> Factors:
    new = _New()
    x = new.of(_shapes(op)[0])
    return Factors([x], [[x[p] for p in op.permutation]], new.sizes, linear="one")


@_rule("reshape")
def _reshape(op: Op) -> Factors:
    """Row-major order: of axes that are merged or split, the outermost can be divided."""
    new, have, want = _New(), _shapes(op)[0], _shape(op)
    x, y = _none(have), _none(want)
    if all(isinstance(d, int) for d in (*have, *want)) and prod(have):
        for mine, theirs in _merged(have, want):
            i, j = (next((k for k in part if sizes[k] > 1), None) for part, sizes in ((mine, have), (theirs, want)))
            if i is not None and j is not None:
                x[i] = y[j] = new(gcd(have[i], want[j]))
    return Factors([x], [y], new.sizes, linear="one", build=_sized("shape"))


def _merged(have: Sequence[int], want: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of axes with equally many elements."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(have) and j < len(want):
        mine, theirs, a, b = [i], [j], have[i], want[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a, i = a * have[i], i + 1
                mine.append(i - 1)
            else:
                b, j = b * want[j], j + 1
                theirs.append(j - 1)
        found.append((mine, theirs))
    return found


@_rule("slice")
def _slice(op: Op) -> Factors:
    new, have = _New(), _shapes(op)[0]
    rows = zip(have, op.starts, op.sizes, op.steps, strict=True)
    x = [new(d) if (start, size, step) == (0, d, 1) else None for d, start, size, step in rows]
    return Factors([x], [x], new.sizes, linear="one", build=_sized("sizes"))


@_rule("pad")
def _pad(op: Op) -> Factors:
    new, have = _New(), _shapes(op)[0]
    interior = op.interior or (0,) * len(have)
    rows = zip(have, op.low, op.high, interior, strict=True)
    x = [new(d) if (low, high, gap) == (0, 0, 0) else None for d, low, high, gap in rows]
    return Factors([x, []], [x], new.sizes)


@_rule("concat")
def _concat(op: Op) -> Factors:
    new, out = _New(), _shape(op)
    axis = op.axis % len(out)
    result = [None if i == axis else new(d) for i, d in enumerate(out)]
    return Factors([result] * len(_shapes(op)), [result], new.sizes)


@_rule("windows")
def _windows(op: Op) -> Factors:
    new, have = _New(), _shapes(op)[0]
    end = op.axis + len(op.window)
    x = [None if op.axis <= i < end else new(d) for i, d in enumerate(have)]
    result = [*x[: op.axis], *[None] * (2 * len(op.window)), *x[end:]]
    return Factors([x], [result], new.sizes)


# ---- reductions ------------------------------------------------------------------------------------------------------------
REDUCTIONS = {"sum": "sum", "max": "max", "min": "min", "prod": "prod"}


@_rule("reduce")
def _reduce(op: Op) -> Factors:
    new, have = _New(), _shapes(op)[0]
    axes = {a % len(have) for a in op.axes} if have else set()
    kind = REDUCTIONS.get(op.kind)
    x = [new(d) if i not in axes or kind is not None else None for i, d in enumerate(have)]
    kept = [None if i in axes else x[i] for i in range(len(have)) if i not in axes or op.keepdims]
    reduced = {f: kind for i in axes if (f := x[i]) is not None and kind is not None}
    return Factors([x], [kept], new.sizes, reduced, linear="one" if kind == "sum" else "")


def _along(axis: str) -> Rule:
    """Ops that work along one axis, the others being independent."""

    def rule(op: Op) -> Factors:
        new, have = _New(), _shapes(op)[0]
        if not have:
            return Factors([[]], [[] for _ in op.operation.results])
        own = getattr(op, axis) % len(have)
        x = [None if i == own else new(d) for i, d in enumerate(have)]
        results = []
        for result in range(len(op.operation.results)):
            rank = len(_shape(op, result))
            results.append(x if rank == len(have) else [f for i, f in enumerate(x) if i != own])
        return Factors([x], results, new.sizes)

    return rule


RULES |= dict.fromkeys(("cumulative", "sort", "arg_reduce"), _along("axis"))


@_rule("window_reduce")
def _window_reduce(op: Op) -> Factors:
    new, have = _New(), _shapes(op)[0]
    rows = zip(have, op.window, op.strides, op.dilations, op.low, op.high, strict=True)
    x = [new(d) if (w, s, t, low, high) == (1, 1, 1, 0, 0) else None for d, w, s, t, low, high in rows]
    return Factors([x], [x], new.sizes)


# ---- contractions ----------------------------------------------------------------------------------------------------------
@_rule("dot_general")
def _dot_general(op: Op) -> Factors:
    new, (a, b) = _New(), _shapes(op)
    lhs, rhs = _none(a), _none(b)
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


@_rule("conv")
def _conv(op: Op) -> Factors:
    """The batch, and without groups the channels."""
    new, (x, weight) = _New(), _shapes(op)
    last = op.layout == "last"
    channel, inputs, outputs = (-1, -2, -1) if last else (1, 1, 0)
    a, b, c = _none(x), _none(weight), _none(_shape(op))
    a[0] = c[0] = new(x[0])
    reduced: dict[int, str] = {}
    if op.groups == 1:
        b[outputs] = c[channel] = new(weight[outputs])
        if op.fill in (None, 0):
            a[channel] = b[inputs] = factor = new(x[channel])
            reduced |= {} if factor is None else {factor: "sum"}
    return Factors([a, b], [c], new.sizes, reduced)


@_rule("attention", "attention_forward", "attention_backward")
def _attention(op: Op) -> Factors:
    """Batch entries and heads. Neighbouring query heads share a key head, so blocks of heads stay together."""
    new, q = _New(), type_of(op.q).shape
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


# ---- indexing --------------------------------------------------------------------------------------------------------------
@_rule("gather")
def _gather(op: Op) -> Factors:
    new, (x, indices) = _New(), _shapes(op)
    assert isinstance(op, Gather)
    axis = op.axis % len(x)
    a = [None if i == axis else new(d) for i, d in enumerate(x)]
    b = new.of(indices)
    return Factors([a, b], [[*a[:axis], *b, *a[axis + 1 :]]], new.sizes)


@_rule("gather_elements")
def _gather_elements(op: Op) -> Factors:
    new, (x, indices) = _New(), _shapes(op)
    axis = op.axis % len(x)
    b = [None if i == axis or d != x[i] else new(d) for i, d in enumerate(indices)]
    return Factors([b, b], [b], new.sizes)


@_rule("gather_nd")
def _gather_nd(op: Op) -> Factors:
    new, (x, indices) = _New(), _shapes(op)
    depth, count = indices[-1], op.batch_dims
    shared = [new(d) for d in x[:count]]
    rest = [new(d) for d in x[count + depth :]]
    picked = [new(d) for d in indices[count:-1]]
    return Factors(
        [[*shared, *[None] * depth, *rest], [*shared, *picked, None]], [[*shared, *picked, *rest]], new.sizes
    )


def _adds_to_zeros(op: Op) -> bool:
    return op.reduction == "add" and splat(op.x) == 0


@_rule("scatter_nd")
def _scatter_nd(op: Op) -> Factors:
    """Updates of zeros are divided: each device adds its own. Axes behind the indexed ones are also divided."""
    new, (x, indices, _) = _New(), _shapes(op)
    depth, divides = indices[-1], _adds_to_zeros(op)
    rest = [new(d) for d in x[depth:]]
    placed = [new(d) if divides else None for d in indices[:-1]]
    own = [*[None] * depth, *rest]
    reduced = {f: "sum" for f in placed if f is not None}
    linear = "last" if divides else ""
    return Factors([own, [*placed, None], [*placed, *rest]], [own], new.sizes, reduced, linear)


@_rule("scatter_elements")
def _scatter_elements(op: Op) -> Factors:
    """Axes along which nothing moves, and updates of zeros."""
    new, (x, indices, _) = _New(), _shapes(op)
    axis = op.axis % len(x)
    own = [None if i == axis or d != indices[i] else new(d) for i, d in enumerate(x)]
    moved, reduced = list(own), dict[int, str]()
    if _adds_to_zeros(op) and (factor := new(indices[axis])) is not None:
        moved[axis], reduced[factor] = factor, "sum"
    return Factors([own, moved, moved], [own], new.sizes, reduced)
