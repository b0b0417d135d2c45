"""Square tiles of images, transformed by a small matrix along both axes: the building blocks of fast convolution.

A tile of few pixels times few filter taps is a multiplication of polynomials, which needs fewer multiplications in the
evaluation domain (S. Winograd, 1980; A. Lavin and S. Gray, arXiv 1509.09308). `split_tiles` evaluates, `join_tiles`
interpolates; the pass `winograd` creates both.
"""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.activation import in_wide
from burn.dialect.compose import number_like, reshape, transpose
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, type_of


class SplitTiles(Op, name="split_tiles", traits=Trait.REPEATABLE, kernel="split"):
    """Tiles of `size` x `size` pixels, `step` apart, transformed by `matrix` [p, size] (row-major) along both axes. The
    first tile starts `low` pixels before x; pixels outside x are zeros. Half precision is transformed in float32, and the
    results are rounded. `spare` tiles of zeros follow, which change the distance between points in memory.
    Shapes: x [n, h, w, c..] -> [p * p, n * tiles[0] * tiles[1] + spare, c..]."""

    x: Operand
    matrix: tuple[float, ...]
    size: int
    step: int
    low: tuple[int, ...]
    tiles: tuple[int, ...]
    spare: int = 0

    @classmethod
    def infer(cls, x: TensorType, matrix, size: int, step: int, low, tiles, spare: int) -> TensorType:
        if x.rank < 3 or not len(low) == len(tiles) == 2:
            cls.fail(f"x {x}, low {list(low)} and tiles {list(tiles)} are not of images")
        if min(size, step, *tiles) < 1 or len(matrix) % size or not matrix:
            cls.fail(f"a matrix of {len(matrix)} numbers, tiles of {size} and steps of {step} do not fit")
        if spare < 0:
            cls.fail(f"spare {spare} is negative")
        points = len(matrix) // size
        return x.with_shape((points * points, x.shape[0] * product(tiles) + spare, *x.shape[3:]))

    @classmethod
    def decompose(cls, x: ir.Value, matrix, size: int, step: int, low, tiles, spare: int) -> ir.Value:
        """Windows, and a matmul along each of their axes."""
        found = in_wide(lambda x: cls._transformed(x, matrix, size, step, low, tiles), x)
        zeros = (0,) * type_of(found).rank
        return ops.pad(found, number_like(0, found), low=zeros, high=(0, spare, *zeros[2:])) if spare else found

    @staticmethod
    def _transformed(x: ir.Value, matrix, size: int, step: int, low, tiles) -> ir.Value:
        n, *image = type_of(x).shape[:3]
        rest = type_of(x).rank - 3
        covered = [(t - 1) * step + size for t in tiles]
        high = [c - a - d for c, a, d in zip(covered, low, image, strict=True)]
        before = tuple(max(0, a) for a in low)
        after = tuple(max(0, b) if isinstance(b, int) else b for b in high)
        zeros = (0,) * rest
        x = ops.pad(x, number_like(0, x), low=(0, *before, *zeros), high=(0, *after, *zeros))
        starts = (0, *(b - a for a, b in zip(low, before, strict=True)), *zeros)
        shape = type_of(x).shape
        x = ops.slice(x, starts=starts, sizes=(shape[0], *covered, *shape[3:]), steps=(1,) * len(shape))
        x = ops.windows(x, axis=1, window=(size, size), strides=(step, step), dilations=(1, 1))
        points = len(matrix) // size
        for _ in range(2):  # [n, th, tw, i, j, c..] -> [q, n, th, tw, i, c..] -> [p, q, n, th, tw, c..]
            x = ops.dot_general(matrix_like(matrix, size, x), x, lhs_contract=(1,), rhs_contract=(4,))
        return reshape(x, (points * points, n * product(tiles), *shape[3:]))


class JoinTiles(Op, name="join_tiles", traits=Trait.REPEATABLE, kernel="join"):
    """Tiles of p x p numbers, transformed by `matrix` [size, p] (row-major) along both axes and arranged as images of
    `sizes`. Excess pixels are cropped, and tiles behind those of the images are not read.
    Shapes: x [p * p, batch * tiles + spare, c..] -> [batch, *sizes, c..]."""

    x: Operand
    matrix: tuple[float, ...]
    size: int
    batch: Dim
    sizes: tuple[int, ...]

    @classmethod
    def infer(cls, x: TensorType, matrix, size: int, batch: Dim, sizes) -> TensorType:
        points = len(matrix) // size
        if x.rank < 2 or len(sizes) != 2 or x.shape[0] != points * points:
            cls.fail(f"x {x}, {len(matrix)} numbers and sizes {list(sizes)} are not of tiles of {size}")
        if not isinstance(spare := x.shape[1] - batch * product(counts(sizes, size)), int) or spare < 0:
            cls.fail(f"{x.shape[1]} tiles of {size} do not make {batch} images of {list(sizes)}")
        return x.with_shape((batch, *sizes, *x.shape[2:]))

    @classmethod
    def decompose(cls, x: ir.Value, matrix, size: int, batch: Dim, sizes) -> ir.Value:
        """A matmul along each axis; then the tiles are arranged as images."""
        points, tiles, rest = len(matrix) // size, counts(sizes, size), type_of(x).shape[2:]
        used = (points * points, batch * product(tiles), *rest)
        if type_of(x).shape != used:
            rank = len(used)
            x = ops.slice(x, starts=(0,) * rank, sizes=used, steps=(1,) * rank)
        x = reshape(x, (points, points, batch, *tiles, *rest))
        for _ in range(2):  # [p, q, n, th, tw, c..] -> [j, p, ..] -> [i, j, ..]
            x = ops.dot_general(matrix_like(matrix, points, x), x, lhs_contract=(1,), rhs_contract=(1,))
        order = (2, 3, 0, 4, 1, *range(5, 5 + len(rest)))
        x = reshape(transpose(x, order), (batch, *(t * size for t in tiles), *rest))
        rank = type_of(x).rank
        return ops.slice(x, starts=(0,) * rank, sizes=(batch, *sizes, *rest), steps=(1,) * rank)


def counts(sizes: Any, size: int) -> tuple[int, ...]:
    """The number of tiles along each axis, for sizes that are numbers."""
    return tuple(-(-d // size) for d in sizes)


def matrix_like(numbers: Any, columns: int, x: ir.Value) -> ir.Value:
    """Numbers, row by row, as a matrix of x's element type."""
    return ops.constant(values=numbers, shape=(len(numbers) // columns, columns), dtype=type_of(x).dtype)
