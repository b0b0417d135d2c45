"""Convolutions of bfloat16 with constant filters, with three taps along one axis: half of the multiplications.

Tiles of four results along that axis are evaluated at six points. Taps along other axes stay taps of a convolution, in which
each point is a group. An axis that is dilated is split in phases, whose taps are neighbours. Beside square tiles of 2 x 2
results (1 / 2.25 of the multiplications, four elements of a tile for a pixel), 1.5 elements for a pixel are stored, and
sums are as deep as the taps of the other axes make them. The error is about three times that of direct convolution before its
result is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from burn.dialect import ops
from burn.dialect.contraction import Conv
from burn.dialect.dims import Dim, ceildiv
from burn.dialect.locations import source_name
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.kernels.layouts import AxisConvolution
from burn.passes.constants import unrounded
from burn.passes.stored import stored
from burn.passes.winograd_matrices import TAPS, Transforms, flat, transforms

TILE = 4
"""Results of a tile."""


@dataclass(frozen=True)
class AxisTiles:
    """Tiles of a convolution along one spatial axis: `axis` of its image."""

    op: Conv
    axis: int

    @property
    def dilation(self) -> int:
        return self.op.dilations[self.axis - 1]

    @property
    def length(self) -> int:
        """The results along the axis."""
        return _number(type_of(self.op.operation.results[0]).shape[self.axis])

    @property
    def blocks(self) -> int:
        return _number(ceildiv(self.length, TILE * self.dilation))

    def work(self, images: int) -> tuple[int, int, int, int]:
        """Of so many images: multiplications and additions, elements of pixels and of results in the domain, and elements of
        the filter."""
        by, weight = transforms(TILE), type_of(self.op.weight).shape
        *taps, channels, outputs = map(_number, weight)
        others, tiles = prod(taps) // TAPS, images * self.blocks * self.dilation
        x, y = (type_of(v).shape for v in (self.op.x, self.op.operation.results[0]))
        inputs, results = (
            prod([_number(d) for a, d in enumerate(shape[1:-1], 1) if a != self.axis]) for shape in (x, y)
        )
        filter = by.count * others * channels * outputs
        pixels = by.count * tiles * inputs * channels * self.op.groups
        return 2 * filter * tiles * results, pixels, by.count * tiles * results * outputs, filter

    def plain(self, images: int) -> int:
        """Multiplications and additions without tiles."""
        weight, y = (type_of(v).shape for v in (self.op.weight, self.op.operation.results[0]))
        return 2 * images * prod(map(_number, weight)) * prod(map(_number, y[1:-1]))

    @property
    def description(self) -> AxisConvolution:
        images, *sizes, _ = type_of(self.op.operation.results[0]).shape
        *taps, channels, outputs = type_of(self.op.weight).shape
        dtype, op = type_of(self.op.x).dtype, self.op
        facts = images, tuple(sizes), channels, outputs, dtype, True, False, op.groups, source_name(op)
        return AxisConvolution(*facts, self.axis, tuple(taps), tuple(op.strides), tuple(op.dilations))

    def build(self) -> ir.Value:
        """The result of the convolution."""
        op, by = self.op, transforms(TILE)
        at, dtype = self.axis - 1, type_of(op.x).dtype
        pixels = ops.split_axis(
            stored(op.x),
            matrix=flat(by.pixels),
            size=by.count,
            step=TILE,
            axis=self.axis,
            low=op.low[at],
            blocks=self.blocks,
            dilation=self.dilation,
        )

        def others(given: tuple[int, ...], along: int) -> tuple[int, ...]:
            return tuple(along if a == at else n for a, n in enumerate(given))

        sums = ops.conv(
            pixels,
            ops.cast(self._filter(by), dtype=dtype),
            strides=others(op.strides, 1),
            dilations=others(op.dilations, 1),
            low=others(op.low, 0),
            high=others(op.high, 0),
            groups=by.count * op.groups,
            layout="last",
            dtype="float32",
        )
        joined = ops.join_axis(
            sums, matrix=flat(by.results), size=TILE, axis=self.axis, length=self.length, dilation=self.dilation
        )
        return ops.cast(joined, dtype=dtype)

    def _filter(self, by: Transforms) -> ir.Value:
        """[k.., channels, outputs] in float32 -> [k.., channels, points * outputs], with one tap along the axis."""
        weight, at = unrounded(self.op.weight), self.axis - 1
        shape = type_of(weight).shape
        matrix = ops.constant(values=flat(by.filter), shape=(by.count, TAPS), dtype="float32")
        rank = len(shape)
        points = ops.dot_general(weight, matrix, lhs_contract=(at,), rhs_contract=(1,))  # the points last
        points = ops.transpose(points, permutation=(*range(rank - 2), rank - 1, rank - 2))
        taps = (1 if a == at else d for a, d in enumerate(shape[:-2]))
        return ops.reshape(points, shape=(*taps, shape[-2], by.count * shape[-1]))


def axes(op: Conv) -> list[AxisTiles]:
    """The ways to compute a channels-last convolution of pairs of bfloat16 in tiles along one axis. All sizes are known except
    for the number of images."""
    x, weight, y = (type_of(v).shape for v in (op.x, op.weight, op.operation.results[0]))
    if op.layout != "last" or op.dtype is not None or op.fill or type_of(op.x).dtype != "bfloat16":
        return []
    sizes = (*x[1:], *weight, *y[1:])
    if not all(isinstance(d, int) and d > 0 for d in sizes) or not all(isinstance(d, int) for d in (*op.low, *op.high)):
        return []
    if _number(weight[-2]) % 2:
        return []
    return [AxisTiles(op, a + 1) for a, k in enumerate(weight[:-2]) if k == TAPS and op.strides[a] == 1]


def _number(dim: Dim) -> int:
    assert isinstance(dim, int)
    return dim
