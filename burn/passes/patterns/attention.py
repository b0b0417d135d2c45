"""Recognises attention written out: two matmuls with a softmax between them.

    softmax(q k^T * scale + mask) v

The scale may be on either operand of the first matmul or split between them, axes may be in any order, heads may be
merged with the batch. A factor of each head, as in attention by cosines, multiplies the queries. Rows without an unmasked
key are NaN after the softmax and zero in `burn.attention`. A guard between makes them zero: torch's exporter writes
`where(isnan(p), 0, p)`, ONNX's own expansion of Attention `where(max(mask) == -inf, 0, p)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import number_like, reshape, transpose
from burn.dialect.constants import known_array
from burn.dialect.contraction import DotGeneral
from burn.dialect.dims import Dim
from burn.dialect.dropout import RandomKept, share
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Add, Div, Mul, Select
from burn.dialect.query import is_named, op_of, result_type, splat, used_once
from burn.dialect.types import FLOATS, type_of
from burn.passes.algebra.law import Rewriter, ones
from burn.passes.patterns.attention_masks import is_causal
from burn.passes.patterns.match import pattern

ROUNDED = 1e-6

HIDING = -1e4
"""A number in place of minus infinity, as in models of 2018 (GPT). A score hidden by it has no weight unless all other scores of
its row are below -9,896."""


@dataclass(frozen=True)
class Scores:
    """The first matmul, the factor of its result, a further factor of each head, and the added or selecting mask."""

    dot: Op
    scale: float
    factor: ir.Value | None
    mask: ir.Value | None


@dataclass(frozen=True)
class Probabilities:
    """The softmax's operand, its element type, and the mask whose fully masked rows a guard after it sets to zero."""

    scores: ir.Value
    precision: str | None
    guarded: ir.Value | None


@dataclass(frozen=True)
class Dropped:
    """Probabilities before dropout, and its key and rate."""

    p: ir.Value
    key: ir.Value
    rate: float


@pattern("dot_general")
def attention(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """softmax(q k^T * scale + mask) v, with heads (rank 4) or with heads merged into the batch (rank 3). There may be dropout
    before v."""
    rank = result_type(op).rank
    batch = tuple(range(rank - 2))
    if rank not in (3, 4) or op.lhs_batch != batch or op.lhs_contract != (rank - 1,) or op.dtype is not None:
        return None
    dropped = _dropped(op.lhs)
    found = _probabilities(op.lhs if dropped is None else dropped.p)
    scores = _scores(rewriter, found.scores) if found is not None else None
    if found is None or scores is None or type_of(scores.dot.lhs).dtype != type_of(op.rhs).dtype:
        return None
    dot = scores.dot
    if len(dot.lhs_batch) != rank - 2 or len(dot.lhs_contract) != 1 or dot.dtype is not None:
        return None
    q, scale_q = _scaled(dot.lhs)
    k, scale_k = _scaled(dot.rhs)
    q = _ordered(q, dot.lhs_batch, dot.lhs_contract, last="contract")
    k = _ordered(k, dot.rhs_batch, dot.rhs_contract, last="contract")
    v = _ordered(op.rhs, op.rhs_batch, op.rhs_contract, last="free")
    scale = scores.scale * scale_q * scale_k
    mask = _mask(rewriter, scores.mask, rank)
    if found.guarded is not None and not _guards(found.guarded, scores.mask, mask):
        return None
    if q is None or k is None or v is None or scale <= 0 or not _fits(mask, q):
        return None
    if rank == 4 and not type_of(q).shape[1] == type_of(k).shape[1] == type_of(v).shape[1]:
        return None  # different symbolic numbers of heads
    if scores.factor is not None:
        q = ops.mul(q, scores.factor)
    operands = [_with_heads(x) for x in (q, k, v)]
    scale = usual(scale, type_of(q).shape[-1])
    drawn = {} if dropped is None else {"rate": dropped.rate}
    key = None if dropped is None else dropped.key
    made = ops.attention(*operands, mask, None, key, scale=scale, precision=found.precision, **drawn)
    return reshape(made, result_type(op).shape)


def usual(scale: float, features: Dim) -> float:
    """1 / sqrt(features) instead of a scale that differs from it by the rounding of an exporter that computed it in float32."""
    usual = 1 / math.sqrt(features) if isinstance(features, int) and features > 0 else scale
    return usual if math.isclose(scale, usual, rel_tol=ROUNDED) else scale


def _dropped(value: ir.Value) -> Dropped | None:
    """Looks through dropout: where(kept, p / (1 - rate), 0)."""
    chosen = is_named(value, "select")
    kept = op_of(chosen.condition) if chosen is not None else None
    if chosen is None or not isinstance(kept, RandomKept) or splat(chosen.on_false) != 0 or not used_once(value):
        return None
    p, factor = _scaled(chosen.on_true)
    is_usual = math.isclose(factor, share(kept.rate), rel_tol=ROUNDED) and 0 < kept.rate < 1
    alone = is_usual and used_once(chosen.on_true) and kept.shape == type_of(p).shape
    return Dropped(p, kept.key, kept.rate) if alone else None


def _probabilities(value: ir.Value) -> Probabilities | None:
    """Looks through the softmax, the guard of its rows and conversions around it."""
    guarded: ir.Value | None = None
    guard = is_named(value, "select")
    if guard is not None:
        test = is_named(guard.condition, "isnan")
        if test is None or test.x != guard.on_false:
            guarded = _hidden_rows(guard.condition)
            if guarded is None or not used_once(value) or not used_once(guard.on_false):
                return None
        if splat(guard.on_true) != 0:
            return None
        value = guard.on_false
    elif not used_once(value):
        return None
    outer = is_named(value, "cast")
    softmax = is_named(outer.x if outer is not None else value, "softmax")
    if softmax is None or softmax.axis % type_of(softmax.x).rank != type_of(softmax.x).rank - 1:
        return None
    inner = is_named(softmax.x, "cast")
    if outer is None or inner is None:
        return Probabilities(softmax.x, None, guarded) if outer is None else None
    source = type_of(inner.x).dtype
    if source != outer.dtype or source not in FLOATS or not used_once(softmax.x):
        return None
    return Probabilities(inner.x, inner.dtype, guarded)


def _hidden_rows(condition: ir.Value) -> ir.Value | None:
    """The mask of max(mask over the keys) == -inf; conversions in between do not change 0 or -inf."""
    test = is_named(condition, "eq")
    if test is None or splat(test.rhs) != -math.inf:
        return None
    top = is_named(_unconverted(test.lhs), "reduce")
    if top is None or top.kind != "max" or not top.keepdims:
        return None
    mask = _unconverted(top.x)
    rank = type_of(mask).rank
    return mask if tuple(a % rank for a in top.axes) == (rank - 1,) else None


def _unconverted(value: ir.Value) -> ir.Value:
    cast = is_named(value, "cast")
    return cast.x if cast is not None and type_of(cast.x).dtype in FLOATS else value


def _scores(rewriter: Rewriter, value: ir.Value) -> Scores | None:
    """The first matmul, looking through a mask and a scale; the mask is added to scaled scores."""
    mask: ir.Value | None = None
    factor: ir.Value | None = None
    scale = 1.0
    while used_once(value):
        op = op_of(value)
        if op is None:
            return None
        if isinstance(op, DotGeneral):
            return Scores(op, scale, factor, mask)
        if isinstance(op, Mul | Div) and splat(op.rhs) and ones(type_of(op.rhs).shape):
            number = float(splat(op.rhs) or 0.0)
            scale = scale * number if isinstance(op, Mul) else scale / number
            value = op.lhs
        elif isinstance(op, Mul) and factor is None and (found := _factor(op)) is not None:
            value, factor = found
        elif factor is not None:
            return None
        elif isinstance(op, Add) and mask is None and scale == 1.0:
            operands = [(op.lhs, op.rhs), (op.rhs, op.lhs)]
            inner = next(((a, b) for a, b in operands if type_of(a) == type_of(value) and _leads_to_dot(a)), None)
            if inner is None:
                return None
            value, mask = inner
        elif isinstance(op, Select) and mask is None and scale == 1.0 and _hides(rewriter, op):
            value, mask = op.on_true, op.condition
        elif isinstance(op, Select) and mask is None and scale == 1.0 and splat(op.on_true) == -math.inf:
            value, mask = op.on_false, ops.not_(op.condition)
        else:
            return None
    return None


def _hides(rewriter: Rewriter, op: Op) -> bool:
    """True if a choice hides the scores where its condition does not hold. With `HIDING`, every query has a key: itself."""
    number, sizes = splat(op.on_false), result_type(op).shape[-2:]
    if number is None or number > HIDING:
        return False
    if number > -math.inf and not rewriter.preferences.finite_masks:
        return False
    return number == -math.inf or (len(sizes) == 2 and is_causal(rewriter, op.condition, (sizes[0], sizes[1])))


def _leads_to_dot(value: ir.Value) -> bool:
    op = op_of(value)
    while op is not None and isinstance(op, Mul | Div):
        found = _factor(op) if isinstance(op, Mul) else None
        if found is None and splat(op.rhs) is None:
            break
        op = op_of(op.lhs if found is None else found[0])
    return op is not None and isinstance(op, DotGeneral)


def _factor(op: Op) -> tuple[ir.Value, ir.Value] | None:
    """(scores, factor) of a multiplication with one factor for all scores of a head: the axes of queries and keys have size 1."""
    for scores, factor in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        shape = type_of(factor).shape
        if type_of(scores) == result_type(op) and len(shape) >= 2 and shape[-2:] == (1, 1):
            return scores, factor
    return None


def _scaled(value: ir.Value) -> tuple[ir.Value, float]:
    """(x, c) of x * c or x / c with a number; c is 1 for anything else."""
    op = is_named(value, "mul", "div")
    number = splat(op.rhs) if op is not None else None
    if op is None or not number or not ones(type_of(op.rhs).shape) or type_of(op.lhs) != type_of(value):
        return value, 1.0
    return op.lhs, float(number) if isinstance(op, Mul) else 1 / float(number)


def _ordered(value: ir.Value, batch: tuple[int, ...], contract: tuple[int, ...], last: str) -> ir.Value | None:
    """An operand of a matmul with its axes in the order batch, rows, features; `last` selects the contracted or the
    free axis as the last one."""
    rank = type_of(value).rank
    free = [a for a in range(rank) if a not in (*batch, *contract)]
    if len(free) != 1 or len(contract) != 1:
        return None
    ends = (*free, *contract) if last == "contract" else (*contract, *free)
    order = (*batch, *ends)
    inner = is_named(value, "transpose")
    if inner is not None:  # makes preceding views visible
        value, order = inner.x, tuple(inner.permutation[i] for i in order)
    return transpose(value, order)


def _guards(guarded: ir.Value, added: ir.Value | None, mask: ir.Value | None) -> bool:
    """True if attention with `mask` sets the same rows to zero as the guard `guarded`, with the mask added as `added`.

    Only boolean masks do: adding minus infinity does not mask a score that is infinite itself.
    """
    number = splat(guarded)
    if number is not None and number > -math.inf:
        return True  # it masks nothing
    return mask is not None and type_of(mask).dtype == "bool" and added is not None and guarded == added


@pattern("attention")
def shared_heads(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """attention(q, repeat(k), repeat(v)) = attention(q, k, v): the number of key heads implies the sharing"""
    k, v = _repeated(op.k), _repeated(op.v)
    if k is None or v is None or type_of(k).shape[1] != type_of(v).shape[1]:
        return None
    return type(op).build(op.q, k, v, *op.args[3:], **op.attrs)


def _repeated(value: ir.Value) -> ir.Value | None:
    """x [b, g, t, d] of a value that repeats each of its heads several times in a row."""
    merged = is_named(value, "reshape")
    spread = is_named(merged.x, "broadcast_to") if merged is not None else None
    if spread is None or type_of(spread.x).rank != 5 or len(spread.shape) != 5:
        return None
    b, g, one, t, d = type_of(spread.x).shape
    count = spread.shape[2]
    whole = isinstance(g, int) and isinstance(count, int) and type_of(value).shape == (b, g * count, t, d)
    return reshape(spread.x, (b, g, t, d)) if whole and one == 1 and spread.shape == (b, g, count, t, d) else None


def _with_heads(x: ir.Value) -> ir.Value:
    """[n, s, d] as one head of [n, 1, s, d]."""
    shape = type_of(x).shape
    return x if len(shape) == 4 else reshape(x, (shape[0], 1, *shape[1:]))


def _mask(rewriter: Rewriter, mask: ir.Value | None, rank: int) -> ir.Value | None:
    """The mask in attention's form: booleans if it was made of them, and a head axis."""
    if mask is None:
        return None
    choice = is_named(mask, "select")
    masked = choice is not None and splat(choice.on_true) == 0 and splat(choice.on_false) == -math.inf
    if choice is not None and masked and type_of(choice.condition).shape == type_of(mask).shape:
        mask = choice.condition
    elif _is_zero_or_infinite(known_array(mask, rewriter.weights) if type_of(mask).dtype in FLOATS else None):
        mask = ops.eq(mask, number_like(0.0, mask))
    shape = type_of(mask).shape
    return reshape(mask, (shape[0], 1, *shape[1:])) if rank == 3 and len(shape) == 3 else mask


def _is_zero_or_infinite(numbers: np.ndarray | None) -> bool:
    """True if an added mask contains only zeros and minus infinities; None is an unknown mask."""
    return numbers is not None and bool(((numbers == 0) | (numbers == -math.inf)).all())


def _fits(mask: ir.Value | None, q: ir.Value) -> bool:
    return mask is None or (type_of(mask).dtype in ("bool", type_of(q).dtype) and type_of(mask).rank <= 4)
