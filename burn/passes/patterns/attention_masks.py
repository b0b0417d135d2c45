"""Masks of attention: causal ones, those that mask nothing, and those that are multiplied instead of added."""

from __future__ import annotations

import math

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import check_size, number_like
from burn.dialect.constants import known_array
from burn.dialect.dims import Dim, dim_min
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import And
from burn.dialect.query import is_named, op_of, result_type, splat
from burn.dialect.shape import BroadcastTo
from burn.dialect.types import FLOATS, numpy_dtype, type_of
from burn.passes.algebra.law import Rewriter
from burn.passes.algebra.positions import counted_axis
from burn.passes.patterns.match import pattern

IEEE = frozenset({"float16", "float32", "float64"})


@pattern("add")
def multiplied_mask(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """x * b + (1 - b) * c = where(b != 0, x, c) for a constant b of zeros and ones, such as the causal mask of GPT.

    An x of infinity or NaN would give NaN where it is hidden."""
    if type_of(op.lhs).dtype not in FLOATS or not rewriter.preferences.finite_masks:
        return None
    for left, right in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        shown, hidden = is_named(left, "mul"), is_named(right, "mul")
        if shown is None or hidden is None:
            continue
        for factor, number in ((hidden.lhs, splat(hidden.rhs)), (hidden.rhs, splat(hidden.lhs))):
            rest = is_named(factor, "sub")
            if (
                rest is None
                or number is None
                or not math.isfinite(number)
                or splat(rest.lhs) != 1
                or not _is_zero_or_one(rewriter, rest.rhs)
            ):
                continue
            x = shown.lhs if shown.rhs == rest.rhs else shown.rhs
            if rest.rhs in (shown.lhs, shown.rhs) and type_of(x) == result_type(op):
                return ops.select(ops.ne(rest.rhs, number_like(0.0, rest.rhs)), x, number_like(float(number), x))
    return None


def _is_zero_or_one(rewriter: Rewriter, value: ir.Value) -> bool:
    """True for a constant, or a part of one, of zeros and ones."""
    part = is_named(value, "slice")
    known = known_array(value if part is None else part.x, rewriter.weights)
    return known is not None and bool(((known == 0) | (known == 1)).all())


@pattern("attention")
def broadcast_mask(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """attention(.., broadcast(mask)) = attention(.., mask)"""
    spread = is_named(op.mask, "broadcast_to") if op.mask is not None else None
    if spread is None:
        return None
    return type(op).build(op.q, op.k, op.v, spread.x, *op.args[4:], **op.attrs)


@pattern("attention")
def without_mask(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """attention(.., a mask that masks nothing) = attention(..)"""
    number = splat(op.mask) if op.mask is not None else None
    if number is None or number != (1 if type_of(op.mask).dtype == "bool" else 0):
        return None
    space = (*type_of(op.q).shape[:3], type_of(op.k).shape[2])
    shape = type_of(op.mask).shape
    if any(d not in (1, size) for d, size in zip(shape, space[4 - len(shape) :], strict=True)):
        return None  # its sizes are checked
    return type(op).build(op.q, op.k, op.v, None, *op.args[4:], **op.attrs)


@pattern("attention")
def causal_mask(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """attention(.., mask of key <= query) = attention(.., causal)

    The mask is a comparison of positions, or a lower triangle in a buffer from which the model takes the first rows and columns.
    As a mask that is added it has zeros and numbers that leave nothing of a score after the softmax."""
    attrs = op.attrs
    if op.mask is None or op.lengths is not None or attrs["causal"] or attrs["offset"] != 0:
        return None
    if attrs["left"] >= 0 or attrs["right"] >= 0:
        return None
    sizes = (type_of(op.q).shape[2], type_of(op.k).shape[2])
    mask = op.mask
    if type_of(mask).dtype == "bool":
        parts = _conjuncts(mask)
        rest = [p for p in parts if not is_causal(rewriter, p, sizes)]
        if len(rest) == len(parts):
            return None
        mask = rest[0] if rest else None
        for part in rest[1:]:
            mask = ops.and_(mask, part)
    else:
        choice = is_named(mask, "select")
        hidden = splat(choice.on_false) if choice is not None else None
        least = float(np.finfo(numpy_dtype(type_of(mask).dtype)).min) if type_of(mask).dtype in IEEE else -math.inf
        if choice is None or splat(choice.on_true) != 0 or hidden is None or not hidden <= least / 2:
            return None
        if not all(is_causal(rewriter, p, sizes) for p in _conjuncts(choice.condition)):
            return None  # with another mask a query may have no key, and then the number added counts
        mask = None
    _check_triangle(rewriter, op.mask, sizes)
    return type(op).build(op.q, op.k, op.v, mask, *op.args[4:], **{**attrs, "causal": True})


def _conjuncts(mask: ir.Value) -> list[ir.Value]:
    """The operands of a tree of `and`, through views that only repeat or add axes."""
    op = op_of(mask)
    if isinstance(op, And):
        return [*_conjuncts(op.lhs), *_conjuncts(op.rhs)]
    if isinstance(op, BroadcastTo) and isinstance(op_of(op.x), And):
        return _conjuncts(op.x)
    return [mask]


def is_causal(rewriter: Rewriter, mask: ir.Value, sizes: tuple[Dim, Dim]) -> bool:
    """True for a mask [.., s, t] of key <= query."""
    return _compares_positions(mask, sizes) or _triangle(rewriter, mask, sizes) is not None


def _compares_positions(mask: ir.Value, sizes: tuple[Dim, Dim]) -> bool:
    while (view := is_named(mask, "broadcast_to", "reshape")) is not None:
        if type_of(view.x).shape[-2:] != sizes or type_of(mask).shape[-2:] != sizes:
            break
        mask = view.x
    inverted = is_named(mask, "not")
    test = is_named(mask, "le", "ge") if inverted is None else is_named(inverted.x, "lt", "gt")
    if test is None:
        return False
    key, query = (test.lhs, test.rhs) if test.OP_NAME in ("le", "gt") else (test.rhs, test.lhs)
    difference = is_named(key, "sub")
    if difference is not None and splat(query) == 0:  # key - query <= 0
        key, query = difference.lhs, difference.rhs
    rank, shape = type_of(mask).rank, type_of(mask).shape
    if shape[-2:] != sizes or any(d != 1 for d in shape[:-2]):
        return False
    return _counts(key, rank, rank - 1) and _counts(query, rank, rank - 2)


def _counts(value: ir.Value, rank: int, axis: int) -> bool:
    """True if a value broadcast to a rank is the index along an axis."""
    found = counted_axis(value)
    return found is not None and found + rank - type_of(value).rank == axis


def _triangle(rewriter: Rewriter, mask: ir.Value, sizes: tuple[Dim, Dim]) -> int | None:
    """The size n of a known lower triangle [.., n, n] from which a mask takes the first s rows and t columns."""
    inverted = is_named(mask, "not")
    mask = mask if inverted is None else inverted.x
    part = is_named(mask, "slice")
    test = is_named(mask, "ne", "eq")
    if test is not None and splat(test.rhs) is not None:
        part, number = is_named(test.lhs, "slice"), float(splat(test.rhs) or 0.0)
    whole = mask if part is None else part.x
    if part is not None and (any(part.starts) or set(part.steps) != {1}):
        return None
    numbers = known_array(whole, rewriter.weights)
    if numbers is None or numbers.ndim < 2 or numbers.shape[-1] != numbers.shape[-2] or numbers.shape[-1] < 2:
        return None
    if math.prod(numbers.shape[:-2]) != 1:
        return None
    if test is not None:
        numbers = numbers == number if test.OP_NAME == "eq" else numbers != number
    elif numbers.dtype != np.bool_:
        return None
    numbers = numbers if inverted is None else ~numbers
    length = numbers.shape[-1]
    have = type_of(mask).shape[-2:]
    if any(h not in (size, dim_min(length, size), dim_min(size, length)) for h, size in zip(have, sizes, strict=True)):
        return None
    return length if bool((numbers.reshape(length, length) == np.tri(length, dtype=bool)).all()) else None


def _check_triangle(rewriter: Rewriter, mask: ir.Value, sizes: tuple[Dim, Dim]) -> None:
    """Keeps the check of a mask out of a buffer: no sequence is longer than the buffer."""
    choice = is_named(mask, "select")
    for part in _conjuncts(choice.condition if choice is not None else mask):
        length = _triangle(rewriter, part, sizes)
        if length is not None:
            for size in dict.fromkeys(sizes):
                check_size(size, "<=", length, "the mask in the model has no more rows")
