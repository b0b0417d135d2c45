"""Scatters whose indices are constants: the updates are ordered by target while compiling.

The gradient of a table that constant positions read, such as a relative position bias, is a scatter of many updates to few
targets. Sorting them takes several kernels of each step. With an ordered list of updates and the first of each target,
`segment_reduce` is one kernel. A target with many updates combines them in pieces, by two kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import reshape, transpose
from burn.dialect.constants import known_array
from burn.dialect.dims import Dim, product
from burn.dialect.indexing import ScatterElements, ScatterND
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.query import splat
from burn.dialect.types import DTYPES, type_of
from burn.dialect.weights import WeightStore
from burn.kernels.body import identity
from burn.kernels.builders.builder import accumulate_type
from burn.kernels.builders.segments import KINDS
from burn.passes.constants import full
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.replace import replace_ops


@register
@dataclass(frozen=True)
class OrderScatters:
    """Scatters of up to `few` updates stay, and those that change a small part of a value, because it may be updated in place.
    Scatters of rows of fewer than `narrow` elements stay for targets that read updates faster in the program's order. One kernel
    combines up to `longest` updates of a target; of more, pieces of at least `piece`."""

    name: ClassVar[str] = "order_scatters"
    few: int = 8
    narrow: int = 1
    longest: int = 256
    piece: int = 64

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        """Returns the number of ordered scatters."""
        ordering = _Ordering(self, program.weights)
        return {"ordered": sum(replace_ops(program, kind, ordering.replaced) for kind in (ScatterND, ScatterElements))}


SPARSE = 4
"""A scatter of this many times fewer updates than rows changes a small part."""


@dataclass(frozen=True)
class _Rows:
    """A scatter of rows. targets: the row of x that each update changes. x, updates: [rows, r..]."""

    x: ir.Value
    updates: ir.Value
    targets: np.ndarray


@dataclass(frozen=True)
class _Ordering:
    options: OrderScatters
    weights: WeightStore
    keys: dict[bytes, str] = field(default_factory=dict)
    """The weights that this pass made, by their elements: layers share them."""

    def replaced(self, op: ScatterND | ScatterElements) -> ir.Value | None:
        x, indices = type_of(op.x), self._indices(op.indices)
        if indices is None or indices.size <= self.options.few or DTYPES[x.dtype].kind not in ("float", "int", "uint"):
            return None
        with op.operation.location, ir.InsertionPoint(op.operation):
            return self._ordered(op, indices)

    def _ordered(self, op: ScatterND | ScatterElements, indices: np.ndarray) -> ir.Value | None:
        x = type_of(op.x)
        if isinstance(op, ScatterND):
            rows = self._worthwhile(_of_tuples(op, indices))
            return None if rows is None else reshape(self._reduced(rows, op.reduction), x.shape)
        axis = op.axis % x.rank
        if type_of(op.updates).shape != indices.shape:
            return None
        if _is_repeated(indices, axis) and _without(x.shape, axis) == _without(indices.shape, axis):
            rows = self._worthwhile(_of_lines(op, indices, axis))
            back = (*range(1, axis + 1), 0, *range(axis + 1, x.rank))
            return None if rows is None else transpose(self._reduced(rows, op.reduction), back)
        rows = self._worthwhile(_of_elements(op, indices, axis))
        return None if rows is None else reshape(self._reduced(rows, op.reduction), x.shape)

    def _worthwhile(self, rows: _Rows | None) -> _Rows | None:
        """Rows that do not stay."""
        if rows is None:
            return None
        count, *rest = type_of(rows.x).shape
        width = product(rest)
        narrow = isinstance(width, int) and width < self.options.narrow
        sparse = splat(rows.x) is None and isinstance(count, int) and SPARSE * len(rows.targets) < count
        return None if narrow or sparse else rows

    def _indices(self, value: ir.Value) -> np.ndarray | None:
        type_, number = type_of(value), splat(value)
        if number is not None and type_.is_static:
            return np.full(_sizes(type_.shape), int(number), np.int64)
        found = known_array(value, self.weights)
        return None if found is None else found.astype(np.int64)

    def _reduced(self, rows: _Rows, reduction: str) -> ir.Value:
        count = type_of(rows.x).shape[0]
        assert isinstance(count, int)
        order = np.argsort(rows.targets, kind="stable")
        targets = rows.targets[order]
        if reduction == "none":  # the last update of each target
            last = np.append(targets[1:] != targets[:-1], True)
            order, targets = order[last], targets[last]
        starts = np.searchsorted(targets, np.arange(count + 1))
        lengths = np.diff(starts)
        updates, longest = rows.updates, int(lengths.max())
        if longest > self.options.longest:
            piece = max(self.options.piece, 1 << math.ceil(math.log2(longest) / 2))
            pieces = -(-lengths // piece)
            number = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
            first = np.append(np.repeat(starts[:-1], pieces) + number * piece, starts[-1])
            type_ = type_of(rows.x)
            type_ = type_.with_dtype(accumulate_type(type_.dtype)).with_shape((len(number), *type_.shape[1:]))
            none = full(identity(KINDS[reduction], type_.dtype), type_)
            updates = self._segments(none, updates, order, first, reduction, piece)
            order, starts, longest = np.arange(len(number)), np.append(0, np.cumsum(pieces)), int(pieces.max())
        return self._segments(rows.x, updates, order, starts, reduction, longest)

    def _segments(
        self, x: ir.Value, updates: ir.Value, order: np.ndarray, starts: np.ndarray, reduction: str, longest: int
    ) -> ir.Value:
        lists = [self._constant(each, name) for each, name in ((order, "order"), (starts, "starts"))]
        return ops.segment_reduce(x, updates, *lists, reduction=reduction, longest=longest)

    def _constant(self, numbers: np.ndarray, name: str) -> ir.Value:
        array = np.ascontiguousarray(numbers, np.int32)
        elements = array.tobytes()
        if elements not in self.keys:
            self.keys[elements] = self.weights.add_array(array, name)
        return ops.weight(key=self.keys[elements], shape=array.shape, dtype="int32")


def _without(shape: Sequence[object], axis: int) -> tuple[object, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _is_repeated(indices: np.ndarray, axis: int) -> bool:
    """True if all lines along an axis have the same indices."""
    first = indices[tuple(slice(None) if i == axis else slice(1) for i in range(indices.ndim))]
    return bool((indices == first).all())


def _sizes(shape: Sequence[Dim]) -> tuple[int, ...]:
    """The sizes of a static shape."""
    return tuple(size for size in shape if isinstance(size, int))


def _from_start(indices: np.ndarray, extent: Dim) -> np.ndarray | None:
    """Indices counted from the start; None if one is out of range, or if the extent is unknown."""
    if not isinstance(extent, int):
        return None
    found = np.where(indices < 0, indices + extent, indices)
    return found if ((found >= 0) & (found < extent)).all() else None


def _of_tuples(op: ScatterND, indices: np.ndarray) -> _Rows | None:
    x, updates = type_of(op.x), type_of(op.updates)
    depth = indices.shape[-1]
    if updates.shape[: indices.ndim - 1] != indices.shape[:-1]:
        return None
    targets = np.zeros(indices.shape[:-1], np.int64)
    for axis in range(depth):
        extent = x.shape[axis]
        column = _from_start(indices[..., axis], extent)
        if not isinstance(extent, int) or column is None:
            return None
        targets = targets * int(extent) + column
    rest, count = x.shape[depth:], product(updates.shape[: indices.ndim - 1])
    whole = reshape(op.x, (product(x.shape[:depth]), *rest))
    return _Rows(whole, reshape(op.updates, (count, *rest)), targets.reshape(-1))


def _of_lines(op: ScatterElements, indices: np.ndarray, axis: int) -> _Rows | None:
    """Rows along `axis`, if all lines have the same indices."""
    extent, rank = type_of(op.x).shape[axis], indices.ndim
    line = indices[tuple(slice(None) if i == axis else 0 for i in range(rank))]
    targets = _from_start(line, extent)
    order = (axis, *(i for i in range(rank) if i != axis))
    return None if targets is None else _Rows(transpose(op.x, order), transpose(op.updates, order), targets)


def _of_elements(op: ScatterElements, indices: np.ndarray, axis: int) -> _Rows | None:
    """Every element is a row."""
    x = type_of(op.x)
    along = _from_start(indices, x.shape[axis]) if x.is_static else None
    if along is None:
        return None
    index = [np.arange(d).reshape(-1, *(1,) * (x.rank - 1 - i)) for i, d in enumerate(indices.shape)]
    index[axis] = along
    targets = np.ravel_multi_index(tuple(np.broadcast_arrays(*index)), _sizes(x.shape))
    return _Rows(reshape(op.x, (x.elements,)), reshape(op.updates, (indices.size,)), targets.reshape(-1))
