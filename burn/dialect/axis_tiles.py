"""Tiles along one axis of an image, transformed by a small matrix: fast convolution along that axis.

As `burn.dialect.tiles`, which transforms square tiles. The other axes of a filter stay taps of a convolution between
`split_axis` and `join_axis`. The pass `winograd` creates both.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.activation import in_wide
from burn.dialect.compose import number_like, reshape, transpose
from burn.dialect.dims import Dim, ceildiv
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand
from burn.dialect.tiles import matrix_like
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, type_of


class SplitAxis(Op, name="split_axis", traits=Trait.REPEATABLE, kernel="split"):
    """Tiles of `size` elements along a spatial axis, transformed by `matrix` [p, size] (row-major).

    The axis is split in `dilation` phases: phase r has the elements r, r + dilation, r + 2 * dilation and so on. A phase has
    `blocks` tiles, `step` of its elements apart. The first starts `low` elements of the axis before x; elements outside x
    are zeros. Half precision is transformed in float32, and the results are rounded.
    Shapes: x [n, d.., c] -> [n, d.., p * c], with blocks * dilation tiles along the axis, those of one block next to each
    other."""

    x: Operand
    matrix: tuple[float, ...]
    size: int
    step: int
    axis: int
    low: int
    blocks: int
    dilation: int = 1

    @classmethod
    def infer(
        cls, x: TensorType, matrix, size: int, step: int, axis: int, low: int, blocks: int, dilation: int
    ) -> TensorType:
        if not 0 < axis < x.rank - 1:
            cls.fail(f"axis {axis} of x {x} is not between its first and its last")
        if min(size, step, blocks, dilation) < 1 or len(matrix) % size or not matrix:
            cls.fail(f"a matrix of {len(matrix)} numbers, tiles of {size}, steps of {step} and {blocks} do not fit")
        shape = list(x.shape)
        shape[axis], shape[-1] = blocks * dilation, shape[-1] * (len(matrix) // size)
        return x.with_shape(tuple(shape))

    @classmethod
    def decompose(
        cls, x: ir.Value, matrix, size: int, step: int, axis: int, low: int, blocks: int, dilation: int
    ) -> ir.Value:
        """Windows, and a matmul with their elements."""
        return in_wide(lambda x: cls._transformed(x, matrix, size, step, axis, low, blocks, dilation), x)

    @staticmethod
    def _transformed(x: ir.Value, matrix, size: int, step: int, axis: int, low: int, blocks: int, dilation: int):
        covered = ((blocks - 1) * step + size) * dilation
        x = _from(_padded(x, axis, max(0, low), max(0, covered - low - _length(x, axis))), axis, max(0, -low), covered)
        shape = type_of(x).shape
        x = reshape(x, (*shape[:axis], (blocks - 1) * step + size, dilation, *shape[axis + 1 :]))
        x = ops.windows(x, axis=axis, window=(size,), strides=(step,), dilations=(1,))
        rank = type_of(x).rank  # [n, d.., blocks, size, dilation, d.., c]
        x = ops.dot_general(x, matrix_like(matrix, size, x), lhs_contract=(axis + 1,), rhs_contract=(1,))
        x = transpose(x, (*range(rank - 2), rank - 1, rank - 2))
        *_, channels = shape
        return reshape(x, (*shape[:axis], blocks * dilation, *shape[axis + 1 : -1], len(matrix) // size * channels))


class JoinAxis(Op, name="join_axis", traits=Trait.REPEATABLE, kernel="join"):
    """Tiles of p numbers along a spatial axis, transformed by `matrix` [size, p] (row-major) and arranged as `length`
    elements of the axis, in phases as `split_axis` makes them. Excess elements are cropped.
    Shapes: x [n, d.., p * c] -> [n, d.., c], with `length` elements along the axis."""

    x: Operand
    matrix: tuple[float, ...]
    size: int
    axis: int
    length: int
    dilation: int = 1

    @classmethod
    def infer(cls, x: TensorType, matrix, size: int, axis: int, length: int, dilation: int) -> TensorType:
        if not 0 < axis < x.rank - 1:
            cls.fail(f"axis {axis} of x {x} is not between its first and its last")
        if min(size, length, dilation) < 1 or len(matrix) % size or not matrix:
            cls.fail(f"a matrix of {len(matrix)} numbers and {length} elements in tiles of {size} do not fit")
        points, shape = len(matrix) // size, list(x.shape)
        channels = shape[-1]
        if shape[axis] != ceildiv(length, size * dilation) * dilation:
            cls.fail(f"{shape[axis]} tiles of {size} do not make {length} elements")
        if not isinstance(channels, int) or channels % points:
            cls.fail(f"{channels} numbers are not {points} for each channel")
        shape[axis], shape[-1] = length, channels // points
        return x.with_shape(tuple(shape))

    @classmethod
    def decompose(cls, x: ir.Value, matrix, size: int, axis: int, length: int, dilation: int) -> ir.Value:
        """A matmul; then the tiles are arranged along the axis."""
        points, shape = len(matrix) // size, type_of(x).shape
        blocks, channels = ceildiv(length, size * dilation), type_of(x).shape[-1]
        assert isinstance(channels, int)
        x = reshape(x, (*shape[:axis], blocks, dilation, *shape[axis + 1 : -1], points, channels // points))
        rank = type_of(x).rank
        x = ops.dot_general(x, matrix_like(matrix, points, x), lhs_contract=(rank - 2,), rhs_contract=(1,))
        x = transpose(x, (*range(axis + 1), rank - 1, *range(axis + 1, rank - 1)))
        x = reshape(x, (*shape[:axis], blocks * size * dilation, *shape[axis + 1 : -1], channels // points))
        return _from(x, axis, 0, length)


def _length(x: ir.Value, axis: int) -> int:
    length = type_of(x).shape[axis]
    assert isinstance(length, int)
    return length


def _padded(x: ir.Value, axis: int, low: int, high: int) -> ir.Value:
    before, after = (tuple(n if a == axis else 0 for a in range(type_of(x).rank)) for n in (low, high))
    return ops.pad(x, number_like(0, x), low=before, high=after)


def _from(x: ir.Value, axis: int, start: int, length: int) -> ir.Value:
    """Some consecutive elements of an axis."""
    shape: tuple[Dim, ...] = type_of(x).shape
    starts = tuple(start if a == axis else 0 for a in range(len(shape)))
    sizes = tuple(length if a == axis else d for a, d in enumerate(shape))
    return ops.slice(x, starts=starts, sizes=sizes, steps=(1,) * len(shape))
