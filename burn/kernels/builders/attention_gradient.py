"""Backward pass of attention. It recomputes the probabilities instead of storing them.

There are three kernels. The first computes for every query the dot product of its result and that result's gradient. The
second computes the gradients of the queries and of the mask, the third those of keys and values. The last two are one kernel
if the target prefers that. If a concat joins the gradients, the kernels write into its result.
"""

from __future__ import annotations

from burn.dialect.attention import heads_per_group
from burn.dialect.control import Group
from burn.dialect.dims import Dim, Expr, LoopVar, dim_max, dim_min, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.shape import Concat, Reshape, Transpose
from burn.dialect.types import HALF_DTYPES, type_of
from burn.kernels.body import (
    Accumulator,
    Apply,
    AttentionGradientKernel,
    Const,
    LoopKernel,
    Reduced,
    Reduction,
    Scalar,
    Stage,
    Write,
)
from burn.kernels.builders.attention import factor_of, score_of, window
from burn.kernels.builders.builder import (
    Builder,
    Call,
    accumulate_type,
    anchor_of,
    convert,
    loop_index,
    loops,
    skip_views,
)
from burn.kernels.lower import linear
from burn.kernels.preferences import Preferences

NARROW = 64
"""The most features of a head for `Preferences.fused_gradient_keys`."""


def build(group: Group, preferences: Preferences) -> list[Call]:
    op = anchor_of(group, "attention_gradient")
    apart: tuple[tuple[int, ...], ...] = ((0, 1, 2, 3),) if _computes_all(op, preferences) else ((0, 3), (1, 2))
    operands = [call for wanted in apart if (call := _gradient(group, op, wanted)) is not None]
    return [_dots(group, op), *operands]


def _computes_all(op: Op, preferences: Preferences) -> bool:
    """True if one kernel computes the gradients of queries, keys and values."""
    q, keys, features = type_of(op.q), type_of(op.k).shape[2], (type_of(op.q).shape[3], type_of(op.v).shape[3])
    narrow = q.dtype in HALF_DTYPES and all(isinstance(d, int) and d <= NARROW for d in features)
    few = isinstance(keys, int) and keys <= preferences.fused_gradient_keys
    return preferences.fused_gradients or (narrow and few)


def _dots(group: Group, op: Op) -> Call:
    """For every query, the dot product of its result and that result's gradient."""
    builder = Builder(group)
    space = type_of(op.y).shape
    dtype = accumulate_type(type_of(op.y).dtype)
    *kept, column = loops(space)
    here = loop_index((*kept, column))
    y, gradient = (convert(builder.low.at(x, here), dtype) for x in (op.y, op.g))
    total = Reduction("dot", "sum", dtype, Apply(dtype, "mul", (y, gradient)))
    buffer = builder.shared(0, dtype, product(space[:3]), "write")
    write = Write(buffer, linear(here[:3], space[:3]), Reduced(dtype, "dot"))
    stages = (Stage((column,), (total,)), Stage((), (), (write,)))
    return builder.call(lambda buffers: LoopKernel(tuple(kept), stages, buffers))


def _gradient(group: Group, op: Op, wanted: tuple[int, ...]) -> Call | None:
    """The gradients of some of queries (0), keys (1), values (2) and mask (3); None if the group yields none of them."""
    q, k, v = (type_of(x) for x in (op.q, op.k, op.v))
    dtype = accumulate_type(q.dtype)
    batch, groups, length = LoopVar("b", q.shape[0]), LoopVar("g", k.shape[1]), LoopVar("i", q.shape[2])
    share = LoopVar("r", heads_per_group(q.shape[1], k.shape[1]))
    key, depth, column = LoopVar("j", k.shape[2]), LoopVar("k", q.shape[3]), LoopVar("e", v.shape[3])
    b, g, r, i = loop_index((batch, groups, share, length))
    j, d, e = (Expr.of(x) for x in (key, depth, column))
    head = g * share.extent + r
    builder = Builder(group)
    low = builder.low

    def operand(value: ir.Value, *at: Dim) -> Scalar:
        return convert(low.at(value, at), dtype)

    first, stop = window(op, i, key.extent)
    begin, end = _rows(op, j, length.extent)
    rows = q.shape[:3]
    dots = low.load(builder.shared(0, dtype, product(rows), "read"), linear((b, head, i), rows))
    indices = ((b, head, i, d), (b, g, j, d), (b, g, j, e), (b, head, i, j))
    writes: tuple[list[Write], ...] = ([], [], [], [])
    results = list(op.operation.results)
    for number, value in enumerate(group.yielded):
        whole = op_of(_behind_views(value))
        parts_of = whole.xs if isinstance(whole, Concat) else [value]
        before: Dim = 0
        for part in parts_of:
            result = results.index(_behind_views(part))
            _, index, shape = skip_views(part, indices[result], type_of(results[result]).shape)
            if isinstance(whole, Concat):
                axis = whole.axis % len(shape)
                index = (*index[:axis], index[axis] + before, *index[axis + 1 :])
                before = before + shape[axis]
                _, index, shape = skip_views(value, index, type_of(whole.operation.results[0]).shape)
            if result in wanted:
                total = convert(Accumulator(dtype), type_of(value).dtype)
                writes[result].append(Write(builder.out(number), linear(index, shape), total))
    if not any(writes):
        return None
    parts: dict[str, Scalar] = {
        "query": operand(op.q, b, head, i, d),
        "keys": operand(op.k, b, g, j, d),
        "values": operand(op.v, b, g, j, e),
        "score": score_of(builder, op, dtype, (b, head, i, j), key.extent, first, stop),
        "factor": factor_of(builder, op, dtype, (b, head, i, j), key.extent),
        "score_derivative": _score_derivative(op, dtype),
        "output_gradient": operand(op.g, b, head, i, e),
        "norm": operand(op.norms, b, head, i),
        "dot": dots,
    }
    return builder.call(
        lambda buffers: AttentionGradientKernel(
            dtype,
            (batch, groups),
            () if share.extent == 1 else (share,),
            length,
            key,
            depth,
            column,
            **parts,
            first=first,
            stop=stop,
            begin=begin,
            end=end,
            row_writes=tuple(writes[0]),
            key_writes=tuple(writes[1]),
            value_writes=tuple(writes[2]),
            score_writes=tuple(writes[3]),
            buffers=buffers,
        )
    )


def _behind_views(value: ir.Value) -> ir.Value:
    """A yielded value before its views."""
    while (op := op_of(value)) is not None and isinstance(op, Reshape | Transpose):
        value = op.x
    return value


def _rows(op: Op, key: Dim, total: Dim) -> tuple[Dim, Dim]:
    """The range of rows that may see a key; `window` is the counterpart for the keys of a row."""
    begin: Dim = 0
    end: Dim = total
    if op.lengths is not None:
        return begin, end
    position = key - op.offset
    if op.causal:
        begin = dim_max(begin, position)
    if op.right >= 0:
        begin = dim_max(begin, position - op.right)
    if op.left >= 0:
        end = dim_max(0, dim_min(end, position + op.left + 1))
    return begin, end


def _score_derivative(op: Op, dtype: str) -> Scalar:
    """The derivative of the score by the dot product: the scale, times the derivative of the soft cap."""
    scale = Const(dtype, op.scale)
    if not op.softcap:
        return scale

    def apply(function: str, *args: Scalar) -> Scalar:
        return Apply(dtype, function, args)

    score = apply("div", apply("mul", Accumulator(dtype), scale), Const(dtype, op.softcap))
    bent = apply("tanh", score)
    return apply("mul", scale, apply("sub", Const(dtype, 1.0), apply("mul", bent, bent)))
