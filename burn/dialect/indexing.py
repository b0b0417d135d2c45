"""Gather and scatter: reads and writes at indices from other tensors. Negative indices count from the end; an index out
of range is an error at run time."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.batching.indexing import gather, gather_elements, gather_nd, scatter_elements, scatter_nd
from burn.dialect.batching.rules import elementwise
from burn.dialect.compose import convert, number
from burn.dialect.dims import Dim, at_most
from burn.dialect.mlir import ir
from burn.dialect.op import Agreement, Op, Operand, normalize_axis, same_type
from burn.dialect.traits import Trait
from burn.dialect.types import INTEGERS, TensorType, type_of


def _check_indices(cls: type[Op], indices: TensorType) -> None:
    if indices.dtype not in INTEGERS:
        cls.fail(f"indices must be integers, not {indices.dtype}")


def _within(op: Op) -> list[Agreement]:
    """For indices along one axis: on the others they must not be larger than x."""
    x, indices = type_of(op.x).shape, type_of(op.indices).shape
    axis = op.axis % len(x)
    return [Agreement(i, d, "at most") for k, (i, d) in enumerate(zip(indices, x, strict=True)) if k != axis]


def _axis(op: Op) -> range:
    """The indexed axis."""
    axis = op.axis % type_of(op.x).rank
    return range(axis, axis + 1)


def _depth(indices: tuple[Dim, ...]) -> int:
    """The number of axes that the last axis of the indices addresses."""
    assert isinstance(indices[-1], int)
    return indices[-1]


def _reached(op: Op, axes: range, reached: TensorType) -> list[Agreement]:
    """An axis without elements has no valid index."""
    shape = type_of(op.x).shape
    return [Agreement(shape[k], reached.elements, "indexed") for k in axes if not at_most(1, shape[k])]


FROM_START = 2**62
"""Subtracted from a negative index that must not count from the end. The runtime adds it back for its message. A GPU
keeps only the lower 48 bits, in which it is 0."""


class FromStart(Op, name="from_start", batching=elementwise):
    """Indices that never count from the end: a negative one is out of range for any use, as in PyTorch's embedding and
    gather. Shapes: indices [...] integers -> [...] int64."""

    indices: Operand

    @classmethod
    def infer(cls, indices: TensorType) -> TensorType:
        _check_indices(cls, indices)
        return indices.with_dtype("int64")

    @classmethod
    def decompose(cls, indices: ir.Value) -> ir.Value:
        unsigned = type_of(indices).dtype.startswith("uint")
        indices = convert(indices, "int64")
        if unsigned:
            return indices
        zero = number(0, "int64")
        return ops.select(ops.lt(indices, zero), ops.sub(indices, number(FROM_START, "int64")), indices)


class Gather(Op, name="gather", traits=Trait.REPEATABLE | Trait.INDEXED | Trait.FOLLOWS_PRECISION, batching=gather):
    """Slices of x along `axis` at the given indices (numpy.take). Shapes: x [a.., d, b..], indices [i..] -> [a.., i..,
    b..]."""

    x: Operand
    indices: Operand
    axis: int = 0

    @classmethod
    def infer(cls, x: TensorType, indices: TensorType, axis: int) -> TensorType:
        _check_indices(cls, indices)
        axis = normalize_axis(cls, axis, x.rank)
        return x.with_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))

    def must_agree(self) -> list[Agreement]:
        return _reached(self, _axis(self), type_of(self.operation.results[0]))


class GatherElements(Op, name="gather_elements", traits=Trait.INDEXED, batching=gather_elements):
    """out[i, j, ..] = x[i, indices[i, j, ..], ..] with the index on `axis`. Shapes: x [..], indices [s..] -> [s..]."""

    x: Operand
    indices: Operand
    axis: int = 0

    @classmethod
    def infer(cls, x: TensorType, indices: TensorType, axis: int) -> TensorType:
        _check_indices(cls, indices)
        normalize_axis(cls, axis, x.rank)
        if indices.rank != x.rank:
            cls.fail(f"indices of rank {indices.rank} do not fit x of rank {x.rank}")
        return x.with_shape(indices.shape)

    def must_agree(self) -> list[Agreement]:
        return [*_within(self), *_reached(self, _axis(self), type_of(self.indices))]


class GatherND(Op, name="gather_nd", traits=Trait.INDEXED, batching=gather_nd):
    """The last axis of indices addresses x's axes after `batch_dims`. Shapes: x [n.., d1, .., dk, r..], indices [n..,
    s.., k] -> [n.., s.., r..]."""

    x: Operand
    indices: Operand
    batch_dims: int = 0

    @classmethod
    def infer(cls, x: TensorType, indices: TensorType, batch_dims: int) -> TensorType:
        _check_indices(cls, indices)
        depth = indices.shape[-1] if indices.rank else 0
        if not 0 <= batch_dims < max(indices.rank, 1):
            cls.fail(f"{batch_dims} axes of {indices} are no batch: the last one has the indices", "batch_dims")
        if not isinstance(depth, int) or not 0 <= depth <= x.rank - batch_dims:
            cls.fail(f"the last axis of the indices, {depth}, must be at most {x.rank - batch_dims}")
        return x.with_shape((*indices.shape[:-1], *x.shape[batch_dims + depth :]))

    def must_agree(self) -> list[Agreement]:
        x, indices = type_of(self.x).shape, type_of(self.indices).shape
        named = range(self.batch_dims, self.batch_dims + _depth(indices))
        reached = _reached(self, named, type_of(self.operation.results[0]))
        return [*(Agreement(x[k], indices[k]) for k in range(self.batch_dims)), *reached]


class ScatterElements(Op, name="scatter_elements", traits=Trait.INDEXED, kernel="scatter", batching=scatter_elements):
    """A copy of x in which x[i, indices[i, j, ..], ..] is combined with updates[i, j, ..], `reduction` none (the last
    update wins), add, mul, max or min. Shapes: x [..], indices and updates [s..] -> x's."""

    x: Operand
    indices: Operand
    updates: Operand
    axis: int = 0
    reduction: str = "none"

    @classmethod
    def infer(cls, x, indices, updates, axis, reduction) -> TensorType:
        _check_indices(cls, indices)
        same_type(cls, x, updates)
        normalize_axis(cls, axis, x.rank)
        if not indices.rank == updates.rank == x.rank:
            cls.fail(f"indices {indices} and updates {updates} must have x's rank {x.rank}")
        return x

    def must_agree(self) -> list[Agreement]:
        indices, updates = type_of(self.indices).shape, type_of(self.updates).shape
        same = [Agreement(u, i) for u, i in zip(updates, indices, strict=True)]
        return [*same, *_within(self), *_reached(self, _axis(self), type_of(self.updates))]


class ScatterND(Op, name="scatter_nd", traits=Trait.INDEXED, kernel="scatter", batching=scatter_nd):
    """A copy of x in which slices addressed by the last axis of indices are combined with updates. Shapes: x [d1, ..,
    dk, r..], indices [s.., k], updates [s.., r..] -> x's."""

    x: Operand
    indices: Operand
    updates: Operand
    reduction: str = "none"

    @classmethod
    def infer(cls, x, indices, updates, reduction) -> TensorType:
        _check_indices(cls, indices)
        same_type(cls, x, updates)
        depth = indices.shape[-1] if indices.rank else 0
        if not isinstance(depth, int) or depth > x.rank:
            cls.fail(f"the last axis of the indices, {depth}, must be at most {x.rank}")
        expected = indices.rank - 1 + x.rank - depth
        if updates.rank != expected:
            cls.fail(f"updates must have rank {expected}, not {updates.rank}")
        return x

    def must_agree(self) -> list[Agreement]:
        x, indices, updates = (type_of(v).shape for v in (self.x, self.indices, self.updates))
        depth = _depth(indices)
        same = [Agreement(u, w) for u, w in zip(updates, (*indices[:-1], *x[depth:]), strict=True)]
        return [*same, *_reached(self, range(depth), type_of(self.updates))]
