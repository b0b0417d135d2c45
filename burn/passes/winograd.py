"""Turns 3 x 3 convolutions into matmuls in the Winograd domain, with a quarter of the multiplications.

Tiles along one axis are in `winograd_axis`.

Tiles of 4 x 4 results and the filter are evaluated at six points along each axis, multiplied channel by channel and
interpolated (A. Lavin and S. Gray, arXiv 1509.09308). The multiplication is a matmul for each of the 36 points and each group
of channels. The gradient of the filter is the transpose of the same sum. A constant filter is transformed at compile time
(`fold`), four times as large. The points are chosen for accuracy (B. Barabasz et al., arXiv 1803.10986): the result's error is
one to five times that of direct convolution. Convolutions must be channels-last already (`layout`).

In bfloat16, constant filters have tiles of 2 x 2 results: 16 points, and 1 / 2.25 of the multiplications. Transforms and sums
are float32; pixels and the filter are rounded at the points. The error is two to three times that of direct convolution before
its result is rounded. With tiles of 4 x 4 it would be seven times.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

from burn.dialect import ops
from burn.dialect.contraction import Conv, DotGeneral
from burn.dialect.dims import Dim, floordiv, product
from burn.dialect.locations import current_node, source_name
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks, erase_dead, is_named, splat
from burn.dialect.tiles import counts
from burn.dialect.types import type_of
from burn.kernels.layouts import Convolution, PackedMatmul
from burn.passes.constants import Constants, unrounded
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.stored import stored
from burn.passes.winograd_axis import AxisTiles, axes
from burn.passes.winograd_matrices import TAPS, Transforms, flat, transforms, transposed

TILE = 4
"""Results of a tile along each axis, in float32 and float64."""

TILES = {"float32": TILE, "float64": TILE, "bfloat16": 2}
"""The results of a tile along each axis, by element type."""

TYPICAL = 8
"""The number of images that a symbolic batch size counts as."""

GAIN = {"float32": 0.8, "float64": 0.8, "bfloat16": 0.9}
"""The pass skips convolutions that are expected to take more than this part of the time, by element type."""

SMALL_MOVE = 0.5
"""The cost of moving an element of a bfloat16 tile over that of a float32 tile. A transform of 4 points has half of the additions
for each element that one of 6 points has, and its results are counted twice (`Winograd._pays`)."""


@register
@dataclass(frozen=True)
class Winograd:
    """`always` includes convolutions without an expected gain. Without `constants`, constant filters stay
    untransformed. `largest` limits the number of elements of a transformed filter.

    The gain depends on the machine. `element` is the number of multiplications and additions that take as long as
    writing an element to shared memory, or reading it. It is `cached` if the transformed pixels and results take at most
    `cache` bytes as float32. `constant` is the same for an element of a transformed filter, which is loaded while others
    are multiplied. The defaults are for vectors that need several elements per multiply-add.

    `bfloat16` includes convolutions of bfloat16 with constant filters, for targets that multiply it at twice the rate of
    float32. They may have `square` tiles, or tiles along one `axis` (`winograd_axis`), whichever is expected to be faster.
    """

    name: ClassVar[str] = "winograd"
    always: bool = False
    constants: bool = True
    largest: int = 0
    element: int = 48
    cached: int = 48
    cache: int = 0
    constant: int = 40
    bfloat16: bool = False
    square: bool = True
    axis: bool = True

    def run(self, program: Program, env: Environment = ANYWHERE) -> None:
        with context():
            constant = Constants()
            for block in blocks(program.block):
                for operation in list(block.operations):
                    op = operation.opview
                    if not isinstance(op, Op):
                        continue
                    with op.operation.location, ir.InsertionPoint(op.operation):
                        if isinstance(op, Conv) and type_of(op.x).dtype == "bfloat16":
                            made = self._narrow(op, env) if self.bfloat16 and constant(op.weight) else None
                            if made is None:
                                continue
                        elif _is_plain(op) and self._takes(op, constant(op.weight), env):
                            made = _convolution(op, env)
                        elif (padded := _gradient_of(op)) is not None and self._decides(
                            op, _shape(op), _shape(op.rhs), env, gradient=True
                        ):
                            made = _gradient(op, *padded)
                        else:
                            continue
                    op.operation.results[0].replace_all_uses_with(made)
            erase_dead(program.block)

    def _takes(self, op: Op, constant: bool, env: Environment) -> bool:
        weight = _shape(op.weight)
        return not (constant and self._grows(op)) and self._decides(op, weight, _shape(op), env, constant)

    def _narrow(self, op: Conv, env: Environment) -> ir.Value | None:
        """A convolution of bfloat16 with a constant filter in the tiles that are expected to be faster; None if it stays."""
        tiles = min(axes(op), key=self._axis_cost, default=None) if self.axis else None
        if self.square and _is_plain(op) and _has_pairs(op) and not self._grows(op):
            cost, _ = self._costs(_shape(op.weight), _shape(op), "bfloat16", True, op.groups)
            if tiles is None or cost <= self._axis_cost(tiles):
                pays = self._decides(op, _shape(op.weight), _shape(op), env, constant=True)
                return _convolution(op, env) if pays else None
        if tiles is None or not self.constants or 0 < self.largest < tiles.work(1)[-1]:
            return None
        pays = self.always or self._axis_cost(tiles) < GAIN["bfloat16"] * tiles.plain(_images(op))
        if not self.always and env.backend is not None:
            pays = env.backend.layouts.winograd(tiles.description, pays)
        return tiles.build() if pays else None

    def _decides(
        self,
        op: Op,
        weight: tuple[Dim, ...],
        y: tuple[Dim, ...],
        env: Environment,
        constant: bool = False,
        gradient: bool = False,
    ) -> bool:
        """The target's decision, given the expected gain."""
        dtype, groups = type_of(op.operation.results[0]).dtype, op.groups if isinstance(op, Conv) else 1
        pays = self._pays(weight, y, dtype, constant, groups)
        if self.always or env.backend is None:
            return pays
        (images, *sizes, _), (*_, channels, outputs) = y, weight
        facts = images, tuple(sizes), channels, outputs, dtype, constant, gradient, groups
        return env.backend.layouts.winograd(Convolution(*facts, node=source_name(op)), pays)

    def _grows(self, op: Op) -> bool:
        """True if a transformed constant filter would be too large."""
        *_, channels, outputs = _shape(op.weight)
        assert isinstance(channels, int) and isinstance(outputs, int)
        return not self.constants or 0 < self.largest < _transforms(op.x).count ** 2 * channels * outputs

    def _pays(
        self, weight: tuple[Dim, ...], y: tuple[Dim, ...], dtype: str, constant: bool = False, groups: int = 1
    ) -> bool:
        if self.always:
            return True
        cost, plain = self._costs(weight, y, dtype, constant, groups)
        return cost < GAIN[dtype] * plain

    def gains(self, convolution: Convolution, time: float) -> bool:
        """True if a sufficient gain is expected over a kernel that takes this part of the direct convolution's time."""
        weight = TAPS, TAPS, convolution.channels, convolution.outputs
        y = convolution.images, *convolution.sizes, convolution.outputs
        cost, plain = self._costs(weight, y, convolution.dtype, convolution.constant, convolution.groups)
        return cost < GAIN[convolution.dtype] * time * plain

    def _costs(
        self, weight: tuple[Dim, ...], y: tuple[Dim, ...], dtype: str, constant: bool, groups: int
    ) -> tuple[float, int]:
        """The costs with square tiles and without. They are multiplications and additions, plus one write and one read for
        each transformed element. A constant filter is only read, during the matmuls."""
        *_, channels, outputs = weight
        images, *sizes, _ = y
        pixels = product([d for d in sizes if isinstance(d, int)])
        if not isinstance(images, int):
            images = 1 if constant else TYPICAL
        tile = TILES[dtype]
        tiles = images * product(counts(tuple(d for d in sizes if isinstance(d, int)), tile))
        assert isinstance(channels, int) and isinstance(outputs, int) and isinstance(pixels, int)
        assert isinstance(tiles, int)
        plain = 2 * TAPS**2 * images * pixels * channels * outputs
        points = transforms(tile).count ** 2
        matmuls, taps = 2 * points * tiles * channels * outputs, points * channels * outputs
        moved = self._moved(points * tiles * channels * groups, points * tiles * outputs, dtype)
        if constant:
            return max(matmuls, self.constant * taps) + moved, plain
        return matmuls + moved + 2 * self.element * taps, plain

    def _moved(self, pixels: int, results: int, dtype: str) -> float:
        """The cost of writing and reading so many elements in the domain."""
        if dtype != "bfloat16":
            elements = pixels + results
            return 2 * (self.cached if 4 * elements <= self.cache else self.element) * elements
        # pairs of bfloat16 are multiplied in the time of a float32, and pixels move in pairs too, but not results
        elements = pixels + 2 * results
        return 2 * (self.cached if 2 * elements <= self.cache else self.element) * elements * SMALL_MOVE

    def _axis_cost(self, tiles: AxisTiles) -> float:
        multiplications, pixels, results, taps = tiles.work(_images(tiles.op))
        return max(multiplications, self.constant * taps) + self._moved(pixels, results, "bfloat16")


def _images(op: Op) -> int:
    """The number of images; a symbolic one counts as one, as constant filters are used."""
    images = _shape(op)[0]
    return images if isinstance(images, int) else 1


def _shape(value: ir.Value | Op) -> tuple[Dim, ...]:
    return type_of(value.operation.results[0] if isinstance(value, Op) else value).shape


def _known(*dims: Dim) -> bool:
    return all(isinstance(d, int) and d > 0 for d in dims)


def _is_plain(op: Op) -> bool:
    """A channels-last convolution of 3 x 3 adjacent pixels whose sizes are known, except for the number of images."""
    if not isinstance(op, Conv) or op.layout != "last" or op.dtype is not None:
        return False
    if op.strides != (1, 1) or op.dilations != (1, 1) or type_of(op.x).dtype not in TILES:
        return False
    sizes = (*_shape(op.x)[1:], *_shape(op.weight), *_shape(op)[1:])
    return _shape(op.weight)[:2] == (TAPS, TAPS) and _known(*sizes) and all(isinstance(d, int) for d in op.low)


def _has_pairs(op: Op) -> bool:
    """True if a group's channels of a pixel are pairs."""
    channels = _shape(op.weight)[-2]
    return isinstance(channels, int) and channels % 2 == 0


def _transforms(x: ir.Value) -> Transforms:
    return transforms(TILES[type_of(x).dtype])


def _convolution(op: Op, env: Environment) -> ir.Value:
    images, down, along, _ = _shape(op)
    by, dtype = _transforms(op.x), type_of(op.x).dtype
    tiles = counts((down, along), by.tile)
    attrs: dict[str, Any] = {"dtype": "float32"} if dtype == "bfloat16" else {}
    if dtype == "bfloat16":  # `pack` makes panels of pairs
        filter, columns = ops.cast(_filter(_by_group(unrounded(op.weight), op.groups), by), dtype=dtype), None
    else:
        filter, columns = _evaluated(op.weight, op.groups, images * product(tiles), env)
    pixels = _pixels(op.x, op.low, tiles)
    if op.groups > 1:
        points, count, channels = type_of(pixels).shape
        pixels = ops.reshape(pixels, shape=(points, count, op.groups, floordiv(channels, op.groups)))
    batch = (0, 2) if op.groups > 1 else (0,)
    attrs |= {"lhs_batch": batch, "lhs_contract": (len(batch) + 1,)}
    if columns is None:
        matmuls = ops.dot_general(
            pixels, filter, rhs_batch=tuple(range(len(batch))), rhs_contract=(len(batch),), **attrs
        )
    else:
        matmuls = ops.packed_dot(pixels, filter, columns=columns, **attrs)
    if op.groups > 1:
        points, groups, count, outputs = type_of(matmuls).shape
        matmuls = ops.reshape(ops.transpose(matmuls, permutation=(0, 2, 1, 3)), shape=(points, count, groups * outputs))
    joined = ops.join_tiles(matmuls, matrix=flat(by.results), size=by.tile, batch=images, sizes=(down, along))
    return joined if type_of(joined).dtype == dtype else ops.cast(joined, dtype=dtype)


def _pixels(x: ir.Value, low: tuple[int, ...], tiles: tuple[int, ...]) -> ir.Value:
    """Vectors hold channels of a pixel, which are read several times: they are stored next to each other."""
    by = _transforms(x)
    attrs = {"matrix": flat(by.pixels), "size": by.count, "step": by.tile, "low": low, "tiles": tiles}
    return ops.split_tiles(stored(x), spare=_spare(x, tiles, by.count**2), **attrs)


SET_BYTES, LINE_BYTES = 4096, 64
"""Addresses that differ by a multiple of SET_BYTES share a set of a first-level cache, because its sets are found by the bits of
an address within a page. It has lines of LINE_BYTES."""

MOST_IN_SET = 8
"""The most points of a tile in one set: common first-level caches have 8 to 12 lines in a set."""

SPARE = 4
"""The most tiles of zeros."""


def _spare(x: ir.Value, tiles: tuple[int, ...], points: int) -> int:
    """The fewest tiles of zeros behind the others that spread the points of a tile over sets of the cache. There are none if the
    distance between points is known only at run time, or a vector is a whole line.

    A transform writes neighbouring elements of one point after the other. A vector of bfloat16 is half a line, which would be
    evicted in between."""
    images, channels = _shape(x)[0], _shape(x)[-1]
    if not isinstance(images, int) or not isinstance(channels, int) or type_of(x).dtype != "bfloat16":
        return 0
    count, bytes_ = images * product(tiles), channels * type_of(x).element_bytes

    def in_one_set(spare: int) -> int:
        sets = Counter(point * (count + spare) * bytes_ % SET_BYTES // LINE_BYTES for point in range(points))
        return max(sets.values())

    return min(range(SPARE + 1), key=lambda spare: (max(MOST_IN_SET, in_one_set(spare)), spare))


def _by_group(weight: ir.Value, groups: int) -> ir.Value:
    """[3, 3, channels of a group, outputs] -> [3, 3, groups, channels, outputs of a group]; unchanged for one group."""
    if groups == 1:
        return weight
    channels, outputs = _shape(weight)[2:]
    weight = ops.reshape(weight, shape=(TAPS, TAPS, channels, groups, floordiv(outputs, groups)))
    return ops.transpose(weight, permutation=(0, 1, 3, 2, 4))


def _evaluated(weight: ir.Value, groups: int, tiles: Dim, env: Environment) -> tuple[ir.Value, int | None]:
    """A filter [3, 3, channels of a group, outputs] in the Winograd domain, packed in panels (`pack`) if these are full for so
    many tiles; and the number of a group's columns in panels."""
    by, read = _transforms(weight), _by_group(weight, groups)
    *batch, channels, outputs = _shape(read)
    assert isinstance(outputs, int)
    matmul = PackedMatmul(tiles, outputs, channels, type_of(weight).dtype, node=current_node())
    width = 0 if env.backend is None else env.backend.layouts.panel_width(matmul)
    if not width or outputs % width:
        return _filter(read, by), None
    rank = len(batch)
    panels = ops.reshape(read, shape=(*batch, channels, outputs // width, width))
    panels = ops.transpose(panels, permutation=(*range(rank), rank + 1, rank, rank + 2))
    return _filter(panels, by), outputs


def _filter(weight: ir.Value, by: Transforms) -> ir.Value:
    """[3, 3, ..] -> [points, ..]"""
    weight = ops.reshape(weight, shape=(1, *_shape(weight)))
    points = ops.split_tiles(weight, matrix=flat(by.filter), size=TAPS, step=TAPS, low=(0, 0), tiles=(1, 1))
    shape = type_of(points).shape
    return ops.reshape(points, shape=(shape[0], *shape[2:]))


def _gradient_of(op: Op) -> tuple[ir.Value, tuple[int, ...]] | None:
    """Recognises a filter's gradient: returns the images and their zero padding if the op sums, over images and pixels,
    the elements under each tap times the results' gradient."""
    if not isinstance(op, DotGeneral) or op.dtype is not None or op.lhs_batch:
        return None
    under = is_named(op.lhs, "windows")
    if under is None or op.lhs_contract != (0, 1, 2) or op.rhs_contract != (0, 1, 2):
        return None
    if under.axis != 1 or under.window != (TAPS, TAPS) or under.strides != (1, 1) or under.dilations != (1, 1):
        return None
    x, low = under.x, (0, 0)
    if type_of(x).rank != 4 or type_of(op.rhs).rank != 4 or type_of(x).dtype not in ("float32", "float64"):
        return None
    pad = is_named(x, "pad")
    if (
        pad is not None
        and splat(pad.value) == 0
        and not any((*pad.interior, *(p[a] for p in (pad.low, pad.high) for a in (0, 3))))
    ):
        x, low = pad.x, pad.low[1:3]
    return (x, low) if _known(*_shape(x)[1:], *_shape(op.rhs)[1:]) else None


def _gradient(op: Op, x: ir.Value, low: tuple[int, ...]) -> ir.Value:
    _, down, along, outputs = _shape(op.rhs)
    channels, by = _shape(x)[-1], _transforms(x)
    tiles = counts((down, along), by.tile)
    transformed = ops.split_tiles(
        op.rhs, matrix=flat(transposed(by.results)), size=by.tile, step=by.tile, low=(0, 0), tiles=tiles
    )
    matmuls = ops.dot_general(
        _pixels(x, low, tiles), transformed, lhs_batch=(0,), rhs_batch=(0,), lhs_contract=(1,), rhs_contract=(1,)
    )
    matmuls = ops.reshape(matmuls, shape=(by.count**2, 1, channels, outputs))
    taps = ops.join_tiles(matmuls, matrix=flat(transposed(by.filter)), size=TAPS, batch=1, sizes=(TAPS, TAPS))
    return ops.reshape(taps, shape=(TAPS, TAPS, channels, outputs))
