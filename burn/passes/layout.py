"""Makes convolutions and windows channels-last, and cancels the resulting transposes.

Every convolution is rewritten as transpose -> channels-last convolution -> transpose. Then transposes sink through ops
that do not depend on the order of axes (pointwise ops, reductions, windows, padding, gathers, concat, reshapes that
split or merge whole axes). Thus a network's inner transposes cancel in pairs, and only its inputs and outputs keep one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.contraction import Conv, DotGeneral
from burn.dialect.dims import estimate
from burn.dialect.indexing import Gather
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.program import Program
from burn.dialect.query import blocks, erase_dead, is_used, op_of
from burn.dialect.reduction import Reduce
from burn.dialect.shape import Concat, Transpose
from burn.dialect.types import type_of
from burn.kernels.lower import reshape_blocks
from burn.passes.constants import Constants
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.read_pixels import dense_strides, slice_read, sliced_axes

Order = tuple[int, ...]


@register
@dataclass(frozen=True)
class Layout:
    """Channels-last for convolutions; transposes sink as far as possible."""

    name: ClassVar[str] = "layout"

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            for block in reversed(blocks(program.block)):
                _block(block)
            erase_dead(program.block)


def _block(block: ir.Block) -> None:
    """Replaced ops stay without uses, so that the cache of `constant` remains valid."""
    for op in _used(block):
        if isinstance(op, Conv) and op.layout == "first":
            _channels_last(op)
    constant = Constants()
    for op in _used(block):
        _sink(op, constant)
    for op in _used(block):
        if isinstance(op, Conv) and op.layout == "last" and sliced_axes(op):
            _copy_read_pixels(op)


def _used(block: ir.Block) -> Iterator[Op]:
    """The block's current ops, skipping those that lost their last use."""
    for op in list(block.operations):
        if isinstance(op, Op) and is_used(op.operation):
            yield op


def to_last(rank: int) -> Order:
    """[n, c, d..] -> [n, d.., c]"""
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> Order:
    return (0, rank - 1, *range(1, rank - 1))


def inverse(order: Order) -> Order:
    result = [0] * len(order)
    for i, p in enumerate(order):
        result[p] = i
    return tuple(result)


def transpose(value: ir.Value, order: Order) -> ir.Value:
    """The transposed value; two consecutive transposes become one, or none."""
    op = op_of(value)
    if op is not None and isinstance(op, Transpose):
        return transpose(op.x, tuple(op.permutation[p] for p in order))
    return value if order == tuple(range(len(order))) else ops.transpose(value, permutation=order)


def _channels_last(op: Op) -> None:
    rank = type_of(op.x).rank
    with op.operation.location, ir.InsertionPoint(op.operation):
        x = transpose(op.x, to_last(rank))
        weight = transpose(op.weight, (*range(2, rank), 1, 0))
        made = ops.conv(x, weight, **(op.attrs | {"layout": "last"}))
        op.operation.results[0].replace_all_uses_with(transpose(made, to_first(rank)))


def _copy_read_pixels(op: Conv) -> None:
    """Slices the image before its transpose, unless another op reads all of the transposed image."""
    found = _behind(op.x)
    if found is None:
        return
    image, order = found
    with op.operation.location, ir.InsertionPoint(op.operation):
        readers = [use.owner.opview for v in _transposed(image, order) for use in v.uses]
        if any(reader != op and not (isinstance(reader, Conv) and sliced_axes(reader)) for reader in readers):
            return
        x = transpose(slice_read(op, image, order[1:-1]), order)
        made = ops.conv(x, op.weight, **(op.attrs | {"strides": dense_strides(op)}))
        op.operation.results[0].replace_all_uses_with(made)


def _transposed(image: ir.Value, order: Order) -> Iterator[ir.Value]:
    """All transposes of an image with that order."""
    for use in image.uses:
        op = use.owner.opview
        if isinstance(op, Transpose) and op.permutation == order:
            yield op.operation.results[0]


def _behind(value: ir.Value) -> tuple[ir.Value, Order] | None:
    """(x, order) for a transpose of x that is worth moving past its reader."""
    op = op_of(value)
    return (op.x, op.permutation) if op is not None and isinstance(op, Transpose) else None


def _sink(op: Op, constant: Constants) -> None:
    """Moves the transposes that an op reads past the op, if its kind allows it."""
    with op.operation.location, ir.InsertionPoint(op.operation):
        value = _sunk(op, constant)
    if value is not None:
        op.operation.results[0].replace_all_uses_with(value)


def _sunk(op: Op, constant: Constants) -> ir.Value | None:
    if isinstance(op, Pointwise):
        return _pointwise(op, constant)
    if isinstance(op, Concat):
        return _concat(op, constant)
    found = _behind(op.x) if op.OP_NAME in SINK else None
    return SINK[op.OP_NAME](op, *found) if found is not None else None


def _common_order(op: Op, values: Sequence[ir.Value], rank: int, constant: Constants) -> Order | None:
    """The order that the transposed operands share, if moving it costs no new transpose of data. Every other operand
    must be a constant, or its axes must stay in order. It also suffices if the result is transposed back
    later, so that transposing the operand is better."""
    orders = {found[1] for v in values if (found := _behind(v)) is not None and type_of(v).rank == rank}
    if len(orders) != 1:
        return None
    (order,) = orders
    for v in values:
        if _behind(v) is None and not constant(v) and not _is_reshape(v, order, rank):
            return order if _transposed_back(op, order) else None
    return order


def _is_reshape(value: ir.Value, order: Order, rank: int) -> bool:
    """True if the inverse of `order` moves no data of an operand: its axes of more than one element keep their order."""
    shape = type_of(value).shape
    long = [axis + rank - len(shape) for axis, d in enumerate(shape) if d != 1]
    moved = [order[axis] for axis in long]
    return moved == sorted(moved)


def _shared_matmul(values: Sequence[ir.Value]) -> bool:
    """True if an operand is a transposed matmul with other readers (a weight's gradient), possibly cast: transpose it
    once, not each derived value."""
    for v in values:
        found = _behind(v)
        producer = None if found is None else op_of(found[0])
        if producer is not None and isinstance(producer, DotGeneral) and len(_readers(v)) > 1:
            return True
    return False


def _readers(value: ir.Value) -> set[ir.Operation]:
    """The readers of a value, looking through casts."""
    found: set[ir.Operation] = set()
    for use in value.uses:
        user = use.owner.operation
        found |= _readers(user.results[0]) if user.name == "burn.cast" else {user}
    return found


FAR = 256
"""The most ops among which an inverse transpose is searched for."""


def _transposed_back(op: Op, order: Order) -> bool:
    """True if the inverse of `order` follows an op, after ops that a transpose can sink through."""
    back = inverse(order)
    todo, seen = [op], {op.operation}
    for reader in todo:  # grows
        for use in reader.operation.results[0].uses:
            user = use.owner.operation
            found = user.opview
            if not isinstance(found, Op) or user in seen or len(seen) > FAR:
                continue
            if isinstance(found, Transpose):
                if found.permutation == back:
                    return True
            elif _is_transparent(found):
                seen.add(user)
                todo.append(found)
    return False


def _is_transparent(op: Op) -> bool:
    """True for an op with the same order of axes as its operand, past which a transpose can sink."""
    along_one_axis = isinstance(op, Gather) and type_of(op.indices).rank == 1  # as in resampling
    return isinstance(op, Pointwise) or op.OP_NAME in PER_AXIS or along_one_axis


def _meets(op: Op, order: Order) -> bool:
    """True if values of the same order join an op's result, after ops that a transpose can sink through.

    An input's gradient meets what the forward pass kept in that order. A weight's gradient meets weights and the optimizer's
    state, which have the weight's own order."""
    own = {v for v in op.operation.operands if _behind(v) is not None}
    todo, seen = [op], {op.operation}
    arriving: dict[ir.Value, bool] = dict.fromkeys(own, False)
    for reader in todo:  # grows
        for use in reader.operation.results[0].uses:
            user = use.owner.operation
            found = user.opview
            if not isinstance(found, Op) or user in seen or len(seen) > FAR:
                continue
            if _is_transparent(found):
                if any(_arrives(v, order, seen, arriving) for v in user.operands):
                    return True
                seen.add(user)
                todo.append(found)
    return False


def _arrives(value: ir.Value, order: Order, apart: set[ir.Operation], known: dict[ir.Value, bool]) -> bool:
    """True if a value is a transpose in that order, or will be when transposes have sunk through the ops that compute it. apart:
    ops that do not count; known: results so far."""
    if value in known or len(known) > FAR or type_of(value).rank != len(order):
        return known.get(value, False)
    known[value] = False
    op, found = op_of(value), _behind(value)
    if found is not None:
        known[value] = found[1] == order
    elif op is not None and op.operation not in apart and _is_transparent(op):
        known[value] = any(_arrives(v, order, apart, known) for v in op.operation.operands)
    return known[value]


def _undo(value: ir.Value, order: Order, rank: int) -> ir.Value:
    """The operand without the transposes that are moved: aligned at the last axis of `rank` axes."""
    found = _behind(value)
    if found is not None and found[1] == order:
        return found[0]
    shape = type_of(value).shape
    if all(d == 1 for d in shape):
        return value
    op = op_of(value)
    if op is not None and op.OP_NAME in PER_AXIS and len(shape) == rank:  # before the op that pads it
        return _permuted(op, _undo(op.x, order, rank), inverse(order))
    if len(shape) < rank:
        value = ops.reshape(value, shape=(*(1,) * (rank - len(shape)), *shape))
    padded = type_of(value).shape
    moved = inverse(order)
    if _is_reshape(value, order, rank):
        return ops.reshape(value, shape=tuple(padded[p] for p in moved))
    return transpose(value, moved)


def _pointwise(op: Op, constant: Constants) -> ir.Value | None:
    operands = list(op.operation.operands)
    rank = type_of(op.operation.results[0]).rank
    order = _common_order(op, operands, rank, constant)
    if order is None:
        return None
    if _shared_matmul(operands) and not (_transposed_back(op, order) or _meets(op, order)):
        return None
    made = type(op).build(*[_undo(v, order, rank) for v in operands], **op.attrs)
    return transpose(made, order)


def _concat(op: Op, constant: Constants) -> ir.Value | None:
    values = op.xs
    rank = type_of(values[0]).rank
    order = _common_order(op, values, rank, constant)
    if order is None or any(_behind(v) is None and not constant(v) for v in values):
        return None
    made = ops.concat([_undo(v, order, rank) for v in values], axis=order[op.axis % rank])
    return transpose(made, order)


def _reduce(op: Op, x: ir.Value, order: Order) -> ir.Value:
    rank = len(order)
    axes = {a % rank for a in (op.axes if isinstance(op, Reduce) else (op.axis,))}
    mapped = tuple(sorted(order[a] for a in axes))
    attrs = op.attrs | ({"axes": mapped} if isinstance(op, Reduce) else {"axis": mapped[0]})
    made = type(op).build(x, **attrs)
    if op.keepdims:
        return transpose(made, order)
    kept = [p for a, p in enumerate(order) if a not in axes]
    ranks = sorted(kept)
    return transpose(made, tuple(ranks.index(p) for p in kept))


def _axis_by_axis(op: Op, x: ir.Value, order: Order) -> ir.Value:
    """Permutes the attributes that have an entry for every axis."""
    return transpose(_permuted(op, x, inverse(order)), order)


def _permuted(op: Op, x: ir.Value, moved: Order) -> ir.Value:
    """The op on x, whose axis i is axis moved[i] of the op's own operand."""
    given = [n for n in PER_AXIS[op.OP_NAME] if getattr(op, n)]
    attrs = op.attrs | {n: tuple(getattr(op, n)[p] for p in moved) for n in given}
    return type(op).build(x, *list(op.operation.operands)[1:], **attrs)


def _gather(op: Op, x: ir.Value, order: Order) -> ir.Value | None:
    """The result's axes of indices stand where the gathered axis stood. A transpose of a result with more elements would move
    more data, unless a later one cancels it."""
    grows = estimate(type_of(op.operation.results[0]).elements) > estimate(type_of(x).elements)
    if grows and not _transposed_back(op, order):
        return None
    axis, indices = op.axis % len(order), type_of(op.indices).rank
    made = ops.gather(x, op.indices, axis=order[axis])

    def moved(a: int) -> int:
        """The position in the new result of an axis of the operand that is not gathered."""
        return order[a] + (indices - 1 if order[a] > order[axis] else 0)

    gathered = range(order[axis], order[axis] + indices)
    return transpose(made, (*map(moved, range(axis)), *gathered, *map(moved, range(axis + 1, len(order)))))


def _transpose(op: Op, x: ir.Value, order: Order) -> ir.Value:
    return transpose(x, tuple(order[p] for p in op.permutation))


def _reshape(op: Op, x: ir.Value, order: Order) -> ir.Value | None:
    """Splits and merges of axes that are also adjacent in the untransposed operand move before the transpose."""
    before, shape = type_of(op.x).shape, op.shape
    pieces: dict[int, list] = {axis: [] for axis in range(len(before))}
    result_axes: dict[int, list[int]] = {axis: [] for axis in range(len(before))}
    found: list[tuple[list[int], int | None]] = []
    for mine, theirs in reshape_blocks(shape, before):
        real = [t for t in theirs if before[t] != 1]
        if [order[t] for t in real] != list(range(order[real[0]], order[real[0]] + len(real)) if real else ()):
            return None
        found.append((list(mine), real[0] if real else (theirs[0] if theirs else None)))
    home = next((home for _, home in reversed(found) if home is not None), None)
    if home is None:
        return None
    for mine, own in reversed(found):  # a new axis of size 1 goes with the axis behind it
        home = home if own is None else own
        pieces[home][:0] = [shape[m] for m in mine]
        result_axes[home][:0] = mine
    moved = inverse(order)
    made = ops.reshape(x, shape=tuple(d for p in moved for d in pieces[p]))
    position: list[int] = [m for p in moved for m in result_axes[p]]
    return transpose(made, inverse(tuple(position)))


PER_AXIS = {
    "window_reduce": ("window", "strides", "dilations", "low", "high"),
    "pad": ("low", "high", "interior"),
    "slice": ("starts", "sizes", "steps"),
}
"""Attributes with an entry for each axis."""

SINK: dict[str, Callable[[Op, ir.Value, Order], ir.Value | None]] = {
    **dict.fromkeys(PER_AXIS, _axis_by_axis),
    "reduce": _reduce,
    "arg_reduce": _reduce,
    "gather": _gather,
    "transpose": _transpose,
    "reshape": _reshape,
}
"""How a transpose (of x, in that order) moves past each kind of op with one operand."""
