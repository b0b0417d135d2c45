"""Scatters whose indices are linear in their own positions: sums of padded views.

    out[4 * i + k] += updates[i, k]

is the gradient of an unfold or of a strided gather. Each element of the result then reads its updates, in parallel; a scatter
applies updates that may collide in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burn.dialect import ops
from burn.dialect.compose import convert, number_like, part, reshape, transpose, wide
from burn.dialect.indexing import ScatterElements
from burn.dialect.library import Sort
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of, splat
from burn.dialect.shape import Pad
from burn.dialect.types import type_of
from burn.kernels.builders.builder import loop_index, loops
from burn.kernels.lower import Lowering
from burn.passes.algebra.law import Rewriter, law
from burn.passes.algebra.linear import Linear, linear_index

MOST_TERMS = 64
"""The most views in a sum: the largest number of updates of an element."""


@law("scatter_nd", "scatter_elements")
def scatter_in_order(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """out[a + s * i + t * k] += updates[i, k] is a sum of padded updates, if x is uniform. Others may be updated in place."""
    type_ = type_of(op.x)
    if op.reduction != "add" or splat(op.x) is None or type_.dtype == "bool":
        return None
    found = _targets(rewriter, op)
    if found is None:
        return None
    terms = found.terms()
    if terms is None:
        return None
    total = terms[0]
    for term in terms[1:]:
        total = ops.add(total, term)
    if isinstance(op, ScatterElements):
        axis = op.axis % type_.rank
        total = transpose(total, (*range(1, axis + 1), 0, *range(axis + 1, type_.rank)))
    return convert(ops.add(convert(op.x, wide(type_.dtype)), total), type_.dtype)


@law("scatter_elements")
def scatter_of_padding(rewriter: Rewriter, op: Op) -> ir.Value | None:
    """out[order[i]] += updates[i] is a scatter of a window if updates are zero outside of it: the gradient of a part of a sorted
    row. The order must be a sort's: other indices may be out of range, which is an error."""
    pad, sort = op_of(op.updates), op_of(op.indices)
    if op.reduction != "add" or not isinstance(pad, Pad) or not isinstance(sort, Sort) or splat(pad.value) != 0:
        return None
    axis, shape = op.axis % type_of(op.x).rank, type_of(pad.x).shape
    if sort.axis % len(shape) != axis or any(pad.interior):
        return None
    if any(low != 0 or high != 0 for i, (low, high) in enumerate(zip(pad.low, pad.high, strict=True)) if i != axis):
        return None
    return ops.scatter_elements(
        op.x, part(op.indices, axis, pad.low[axis], shape[axis]), pad.x, axis=axis, reduction="add"
    )


Steps = tuple[tuple[int, ...], ...]
"""For each indexed axis of x, by the axes of the candidate updates: how far the target moves from one candidate to the next."""


def _targets(rewriter: Rewriter, op: Op) -> _Spread | None:
    """The updates and their targets. None unless all targets are known to be in range. The updates of a `scatter_elements`, whose
    indices vary along its axis alone, are transposed."""
    x, indices, updates = type_of(op.x), type_of(op.indices), op.updates
    low = Lowering()
    if isinstance(op, ScatterElements):
        axis = op.axis % x.rank
        if any(a != b for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)) if i != axis):
            return None
        variables = loops(indices.shape)
        candidates = (variables[axis],)
        columns = [low.at(op.indices, loop_index(variables))]
        extents = [x.shape[axis]]
        updates = transpose(updates, (axis, *(i for i in range(x.rank) if i != axis)))
    else:
        depth = indices.shape[-1]
        if not isinstance(depth, int):
            return None
        candidates = loops(indices.shape[:-1])
        columns = [low.at(op.indices, (*loop_index(candidates), k)) for k in range(depth)]
        extents = list(x.shape[:depth])
    found: list[Linear] = []
    sizes = tuple(extent for extent in extents if isinstance(extent, int))
    if len(sizes) < len(extents) or not all(isinstance(v.extent, int) and v.extent > 0 for v in candidates):
        return None
    for column, extent in zip(columns, sizes, strict=True):
        index = linear_index(column, low, rewriter.weights)
        if index is None:
            return None
        if index.last < 0:  # counted from the end
            index = Linear(index.first + extent, index.steps)
        if index.least < 0 or index.last >= extent or any(v not in candidates for v in index.steps):
            return None
        found.append(index)
    steps = tuple(tuple(index.steps.get(v, 0) for v in candidates) for index in found)
    return _Spread(convert(updates, wide(x.dtype)), steps, tuple(index.first for index in found), sizes)


@dataclass
class _Spread:
    """Updates [candidates.., rest..], whose targets are along the first axes of a result of `extents`."""

    updates: ir.Value
    steps: Steps
    first: tuple[int, ...]
    extents: tuple[int, ...]

    def terms(self) -> list[ir.Value] | None:
        """Tensors [extents.., rest..] whose sum is the result. None if an axis of candidates moves along several axes of the
        result, or if an element has too many updates."""
        self._without_repeats()
        if any(sum(map(bool, column)) > 1 for column in zip(*self.steps, strict=True)):
            return None
        self._forwards()
        rank = type_of(self.updates).rank
        count = len(self.steps[0])
        order: list[int] = []
        groups: list[list[int]] = []
        for row in self.steps:
            mine = sorted((i for i in range(count) if row[i]), key=lambda i: -row[i])
            order += mine
            groups.append([row[i] for i in mine])
        terms = [_Term(transpose(self.updates, (*order, *range(count, rank))), ())]
        for axis, (moves, start, extent) in enumerate(zip(groups, self.first, self.extents, strict=True)):
            found: list[_Term] = []
            for term in terms:
                if (parts := term.merged(axis, moves)) is None:
                    return None
                found += [part.placed(axis, start, extent) for part in parts]
            if len(found) > MOST_TERMS:
                return None
            terms = found
        return [term.value for term in terms]

    def _without_repeats(self) -> None:
        """Sums candidates with one target."""
        count = len(self.steps[0])
        shape = type_of(self.updates).shape
        still = tuple(i for i in range(count) if not any(row[i] for row in self.steps))
        if not still:
            return
        if any(shape[i] != 1 for i in still):
            self.updates = ops.reduce(self.updates, kind="sum", axes=still)
        else:
            self.updates = reshape(self.updates, tuple(d for i, d in enumerate(shape) if i not in still))
        self.steps = tuple(tuple(step for i, step in enumerate(row) if i not in still) for row in self.steps)

    def _forwards(self) -> None:
        """Reverses axes of candidates whose targets move to lower indices."""
        shape = type_of(self.updates).shape
        counts = [d for d in shape[: len(self.steps[0])] if isinstance(d, int)]
        back = [min(column) < 0 for column in zip(*self.steps, strict=True)]
        if not any(back):
            return
        back += [False] * (len(shape) - len(back))
        starts = tuple(d - 1 if b else 0 for d, b in zip(shape, back, strict=True))
        self.updates = ops.slice(self.updates, starts=starts, sizes=shape, steps=tuple(-1 if b else 1 for b in back))
        self.first = tuple(
            start + sum((count - 1) * step for count, step in zip(counts, row, strict=True) if step < 0)
            for start, row in zip(self.first, self.steps, strict=True)
        )
        self.steps = tuple(tuple(map(abs, row)) for row in self.steps)


@dataclass(frozen=True)
class _Term:
    """A tensor whose elements along an axis are updates or zeros. taken: the indices of the updates; () before the axis is
    merged."""

    value: ir.Value
    taken: tuple[int, ...]

    def merged(self, axis: int, moves: Sequence[int]) -> list[_Term] | None:
        """Candidates along axes from `axis` on, in order of falling steps, become one axis of targets. None, before any is built,
        if these are more than MOST_TERMS."""
        if not moves:
            shape = type_of(self.value).shape
            return [_Term(reshape(self.value, (*shape[:axis], 1, *shape[axis:])), (0,))]
        inner = [self.spaced(axis + len(moves) - 1, moves[-1])]
        for number in reversed(range(len(moves) - 1)):
            if sum(len(term.parts(moves[number])) for term in inner) > MOST_TERMS:
                return None
            inner = [part for term in inner for part in term.overlapped(axis + number, moves[number])]
        return inner

    def spaced(self, axis: int, step: int) -> _Term:
        """Zeros between the elements along an axis."""
        size = type_of(self.value).shape[axis]
        assert isinstance(size, int)
        gaps = tuple(step - 1 if i == axis else 0 for i in range(type_of(self.value).rank))
        return _Term(_padded(self.value, axis, interior=gaps), tuple(range(0, size * step, step)))

    def parts(self, step: int) -> list[int]:
        """The numbers of those parts of `step` elements that have updates."""
        return sorted({t // step for t in self.taken})

    def overlapped(self, axis: int, step: int) -> list[_Term]:
        """Rows along axis + 1, each `step` after the one before it, as sums of tensors in which none overlap: parts of `step`
        elements of every row."""
        shape = type_of(self.value).shape
        count, width = shape[axis], shape[axis + 1]
        assert isinstance(count, int) and isinstance(width, int)
        parts = self.parts(step)
        found = []
        for number in parts:
            size = min(step, width - number * step)
            part = _sliced(self.value, axis + 1, number * step, size)
            part = _padded(part, axis + 1, high=step - size)
            part = _padded(part, axis, low=number - parts[0], high=parts[-1] - number)
            rows = count + parts[-1] - parts[0]
            part = reshape(part, (*shape[:axis], rows * step, *shape[axis + 2 :]))
            part = _padded(part, axis, low=parts[0] * step)
            inside = [t - number * step for t in self.taken if t // step == number]
            found.append(_Term(part, tuple((number + row) * step + t for row in range(count) for t in inside)))
        return found

    def placed(self, axis: int, start: int, extent: int) -> _Term:
        """The axis with `start` zeros before it, cut or filled to its extent."""
        width = type_of(self.value).shape[axis]
        assert isinstance(width, int)
        size = min(width, extent - start)
        value = _sliced(self.value, axis, 0, size)
        return _Term(_padded(value, axis, low=start, high=extent - start - size), ())


def _sliced(x: ir.Value, axis: int, start: int, size: int) -> ir.Value:
    shape = type_of(x).shape
    if size == shape[axis]:
        return x
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    sizes = tuple(size if i == axis else d for i, d in enumerate(shape))
    return ops.slice(x, starts=starts, sizes=sizes, steps=(1,) * len(shape))


def _padded(x: ir.Value, axis: int, low: int = 0, high: int = 0, interior: tuple[int, ...] = ()) -> ir.Value:
    if not low and not high and not any(interior):
        return x
    before, behind = (tuple(n if i == axis else 0 for i in range(type_of(x).rank)) for n in (low, high))
    return ops.pad(x, number_like(0, x), low=before, high=behind, interior=interior)
