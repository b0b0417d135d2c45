"""Resampling along axes: nearest, linear and cubic interpolation in every variant of ONNX Resize. A composite.

Resampling is separable, so `Resize.decompose` processes one axis after another. The table `SOURCES` maps an axis'
coordinates to the source, and `FILTERS` weights the neighbours. Coordinates are float64: a float32 coordinate can fall
on the wrong side of a rounding tie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burn.dialect import ops
from burn.dialect.batching.rules import leading
from burn.dialect.compose import along, convert, dim_value, number, number_like
from burn.dialect.dims import Dim, ceildiv
from burn.dialect.mlir import ir
from burn.dialect.op import Op, Operand, normalize_axis
from burn.dialect.quantize import integer_range
from burn.dialect.types import DTYPES, FLOATS, TensorType, is_symbolic, type_of

Scalar = float | ir.Value
"""A number known at build time, or a float64 scalar of the program."""


@dataclass
class Axis:
    """One resampled axis: its old and new number of elements, the scale, and the visible part."""

    size: Dim
    result: Dim
    scale: Scalar
    width: Scalar  # the result's exact width, before it was rounded to a number of elements
    start: Scalar = 0.0
    end: Scalar = 1.0

    @property
    def last(self) -> Scalar:
        return minus(known(self.size), 1.0)


def known(dim: Dim) -> Scalar:
    return float(dim) if isinstance(dim, int) else dim_value(dim, "float64")


def value(x: Scalar) -> ir.Value:
    return number(x, "float64") if isinstance(x, float) else x


def plus(a: Scalar, b: Scalar) -> Scalar:
    return a + b if isinstance(a, float) and isinstance(b, float) else ops.add(value(a), value(b))


def minus(a: Scalar, b: Scalar) -> Scalar:
    return a - b if isinstance(a, float) and isinstance(b, float) else ops.sub(value(a), value(b))


def times(a: Scalar, b: Scalar) -> Scalar:
    return a * b if isinstance(a, float) and isinstance(b, float) else ops.mul(value(a), value(b))


def over(a: Scalar, b: Scalar) -> Scalar:
    if isinstance(a, float) and isinstance(b, float) and b:
        return a / b
    return ops.div(value(a), value(b))


def unless_one(width: Scalar, single: Scalar, other: Callable[[], Scalar]) -> Scalar:
    """`single` if the result is one element wide."""
    if isinstance(width, float):
        return single if width == 1.0 else other()
    return ops.select(ops.eq(width, number(1.0, "float64")), value(single), value(other()))


def _spread(y: ir.Value, axis: Axis) -> Scalar:
    return unless_one(axis.width, 0.0, lambda: over(times(y, axis.last), minus(axis.width, 1.0)))


def _centres(y: ir.Value, axis: Axis) -> Scalar:
    return minus(over(plus(y, 0.5), axis.scale), 0.5)


def _crop(y: ir.Value, axis: Axis) -> Scalar:
    span = times(minus(axis.end, axis.start), axis.last)
    middle = over(span, 2.0)
    return plus(
        unless_one(axis.width, middle, lambda: over(times(y, span), minus(axis.width, 1.0))),
        times(axis.start, axis.last),
    )


def _symmetric(y: ir.Value, axis: Axis) -> Scalar:
    adjustment = over(known(axis.result), axis.width)
    offset = times(over(known(axis.size), 2.0), minus(1.0, adjustment))
    return plus(offset, _centres(y, axis))


SOURCES: dict[str, Callable[[ir.Value, Axis], Scalar]] = {
    "half_pixel": _centres,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda y, axis: unless_one(axis.width, -0.5, lambda: _centres(y, axis)),
    "align_corners": _spread,
    "asymmetric": lambda y, axis: over(y, axis.scale),
    "tf_crop_and_resize": _crop,
    "tf_half_pixel_for_nn": lambda y, axis: over(plus(y, 0.5), axis.scale),
}
"""Coordinate transformation -> the operand's coordinate of result element y."""

NEAREST: dict[str, Callable[[ir.Value], ir.Value]] = {
    "round_prefer_floor": lambda s: ops.ceil(ops.sub(s, number(0.5, "float64"))),
    "round_prefer_ceil": lambda s: ops.floor(ops.add(s, number(0.5, "float64"))),
    "floor": lambda s: ops.floor(s),
    "ceil": lambda s: ops.ceil(s),
}


def polynomial(x: ir.Value, *coefficients: float) -> ir.Value:
    """Horner's method, the highest power first."""
    total = number_like(coefficients[0], x)
    for c in coefficients[1:]:
        total = ops.add(ops.mul(total, x), number_like(c, x))
    return total


def _triangle(distance: ir.Value, a: float) -> ir.Value:
    return ops.max(ops.sub(number_like(1.0, distance), distance), number_like(0.0, distance))


def _keys(distance: ir.Value, a: float) -> ir.Value:
    """Keys' cubic convolution kernel (doi 10.1109/TASSP.1981.1163711)."""
    near = polynomial(distance, a + 2.0, -(a + 3.0), 0.0, 1.0)
    far = polynomial(distance, a, -5.0 * a, 8.0 * a, -4.0 * a)
    zero = number_like(0.0, distance)
    outer = ops.select(ops.lt(distance, number_like(2.0, distance)), far, zero)
    return ops.select(ops.le(distance, number_like(1.0, distance)), near, outer)


@dataclass(frozen=True)
class Filter:
    """An interpolation kernel: its weight at a distance, and its radius."""

    weight: Callable[[ir.Value, float], ir.Value]
    reach: int


FILTERS = {"linear": Filter(_triangle, 1), "cubic": Filter(_keys, 2)}


class Resize(Op, name="resize", batching=leading("axes")):
    """Resamples `axes` to `sizes`. Shapes: x [...], scales [n] float, roi [2 n] float (starts, then ends) -> [...] with
    `sizes` at `axes`; n is the number of axes.

    scales are result / operand width, which the sizes only give rounded; without them it is sizes / operand sizes.
    `factors` are the same as an attribute. mode: nearest, linear, cubic. transformation, rounding, cubic_a,
    exclude_outside, antialias and extrapolation are as in ONNX Resize, opset 19. Integers are interpolated in
    float32."""

    x: Operand
    scales: Operand | None
    roi: Operand | None
    axes: tuple[int, ...]
    sizes: tuple[Dim, ...]
    factors: tuple[float, ...] = ()
    mode: str = "nearest"
    transformation: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0

    @classmethod
    def infer(cls, x, scales, roi, axes, sizes, factors, mode, transformation, rounding, **rest) -> TensorType:
        axes = tuple(normalize_axis(cls, a, x.rank, "axes") for a in axes)
        if len(set(axes)) != len(axes) or len(sizes) != len(axes) or len(factors) not in (0, len(axes)):
            cls.fail(f"axes {list(axes)} must be distinct and have one size each", "sizes")
        for name, given, table in (("transformation", transformation, SOURCES), ("rounding", rounding, NEAREST)):
            if given not in table:
                cls.fail(f"'{given}' is none of {', '.join(table)}", name)
        if mode not in ("nearest", *FILTERS):
            cls.fail(f"'{mode}' is none of nearest, {', '.join(FILTERS)}", "mode")
        if (roi is None) == (transformation == "tf_crop_and_resize"):
            cls.fail("tf_crop_and_resize, and nothing else, takes a region of interest", "transformation")
        for operand, length in ((scales, len(axes)), (roi, 2 * len(axes))):
            if operand is not None and (not _holds(operand, length) or operand.dtype not in FLOATS):
                cls.fail(f"scales and roi must be float[{length}], not {operand}")
        if any(isinstance(f, float) and not f > 0 for f in factors):
            cls.fail(f"scales must be positive, not {list(factors)}", "factors")
        shape = list(x.shape)
        for axis, size in zip(axes, sizes, strict=True):
            shape[axis] = size
        return x.with_shape(tuple(shape))

    @classmethod
    def decompose(cls, x, scales, roi, axes, sizes, factors, mode, transformation, rounding, **options) -> ir.Value:
        dtype = type_of(x).dtype
        if mode != "nearest" and DTYPES[dtype].kind != "float":
            x = ops.cast(x, dtype="float32")
        outside = None
        for index, (axis_index, size) in enumerate(zip(axes, sizes, strict=True)):
            shape = type_of(x).shape
            axis_index %= len(shape)
            axis = _axis(shape[axis_index], size, factors[index] if factors else None, scales, index)
            if roi is not None:
                axis.start, axis.end = element(roi, index), element(roi, len(axes) + index)
            y = ops.iota(shape=(size,), axis=0, dtype="float64")
            source = ops.broadcast_to(value(SOURCES[transformation](y, axis)), shape=(size,))
            if transformation == "tf_crop_and_resize":
                beyond = ops.or_(ops.lt(source, number(0.0, "float64")), ops.gt(source, value(axis.last)))
                beyond = along(beyond, axis_index, len(shape))
                outside = beyond if outside is None else ops.or_(outside, beyond)
            if mode == "nearest":
                x = ops.gather(
                    x, _inside(ops.cast(NEAREST[rounding](source), dtype="int64"), shape[axis_index]), axis=axis_index
                )
            elif options["antialias"]:
                x = _filtered(x, axis_index, axis, source, FILTERS[mode], options)
            else:
                x = _interpolated(x, axis_index, axis, source, FILTERS[mode], options)
        if outside is not None:
            x = ops.select(outside, number_like(options["extrapolation"], x), x)
        if type_of(x).dtype != dtype and DTYPES[dtype].kind in ("int", "uint"):  # a cubic kernel overshoots
            low, high = integer_range(dtype)
            x = ops.min(ops.max(x, number_like(low, x)), number_like(high, x))
        return convert(x, dtype)


def _holds(vector: TensorType, length: int) -> bool:
    return vector.rank == 1 and (vector.shape[0] == length or is_symbolic(vector.shape[0]))


def _axis(size: Dim, result: Dim, factor: float | None, scales: ir.Value | None, index: int) -> Axis:
    if factor is None and scales is None:
        return Axis(size, result, over(known(result), known(size)), known(result))
    scale = element(scales, index) if factor is None else factor
    return Axis(size, result, scale, times(scale, known(size)))


def element(vector: ir.Value, index: int) -> ir.Value:
    """vector[index] as a float64 scalar."""
    one = ops.slice(vector, starts=(index,), sizes=(1,), steps=(1,))
    return convert(ops.reshape(one, shape=()), "float64")


def _inside(index: ir.Value, size: Dim) -> ir.Value:
    """An index moved to the nearest one that exists."""
    return ops.max(ops.min(index, dim_value(size - 1)), number(0, "int64"))


def _exists(index: ir.Value, size: Dim) -> ir.Value:
    return ops.and_(ops.ge(index, number(0, "int64")), ops.lt(index, dim_value(size)))


def _interpolated(
    x: ir.Value, axis_index: int, axis: Axis, source: ir.Value, kernel: Filter, options: dict
) -> ir.Value:
    """The weighted sum of the neighbours that the kernel reaches: 2 or 4 gathers."""
    base = ops.floor(source)
    weights, neighbours = [], []
    for offset in range(1 - kernel.reach, kernel.reach + 1):
        position = ops.add(base, number(offset, "float64"))
        index = ops.cast(position, dtype="int64")
        weight = kernel.weight(ops.abs(ops.sub(source, position)), options["cubic_a"])
        if options["exclude_outside"]:
            weight = ops.select(_exists(index, axis.size), weight, number(0.0, "float64"))
        weights.append(weight)
        neighbours.append(_inside(index, axis.size))
    if options["exclude_outside"]:
        total = weights[0]
        for weight in weights[1:]:
            total = ops.add(total, weight)
        weights = [ops.div(weight, total) for weight in weights]
    type_ = type_of(x)
    result = None
    for weight, index in zip(weights, neighbours, strict=True):
        term = ops.mul(
            ops.gather(x, index, axis=axis_index), along(convert(weight, type_.dtype), axis_index, type_.rank)
        )
        result = term if result is None else ops.add(result, term)
    assert result is not None
    return result


def _filtered(x: ir.Value, axis_index: int, axis: Axis, source: ir.Value, kernel: Filter, options: dict) -> ir.Value:
    """Antialiasing: where the axis shrinks the kernel is stretched as much. One matmul with the matrix of all weights,
    since the number of neighbours depends on the scale.

    Beyond its ends the axis is taken to repeat its end elements, so it is lengthened there by all that a kernel
    reaches.
    """
    margin = ceildiv(axis.size * kernel.reach, axis.result) + kernel.reach + 1
    length = axis.size + margin * 2
    neighbour = ops.sub(ops.iota(shape=(1, length), axis=1, dtype="int64"), dim_value(margin))
    distance = ops.sub(ops.cast(neighbour, dtype="float64"), ops.reshape(source, shape=(axis.result, 1)))
    scale = axis.scale if isinstance(axis.scale, float) else ops.min(axis.scale, number(1.0, "float64"))
    stretch = min(scale, 1.0) if isinstance(scale, float) else scale
    weights = kernel.weight(ops.abs(ops.mul(distance, value(stretch))), options["cubic_a"])
    if options["exclude_outside"]:
        weights = ops.select(_exists(neighbour, axis.size), weights, number(0.0, "float64"))
    weights = ops.div(weights, ops.reduce(weights, kind="sum", axes=(1,), keepdims=True))
    extended = ops.gather(x, _inside(ops.reshape(neighbour, shape=(length,)), axis.size), axis=axis_index)
    type_ = type_of(x)
    filtered = ops.dot_general(extended, convert(weights, type_.dtype), lhs_contract=(axis_index,), rhs_contract=(1,))
    rank = type_.rank
    return ops.transpose(filtered, permutation=(*range(axis_index), rank - 1, *range(axis_index, rank - 1)))
