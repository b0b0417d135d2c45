"""Shared by com.microsoft's kinds of attention: masks of several shapes, sizes that must agree, scores with a sink."""

from __future__ import annotations

from dataclasses import dataclass

from burn.dialect import ops
from burn.dialect.attention import bias, mix, probabilities, scores, soft_cap, visible
from burn.dialect.compose import check_size, dim_value, number, part, reshape, transpose
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node
from burn.importers.onnx.ops.attention import scaled

MASKED = -10000.0
"""Added to the scores of hidden keys if the node does not say otherwise."""


def agree(node: Node, size: Dim, wanted: Dim, what: str) -> None:
    """Two sizes are equal: refused here when they are not, checked when the program runs when it is not known."""
    if isinstance(size, int) and isinstance(wanted, int) and size != wanted:
        node.fail(f"{what} must be {wanted}, not {size}")
    if size != wanted:
        check_size(size, "==", wanted, f"{node.op}: {what}")


def scaled_sides(node: Node, q: ir.Value, k: ir.Value) -> tuple[ir.Value, ir.Value, float]:
    return scaled(q, k, node.float("scale", 0.0) or None)


def combined(a: ir.Value | None, b: ir.Value | None) -> ir.Value | None:
    if a is None or b is None:
        return b if a is None else a
    return ops.add(a, b)


@dataclass(frozen=True)
class Space:
    """The sizes of attention: [batch, length] queries, `past` keys before the first query's own, `total` keys in all."""

    batch: Dim
    length: Dim
    past: Dim
    total: Dim


def padding_bias(node: Node, mask: ir.Value, space: Space, dtype: str) -> ir.Value:
    """A mask as a bias of scores, broadcast to [b, 1, s, t].

    Masks are: the end of each row [b]. The ends, then the beginnings [2 b]. Lengths and cumulated lengths [3 b + 2], where only
    the lengths are used. Flags [b, t] or [b, s, t]. Flags [b, 1, m, m], whose rows from `past` on belong to the queries."""
    type_ = type_of(mask)
    batch, total = space.batch, space.total
    if type_.rank == 1:
        keep = _kept_by_ends(node, mask, space)
    else:
        keep = ops.ne(mask, number(0, type_.dtype))
        keep = _kept_by_flags(node, keep, space)
    first, *rest = type_of(keep).shape
    agree(node, first, batch, "the mask's number of rows")
    agree(node, rest[-1], total, "the mask's number of keys")
    keep = reshape(keep, (batch, *(1,) * (3 - len(rest)), *rest[:-1], total))
    hidden = number(node.float("mask_filter_value", MASKED), dtype)
    return ops.select(keep, number(0.0, dtype), hidden)


def _kept_by_ends(node: Node, mask: ir.Value, space: Space) -> ir.Value:
    (count,) = type_of(mask).shape
    key = ops.iota(shape=(1, space.total), axis=1, dtype=type_of(mask).dtype)

    def column(start: Dim) -> ir.Value:
        return reshape(part(mask, 0, start, space.batch), (space.batch, 1))

    batch = space.batch
    if count == batch or count == batch * 3 + 2:
        return ops.lt(key, column(0))
    if count == batch * 2:
        return ops.and_(ops.le(column(batch), key), ops.lt(key, column(0)))
    if isinstance(count, int) and isinstance(batch, int):
        node.fail(f"a mask of {count} numbers is none of [b], [2 b] and [3 b + 2] for {batch} rows")
    wrong = (count - batch) * (count - batch * 2) * (count - batch * 3 - 2)
    check_size(wrong, "==", 0, f"{node.op}: a mask is [b], [2 b] or [3 b + 2]")
    both = ops.eq(dim_value(count), dim_value(batch * 2))
    rows = ops.min(ops.add(ops.iota(shape=(batch,), axis=0), dim_value(batch)), dim_value(count - 1))
    starts = reshape(ops.gather(mask, rows, axis=0), (batch, 1))
    return ops.and_(ops.lt(key, column(0)), ops.or_(ops.not_(both), ops.le(starts, key)))


def _kept_by_flags(node: Node, keep: ir.Value, space: Space) -> ir.Value:
    rank, shape = type_of(keep).rank, type_of(keep).shape
    if rank == 2:
        return keep
    if rank == 3:
        agree(node, shape[1], space.length, "the mask's number of queries")
        return reshape(keep, (shape[0], space.length, shape[2]))
    if rank != 4 or shape[1] != 1:
        node.fail(f"a mask {type_of(keep)} is none of [b], [2 b], [3 b + 2], [b, t], [b, s, t] and [b, 1, m, m]")
    rows = part(keep, 2, space.past, space.length)
    return reshape(part(rows, 3, 0, space.total), (shape[0], space.length, space.total))


def score_bias(node: Node, index: int, space: Space) -> ir.Value | None:
    """The operand that is added to the scores: [1 or b, 1 or heads, s, t]."""
    value = node.input(index)
    if value is not None:
        agree(node, type_of(value).shape[-1], space.total, "the attention bias's number of keys")
    return value


@dataclass(frozen=True)
class Softmax:
    """How scores become probabilities. sink: [heads], or one number: a logit that takes its share and has no value."""

    scale: float
    causal: bool
    offset: Dim = 0
    left: int = -1
    softcap: float = 0.0
    sink: ir.Value | None = None


def attended(
    q: ir.Value, k: ir.Value, v: ir.Value, mask: ir.Value | None, lengths: ir.Value | None, how: Softmax
) -> ir.Value:
    """Attention [b, h, s, e], whole where back ends have kernels for it."""
    if how.sink is None:
        region = {"causal": how.causal, "offset": how.offset, "left": how.left}
        return ops.attention(q, k, v, mask, lengths, scale=how.scale, softcap=how.softcap, **region)
    return mix(likely(biased_scores(q, k, mask, lengths, how), how), v)


def biased_scores(q: ir.Value, k: ir.Value, mask: ir.Value | None, lengths: ir.Value | None, how: Softmax) -> ir.Value:
    """[b, h, s, t], minus infinity where a key is not seen."""
    raw = soft_cap(scores(q, k, how.scale), how.softcap)
    return bias(raw, mask, visible(type_of(raw).shape, lengths, how.causal, how.offset, how.left, -1))


def likely(x: ir.Value, how: Softmax) -> ir.Value:
    """Probabilities of scores [b, h, s, t]."""
    if how.sink is None:
        return probabilities(x)
    batch, heads, length, total = type_of(x).shape
    sink = ops.broadcast_to(_laid_along_heads(how.sink, heads), shape=(batch, heads, length, 1))
    p = probabilities(ops.concat([x, sink], axis=3))
    return part(p, 3, 0, total)


def _laid_along_heads(sink: ir.Value, heads: Dim) -> ir.Value:
    return reshape(sink, (1, heads, 1, 1)) if type_of(sink).rank else reshape(sink, (1, 1, 1, 1))


def grown(cache: ir.Value, new: ir.Value, old: Dim) -> tuple[ir.Value, ir.Value]:
    """A cache [b, h, m, d] with `old` valid rows, and new rows written after them: the cache, and its valid part."""
    room, length = type_of(cache).shape[2], type_of(new).shape[2]
    check_size(old + length, "<=", room, "the cache has room for the new keys")
    front = ops.concat([part(cache, 2, 0, old), new], axis=2)
    rest = part(cache, 2, old + length, room - old - length)
    return ops.concat([front, rest], axis=2), front


def packed_heads(x: ir.Value, index: int) -> ir.Value:
    """Part `index` of [b, s, heads, parts, d] as [b, heads, s, d]."""
    batch, length, heads, _, depth = type_of(x).shape
    return transpose(reshape(part(x, 3, index, 1), (batch, length, heads, depth)), (0, 2, 1, 3))
