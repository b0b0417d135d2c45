"""A constant matrix of 8-bit floats with scales, as programs write it: casts, scales that multiply it, and views. `matched`.

Scales may be for the whole matrix, for each row or column, or for blocks. Exporters multiply a matrix [n / b, b, k / c, c] with
scales [n / b, 1, k / c, 1], or repeat each scale up to the matrix's size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod

from burn.dialect import ops
from burn.dialect.blocks import FLOAT_NUMBERS
from burn.dialect.compose import convert, reshape
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.types import FLOATS, type_of
from burn.passes.constants import Constants

MOST_OPS = 16
"""Ops of such an expression at most."""


@dataclass(frozen=True)
class Scale:
    """Scales in the space of a matrix. value: of the space's rank; repeats: the neighbours along each axis with one scale."""

    value: ir.Value
    repeats: tuple[int, ...]

    def of_blocks(self, depth: int, block: int, shape: tuple[int, int]) -> ir.Value:
        """The scales as float32[columns, blocks] of a matrix of that shape, whose axis `depth` has blocks of such a size."""
        value, sizes = convert(self.value, "float32"), [-(-n // r) for n, r in zip(shape, self.repeats, strict=True)]
        columns = 1 - depth
        blocks = -(-shape[depth] // block)
        value = ops.transpose(value, permutation=(1, 0)) if depth == 0 else value
        found = [(sizes[columns], self.repeats[columns], shape[columns])]
        found.append((sizes[depth], max(1, self.repeats[depth] // block) if sizes[depth] > 1 else blocks, blocks))
        for axis, (count, repeats, whole) in enumerate(found):
            value = _repeated(value, axis, count, repeats, whole)
        return value


@dataclass(frozen=True)
class Scaled:
    """Numbers, and scales to multiply them with, each in the space of the numbers."""

    numbers: ir.Value
    scales: tuple[Scale, ...]

    def block(self, depth: int) -> int:
        """Neighbours along an axis with the same scales; 0 if scales do not divide it into blocks."""
        size = _shape(self.numbers)[depth]
        found = [s.repeats[depth] for s in self.scales if s.repeats[depth] < size]
        smallest = min(found, default=size)
        return smallest if all(n % smallest == 0 for n in found) else 0

    def scale(self, depth: int, block: int) -> ir.Value:
        """All scales multiplied: float32[columns, blocks]."""
        rows, columns = _shape(self.numbers)
        if not self.scales:
            shape = ((rows, columns)[1 - depth], -(-(rows, columns)[depth] // block))
            return ops.full(shape=shape, dtype="float32", value=1.0)
        return reduce(ops.mul, (s.of_blocks(depth, block, (rows, columns)) for s in self.scales))


def matched(value: ir.Value, constant: Constants) -> Scaled | None:
    """The numbers and scales of a matrix; None for another value."""
    if type_of(value).rank != 2 or type_of(value).elements == 0 or not constant(value):
        return None
    return _matched(value, constant, MOST_OPS)


def _matched(value: ir.Value, constant: Constants, left: int) -> Scaled | None:
    op = op_of(value)
    if op is None or not left or type_of(value).dtype not in FLOATS:
        return None
    if op.OP_NAME == "cast" and type_of(op.x).dtype in FLOAT_NUMBERS:
        return Scaled(op.x, ())
    if op.OP_NAME == "mul":
        return _scaled_by(op, constant, left)
    if op.OP_NAME not in ("cast", "reshape", "transpose"):
        return None
    found = _matched(op.x, constant, left - 1)
    if found is None or op.OP_NAME == "cast":
        return found
    if op.OP_NAME == "transpose":
        moved = tuple(
            Scale(ops.transpose(s.value, permutation=op.permutation), tuple(s.repeats[a] for a in op.permutation))
            for s in found.scales
        )
        return Scaled(ops.transpose(found.numbers, permutation=op.permutation), moved)
    old, new = _shape(found.numbers), _shape(value)
    scales = [_reshaped(s, old, new) for s in found.scales]
    return None if None in scales else Scaled(reshape(found.numbers, new), tuple(filter(None, scales)))


def _scaled_by(op: Op, constant: Constants, left: int) -> Scaled | None:
    shape = _shape(op.operation.results[0])
    first, second = op.operation.operands
    for numbers, scale in ((first, second), (second, first)):
        if (
            constant(scale)
            and _shape(numbers) == shape
            and (found := _matched(numbers, constant, left - 1)) is not None
        ):
            own = _scale(scale, shape)
            return None if own is None else Scaled(found.numbers, (*found.scales, own))
    return None


def _scale(value: ir.Value, space: tuple[int, ...]) -> Scale | None:
    """A factor of a matrix of that shape."""
    op = op_of(value)
    if op is not None and op.OP_NAME == "broadcast_to" and len(_shape(value)) == len(space):
        return _scale(op.x, space)
    if op is not None and op.OP_NAME == "cast" and type_of(op.x).dtype in FLOATS:
        return _scale(op.x, space)
    shape = _shape(value)
    if op is not None and op.OP_NAME == "reshape" and shape == space:  # each scale repeated
        before = op_of(op.x)
        if before is not None and before.OP_NAME == "broadcast_to":
            inner = _scale(before.x, _shape(op.x))
            return None if inner is None else _reshaped(inner, _shape(op.x), space)
    ones = (1,) * (len(space) - len(shape)) + shape
    repeats = tuple(n if one == 1 else 1 for one, n in zip(ones, space, strict=True))
    return Scale(reshape(value, ones), repeats)


def _reshaped(scale: Scale, old: tuple[int, ...], new: tuple[int, ...]) -> Scale | None:
    """The scales of a reshaped matrix, if neighbours along each new axis have one scale."""
    groups = _groups(old, new)
    if groups is None:
        return None
    sizes: list[int] = []
    repeats: list[int] = []
    for axes, own in groups:
        if len(own) != 1:
            if any(scale.repeats[a] != old[a] for a in axes):
                return None  # an axis with scales is split
            sizes += [1] * len(own)
            repeats += own
            continue
        varying = [a for a in axes if old[a] > 1 and scale.repeats[a] < old[a]]
        last = max(varying, default=-1)
        if any(scale.repeats[a] != 1 for a in varying[:-1]) or any(
            old[a] > 1 and a not in varying for a in axes if a < last
        ):
            return None
        after = prod(old[a] for a in axes if a > last)
        repeats.append(own[0] if last < 0 else scale.repeats[last] * after)
        sizes.append(prod(-(-old[a] // scale.repeats[a]) for a in varying))
    return Scale(reshape(scale.value, tuple(sizes)), tuple(repeats))


def _groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]] | None:
    """Axes of a shape and sizes of a reshaped one: as many elements in each."""
    found: list[tuple[list[int], list[int]]] = []
    axis = 0
    position = 0
    while axis < len(old) or position < len(new):
        axes, sizes = [], []
        have = want = 1
        while not axes or not sizes or have != want:
            if axis < len(old) and (not axes or have < want or position == len(new)):
                have *= old[axis]
                axes.append(axis)
                axis += 1
            elif position < len(new):
                want *= new[position]
                sizes.append(new[position])
                position += 1
            else:
                break
        if have != want:
            return None
        if not axes or not sizes:  # ones at the end
            if not found:
                return None
            found[-1][0].extend(axes)
            found[-1][1].extend(sizes)
        else:
            found.append((axes, sizes))
    return found


def _repeated(value: ir.Value, axis: int, count: int, repeats: int, whole: int) -> ir.Value:
    """Each of `count` elements along an axis repeated, up to `whole` elements."""
    shape = _shape(value)
    if count == whole:
        return value
    apart = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    value = ops.broadcast_to(reshape(value, apart), shape=(*apart[: axis + 1], repeats, *apart[axis + 2 :]))
    value = reshape(value, (*shape[:axis], count * repeats, *shape[axis + 1 :]))
    rank = len(shape)
    return ops.slice(value, starts=(0,) * rank, sizes=(*shape[:axis], whole, *shape[axis + 1 :]), steps=(1,) * rank)


def _shape(value: ir.Value) -> tuple[int, ...]:
    shape = type_of(value).shape
    found = tuple(n for n in shape if isinstance(n, int))
    assert len(found) == len(shape)
    return found
