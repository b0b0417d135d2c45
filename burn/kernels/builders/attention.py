"""Attention as one kernel: the softmax of scores on the way over the keys, and what it mixes."""

from __future__ import annotations

from burn.dialect.attention import heads_per_group
from burn.dialect.control import Group
from burn.dialect.dims import Dim, Expr, LoopVar, dim_max, dim_min
from burn.dialect.op import Op
from burn.dialect.types import type_of
from burn.kernels.body import Accumulator, Apply, AttentionKernel, Const, Index, Scalar, Where, Write
from burn.kernels.builders.builder import (
    Builder,
    Call,
    accumulate_type,
    anchor_of,
    convert,
    place,
    untangle,
)
from burn.kernels.lower import Place, broadcast_index, linear
from burn.kernels.wants import Wants


def build(group: Group, wants: Wants) -> list[Call]:
    """One attention, then what follows at the same places. Query heads that share a key head are rows of one product."""
    op = anchor_of(group, "attention", "attention_forward")
    result = op.operation.results[0]
    q, k, v = (type_of(x) for x in (op.q, op.k, op.v))
    dtype = accumulate_type(q.dtype) if op.precision != "float64" else "float64"
    batch, groups, length = LoopVar("b", q.shape[0]), LoopVar("g", k.shape[1]), LoopVar("i", q.shape[2])
    share = LoopVar("r", heads_per_group(q.shape[1], k.shape[1]))
    key, depth, column = LoopVar("j", k.shape[2]), LoopVar("k", q.shape[3]), LoopVar("e", v.shape[3])
    b, g, r, i = place((batch, groups, share, length))
    j, d, e = (Expr.of(v) for v in (key, depth, column))
    head = g * share.extent + r
    builder = Builder(group)
    low = builder.low
    query, keys, values = (
        convert(low.at(x, at), dtype) for x, at in ((op.q, (b, head, i, d)), (op.k, (b, g, j, d)), (op.v, (b, g, j, e)))
    )
    first, stop = window(op, i, key.extent)
    score = score_of(builder, op, dtype, (b, head, i, j), key, first, stop)
    total = convert(Accumulator(dtype), q.dtype)
    low.define(result, lambda index: total)
    space = type_of(result).shape
    here = (b, head, i, e)
    writes, norms = [], []
    for number, value in enumerate(group.yielded):
        if op.OP_NAME == "attention_forward" and value == op.operation.results[1]:
            norm = convert(Accumulator(dtype), type_of(value).dtype)
            norms.append(Write(builder.out(number), linear((b, head, i), type_of(value).shape), norm))
            continue
        source, index, shape = untangle(value, here, space)
        writes.append(Write(builder.out(number), linear(index, shape), low.at(source, here)))
    rows = (length,) if share.extent == 1 else (share, length)
    return [
        builder.call(
            lambda buffers: AttentionKernel(
                dtype,
                (batch, groups),
                rows,
                key,
                depth,
                column,
                query,
                keys,
                values,
                score,
                first,
                stop,
                tuple(writes),
                tuple(norms),
                buffers,
            )
        )
    ]


def window(op: Op, row: Dim, total: Dim) -> tuple[Dim, Dim]:
    """The keys that a row may see by its position alone, where that is known without reading anything."""
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


def score_of(builder: Builder, op: Op, dtype: str, here: Place, key: LoopVar, first: Dim, stop: Dim) -> Scalar:
    """What the softmax is taken of: the product scaled and capped, the mask, and minus infinity where a key is hidden."""
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
        mask, space = type_of(op.mask), (*type_of(op.q).shape[:3], key.extent)
        value = low.at(op.mask, broadcast_index(here, mask.shape, space))
        score = (
            apply("select", value, score, hidden)
            if mask.dtype == "bool"
            else apply("add", score, convert(value, dtype))
        )
    if op.lengths is not None:
        return apply("select", _within(builder, op, here), score, hidden)
    ranges: list[tuple[Dim, Dim]] = []
    if stop != key.extent:
        ranges.append((j, stop))
    if first != 0:
        ranges.append((j - first, key.extent))
    return Where(dtype, tuple(ranges), score, hidden) if ranges else score


def _within(builder: Builder, op: Op, here: Place) -> Scalar:
    """Whether a key counts in its batch, whose length is read: the last query stands at the end of it."""

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
