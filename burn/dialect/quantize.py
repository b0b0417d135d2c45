"""Quantisation: numbers as small integers or small floats with a scale and a zero point. Composites.

The scale and the zero point have one of three granularities, by their shape: per tensor, per index of `axis`, or per
block of `block` neighbours along `axis`.
"""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import along, check_equal, convert, number, reshape
from burn.dialect.dims import Dim, ceildiv
from burn.dialect.mlir import ir
from burn.dialect.op import DTypeName, Op, Operand, normalize_axis
from burn.dialect.types import DTYPES, FLOATS, TensorType, may_equal, type_of


def check_parameters(
    cls: type[Op], x: TensorType, scale: TensorType, zero: TensorType | None, axis: int, block: int
) -> None:
    """Raises unless the shapes of the scale and the zero point have one of the three granularities for x."""
    if block < 0:
        cls.fail(f"a block of {block} elements", "block")
    if zero is not None and zero.shape != scale.shape and not (_is_single(zero) and _is_single(scale)):
        cls.fail(f"the zero point {zero} must have the scale's shape, {scale}")
    if _is_single(scale):
        return
    axis = normalize_axis(cls, axis, x.rank)
    expected = _expected(x, axis, block)
    if not may_equal(scale.shape, expected):
        cls.fail(f"the scale must have shape [{', '.join(map(str, expected))}] or one element, not {scale}", "axis")


def _expected(x: TensorType, axis: int, block: int) -> tuple[Dim, ...]:
    """The shape of a scale that is not per tensor."""
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    return (*before, ceildiv(x.shape[axis], block), *after) if block else (x.shape[axis],)


def _is_single(parameter: TensorType) -> bool:
    return parameter.shape in ((), (1,))


def spread(parameter: ir.Value, x: TensorType, axis: int, block: int) -> ir.Value:
    """A scale or zero point in a shape that broadcasts with x."""
    type_ = type_of(parameter)
    if _is_single(type_):
        return reshape(parameter, ())
    axis %= x.rank
    shape = _expected(x, axis, block)
    check_equal(type_.shape, shape, "there is one scale for each element or block of the axis")
    parameter = reshape(parameter, shape)
    if not block:
        return along(parameter, axis, x.rank)
    before, after = shape[:axis], shape[axis + 1 :]
    blocks = shape[axis]
    repeated = ops.broadcast_to(
        ops.reshape(parameter, shape=(*before, blocks, 1, *after)), shape=(*before, blocks, block, *after)
    )
    whole = ops.reshape(repeated, shape=(*before, blocks * block, *after))
    if blocks * block == x.shape[axis]:
        return whole
    sizes: tuple[Dim, ...] = (*before, x.shape[axis], *after)
    return ops.slice(whole, starts=(0,) * x.rank, sizes=sizes, steps=(1,) * x.rank)


class Quantize(Op, name="quantize"):
    """round(x / scale) + zero, clamped to `dtype`'s range. Shapes: x [...], scale and zero [], [1], [d] or [.., ceil(d
    / block), ..] -> [...], of `dtype`.

    The quotient is computed in `precision`, or in x's type if the scale has that type, otherwise in float32. Ties round
    to even. Small floats are rounded like in Cast. Source: ONNX QuantizeLinear.
    """

    x: Operand
    scale: Operand
    zero: Operand | None
    dtype: DTypeName
    axis: int = 1
    block: int = 0
    saturate: bool = True
    precision: DTypeName | None = None

    @classmethod
    def infer(cls, x, scale, zero, dtype, axis, block, saturate, precision) -> TensorType:
        check_parameters(cls, x, scale, zero, axis, block)
        if DTYPES[dtype].kind not in ("int", "uint", "small"):
            cls.fail(f"does not quantise to {dtype}", "dtype")
        return x.with_dtype(dtype)

    @classmethod
    def decompose(cls, x, scale, zero, dtype, axis, block, saturate, precision) -> ir.Value:
        type_ = type_of(x)
        working = precision or (type_.dtype if type_.dtype in FLOATS else "float32")
        if precision is None and type_of(scale).dtype not in (type_.dtype, working):
            working = "float32"
        quotient = ops.div(convert(x, working), convert(spread(scale, type_, axis, block), working))
        zero = None if zero is None else spread(zero, type_, axis, block)
        if DTYPES[dtype].kind == "small":
            if zero is not None and DTYPES[dtype].bits < 8:
                quotient = ops.add(convert(quotient, "float32"), convert(zero, "float32"))
            return ops.cast(quotient, dtype=dtype, saturate=saturate)
        # The bounds are integers, so clamping before rounding gives the same. Then rounding and conversion to an integer are one
        # instruction. float32 holds all values of 16-bit and narrower types.
        wide = "float64" if working == "float64" else "float32"
        low, high = (number(bound, wide) for bound in integer_range(dtype))
        if zero is not None:
            offset = convert(zero, wide)
            low, high = ops.sub(low, offset), ops.sub(high, offset)
        steps = ops.round(ops.min(ops.max(convert(quotient, wide), low), high))
        if zero is None:
            return ops.cast(steps, dtype=dtype)
        return ops.cast(ops.add(ops.cast(steps, dtype="int32"), convert(zero, "int32")), dtype=dtype)


def integer_range(dtype: str) -> tuple[int, int]:
    kind, bits = DTYPES[dtype].kind, DTYPES[dtype].bits
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if kind == "int" else (0, 2**bits - 1)


class Dequantize(Op, name="dequantize"):
    """(x - zero) * scale in `dtype`. Shapes: x [...], scale and zero [], [1], [d] or [.., ceil(d / block), ..] ->
    [...]. It multiplies in float32. Source: ONNX DequantizeLinear."""

    x: Operand
    scale: Operand
    zero: Operand | None
    dtype: DTypeName
    axis: int = 1
    block: int = 0

    @classmethod
    def infer(cls, x, scale, zero, dtype, axis, block) -> TensorType:
        check_parameters(cls, x, scale, zero, axis, block)
        if DTYPES[x.dtype].kind not in ("int", "uint", "small") or dtype not in FLOATS:
            cls.fail(f"does not dequantise {x.dtype} to {dtype}", "dtype")
        if zero is not None and zero.dtype != x.dtype:
            cls.fail(f"the zero point must be {x.dtype}, not {zero.dtype}")
        return x.with_dtype(dtype)

    @classmethod
    def decompose(cls, x, scale, zero, dtype, axis, block) -> ir.Value:
        type_ = type_of(x)
        scale = convert(spread(scale, type_, axis, block), "float32")
        if zero is not None and DTYPES[type_.dtype].kind != "small":
            zero = spread(zero, type_, axis, block)
            # the difference of two 32-bit integers is exact as an integer, not as a float32
            x = ops.sub(convert(x, "int32"), convert(zero, "int32"))
        return convert(ops.mul(convert(x, "float32"), scale), dtype)
