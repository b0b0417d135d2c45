"""Attention as one kernel with an online softmax over the keys."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect.attention import Attention, heads_per_group
from burn.dialect.attention_gradient import AttentionForward
from burn.dialect.control import Group
from burn.dialect.dims import Dim, Expr, LoopVar, ceildiv, dim_max, dim_min, product
from burn.dialect.dropout import Draws, calls_of_row, share
from burn.dialect.op import Op
from burn.dialect.types import type_of
from burn.kernels.body import (
    Accumulator,
    Apply,
    AttentionKernel,
    Const,
    Index,
    Kept,
    LoopKernel,
    Reduced,
    Reduction,
    Scalar,
    Stage,
    Where,
    Write,
)
from burn.kernels.builders.builder import (
    Builder,
    Call,
    accumulate_type,
    anchor_of,
    convert,
    loop_index,
    skip_views,
)
from burn.kernels.lower import Indices, broadcast_index, linear
from burn.kernels.preferences import Preferences

LN2 = 0.6931471805599453


def build(group: Group, preferences: Preferences) -> list[Call]:
    """One attention and its epilogue. Query heads that share a key head are rows of one matmul."""
    op = anchor_of(group, "attention")
    if _prefers_split(op, preferences):
        return _split_keys(group, op, preferences.split_keys)
    builder = Builder(group)
    at = _Loops(op)
    total = convert(Accumulator(at.dtype), type_of(op.q).dtype)
    builder.low.define(op.operation.results[0], lambda index: total)
    norms, kept = [], []
    for number, value in enumerate(group.yielded):
        if isinstance(op, AttentionForward) and value == op.operation.results[1]:
            norm = convert(_unless(Accumulator(at.dtype), float("-inf"), 0.0), type_of(value).dtype)
            norms.append(Write(builder.out(number), linear(at.query[:3], type_of(value).shape), norm))
        else:
            kept.append(number)
    writes = _results(builder, op, at, kept)
    return [_kernel(builder, op, at, Expr.of(at.key), writes, norms)]


class _Loops:
    """The loops of an attention, and the indices of its operands."""

    def __init__(self, op: Op) -> None:
        q, k, v = (type_of(x) for x in (op.q, op.k, op.v))
        self.dtype = accumulate_type(q.dtype) if op.precision != "float64" else "float64"
        self.batch, self.groups = LoopVar("b", q.shape[0]), LoopVar("g", k.shape[1])
        self.share, self.length = LoopVar("r", heads_per_group(q.shape[1], k.shape[1])), LoopVar("i", q.shape[2])
        self.key, self.depth = LoopVar("j", k.shape[2]), LoopVar("k", q.shape[3])
        self.column, self.total = LoopVar("e", v.shape[3]), k.shape[2]
        self.b, self.g, r, self.row = loop_index((self.batch, self.groups, self.share, self.length))
        self.head = self.g * self.share.extent + r
        self.query = (self.b, self.head, self.row, Expr.of(self.depth))
        self.result = (self.b, self.head, self.row, Expr.of(self.column))

    @property
    def rows(self) -> tuple[LoopVar, ...]:
        return (self.length,) if self.share.extent == 1 else (self.share, self.length)


def _results(builder: Builder, op: Op, at: _Loops, numbers: Sequence[int]) -> list[Write]:
    """Writes of the values that the group yields."""
    writes = []
    for number in numbers:
        space = type_of(op.operation.results[0]).shape
        source, index, shape = skip_views(builder.group.yielded[number], at.result, space)
        writes.append(Write(builder.out(number), linear(index, shape), builder.low.at(source, at.result)))
    return writes


def _kernel(
    builder: Builder,
    op: Op,
    at: _Loops,
    key: Dim,
    writes: Sequence[Write],
    norms: Sequence[Write],
    part: LoopVar | None = None,
) -> Call:
    """The kernel over all keys, or over one part of them at a time. `key`: the index of a key."""
    low, dtype = builder.low, at.dtype
    query = convert(low.at(op.q, at.query), dtype)
    keys = convert(low.at(op.k, (at.b, at.g, key, Expr.of(at.depth))), dtype)
    values = convert(low.at(op.v, (at.b, at.g, key, Expr.of(at.column))), dtype)
    first, stop = window(op, at.row, at.total)
    score = score_of(builder, op, dtype, (*at.query[:3], key), at.total, first, stop)
    factor = factor_of(builder, op, dtype, (*at.query[:3], key), at.total)
    batch = (at.batch, at.groups)
    if part is not None:  # the last part may be shorter
        inside = ((key, at.total),)
        keys, values = (Where(dtype, inside, operand, Const(dtype, 0.0)) for operand in (keys, values))
        score = Where(dtype, inside, score, Const(dtype, float("-inf")))
        begin = Expr.of(part) * at.key.extent
        first, stop = dim_max(0, first - begin), dim_max(0, dim_min(at.key.extent, stop - begin))
        batch = (*batch, part)
    return builder.call(
        lambda buffers: AttentionKernel(
            dtype,
            batch,
            at.rows,
            at.key,
            at.depth,
            at.column,
            query,
            keys,
            values,
            score,
            factor,
            first,
            stop,
            tuple(writes),
            tuple(norms),
            buffers,
        )
    )


def _prefers_split(op: Op, preferences: Preferences) -> bool:
    """True if attention has few queries and many keys, so that one program per key head would not fill the device."""
    heads, length, keys = type_of(op.q).shape[1], type_of(op.q).shape[2], type_of(op.k).shape
    rows, programs = heads_per_group(heads, keys[1]) * length, keys[0] * keys[1]
    few = isinstance(rows, int) and rows <= preferences.split_rows
    busy = isinstance(programs, int) and programs >= preferences.split_programs
    short = isinstance(keys[2], int) and keys[2] <= 2 * preferences.split_keys
    plain = isinstance(op, Attention) and op.key is None
    return plain and bool(preferences.split_keys) and few and not busy and not short


def _split_keys(group: Group, op: Op, length: int) -> list[Call]:
    """Attends to parts of the keys in parallel, each with its own softmax, then averages them by their softmax
    denominators."""
    at = _Loops(op)
    part = LoopVar("c", ceildiv(at.total, length))
    at.key = LoopVar("j", length)
    apart = (at.batch, at.groups, part, at.share, at.length, at.column)
    shape = tuple(v.extent for v in apart)
    here = loop_index(apart)
    sums = (at.dtype, product(shape)), (at.dtype, product(shape[:-1]))
    total = Accumulator(at.dtype)
    first = Builder(group)
    mixed = Write(first.shared(0, *sums[0], "write"), linear(here, shape), total)
    norm = Write(first.shared(1, *sums[1], "write"), linear(here[:-1], shape[:-1]), total)
    calls = [_kernel(first, op, at, Expr.of(part) * length + Expr.of(at.key), [mixed], [norm], part)]

    second = Builder(group)
    dtype = at.dtype
    value = second.low.load(second.shared(0, *sums[0], "read"), linear(here, shape))
    norms = second.low.load(second.shared(1, *sums[1], "read"), linear(here[:-1], shape[:-1]))

    def apply(function: str, *args: Scalar) -> Scalar:
        return Apply(dtype, function, args)

    top = Reduced(dtype, "top")
    power = apply("mul", apply("sub", norms, _unless(top, float("-inf"), 0.0)), Const(dtype, LN2))
    weight = apply("exp", power)
    mean = apply("div", Reduced(dtype, "total"), _unless(Reduced(dtype, "weight"), 0.0, 1.0))
    result = convert(mean, type_of(op.q).dtype)
    second.low.define(op.operation.results[0], lambda index: result)
    highest = Reduction("top", "max", dtype, norms)
    weights = Reduction("weight", "sum", dtype, weight), Reduction("total", "sum", dtype, apply("mul", weight, value))
    writes = tuple(_results(second, op, at, range(len(group.yielded))))
    stages = (Stage((part,), (highest,)), Stage((part,), weights), Stage((), (), writes))
    parallel = (at.batch, at.groups, at.share, at.length, at.column)
    return [*calls, second.call(lambda buffers: LoopKernel(parallel, stages, buffers))]


def _unless(x: Scalar, bad: float, other: float) -> Scalar:
    """x, or `other` for the value `bad` that a fully masked row has."""
    return Apply(x.dtype, "select", (Apply("bool", "eq", (x, Const(x.dtype, bad))), Const(x.dtype, other), x))


def window(op: Op, row: Dim, total: Dim) -> tuple[Dim, Dim]:
    """The range of keys that a row may see, as far as it is known at compile time."""
    first: Dim = 0
    stop: Dim = total
    if op.lengths is not None:
        return first, stop
    position = row + op.offset
    if op.causal:
        stop = dim_min(stop, position + 1)
    if op.right >= 0:
        stop = dim_min(stop, position + op.right + 1)
    if op.left >= 0:
        first = dim_max(0, position - op.left)
    return first, stop if stop == total else dim_max(0, stop)


def score_of(builder: Builder, op: Op, dtype: str, here: Indices, keys: Dim, first: Dim, stop: Dim) -> Scalar:
    """The softmax's operand: the scaled and capped dot product plus the mask, minus infinity for a masked key. `keys`:
    their number."""
    low, j = builder.low, here[-1]

    def apply(function: str, *args: Scalar) -> Scalar:
        return Apply(dtype, function, args)

    def number(value: float) -> Scalar:
        return Const(dtype, value)

    hidden = number(float("-inf"))
    score: Scalar = Accumulator(dtype)
    if op.scale != 1.0:
        score = apply("mul", score, number(op.scale))
    if op.softcap:
        score = apply("mul", apply("tanh", apply("div", score, number(op.softcap))), number(op.softcap))
    if op.mask is not None:
        mask, space = type_of(op.mask), (*type_of(op.q).shape[:3], keys)
        value = low.at(op.mask, broadcast_index(here, mask.shape, space))
        score = (
            apply("select", value, score, hidden)
            if mask.dtype == "bool"
            else apply("add", score, convert(value, dtype))
        )
    if op.lengths is not None:
        return apply("select", _within(builder, op, here), score, hidden)
    ranges: list[tuple[Dim, Dim]] = []
    if stop != keys:
        ranges.append((j, stop))
    if first != 0:
        ranges.append((j - first, keys))
    return Where(dtype, tuple(ranges), score, hidden) if ranges else score


def factor_of(builder: Builder, op: Op, dtype: str, here: Indices, keys: Dim) -> Scalar:
    """The factor of a probability: that of dropout, or 1. keys: their number."""
    if op.key is None:
        return Const(dtype, 1.0)
    high, low = (builder.low.at(op.key, (word,)) for word in (0, 1))
    row = linear((*here[:3], 0), (*type_of(op.q).shape[:3], 1))
    kept = Kept("bool", (high, low), row, here[3], calls_of_row(Draws.of(op.rate), keys), op.rate)
    return Apply(dtype, "select", (kept, Const(dtype, share(op.rate)), Const(dtype, 0.0)))


def _within(builder: Builder, op: Op, here: Indices) -> Scalar:
    """The condition that a key is within its batch entry's length, which is read. The last query is at the end of that
    length."""

    def index(function: str, a: Scalar, b: Scalar) -> Scalar:
        return Apply("int64" if function in ("add", "sub") else "bool", function, (a, b))

    def dim(value: Dim) -> Scalar:
        return Const("int64", value) if isinstance(value, int) else Index("int64", value)

    batch, _, row, key = here
    length = builder.low.at(op.lengths, (batch,))
    position = index("add", index("sub", length, dim(type_of(op.q).shape[2])), dim(row))
    behind = index("sub", position, dim(key))
    conditions = [index("lt", dim(key), length)]
    if op.causal:
        conditions.append(index("le", dim(key), position))
    if op.left >= 0:
        conditions.append(index("le", behind, dim(op.left)))
    if op.right >= 0:
        conditions.append(index("ge", behind, dim(-op.right)))
    allowed = conditions[0]
    for condition in conditions[1:]:
        allowed = Apply("bool", "and", (allowed, condition))
    return allowed
