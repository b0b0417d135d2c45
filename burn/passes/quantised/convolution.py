"""Convolutions of bytes, accumulated in int32, or in float32 if that is exact."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.compose import along, convert, reshape
from burn.dialect.contraction import Conv
from burn.dialect.dims import product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import splat
from burn.dialect.types import type_of
from burn.kernels.layouts import Convolution
from burn.kernels.preferences import Preferences
from burn.passes.quantised.operands import Bytes, is_zero, zero_or_0
from burn.passes.winograd_matrices import TAPS


class IntegerConvolution:
    """A convolution, channels first, with a constant weight. It cannot sum the pixels under a sliding window, so its
    weight must have no zero point."""

    def __init__(self, op: Op, left: Bytes, right: Bytes) -> None:
        self.op = op
        w = type_of(op.weight)
        self.rank = w.rank
        alone = right.is_single or right.axis % w.rank == 0
        self.columns = w.shape[0] if alone and op.layout == "first" and w.is_static and 0 not in w.shape else None
        self.depth = product(w.shape[1:])

    def _fill(self, x: Bytes) -> float | None:
        """The value of padding: the zero point, or the convolution's own fill if its bytes have none."""
        return float(self.op.fill or 0) if x.zero is None else splat(x.zero)

    def fits(self, x: Bytes, w: Bytes, run: int) -> bool:
        """True if kernels of bytes compute the convolution. run: depth elements of a byte instruction."""
        channels = type_of(self.op.weight).shape[1]
        whole = self.op.groups == 1 or (isinstance(channels, int) and channels % run == 0)
        padded = any(p != 0 for p in (*self.op.low, *self.op.high))
        fill, least = self._fill(x), -128 if type_of(x.value).dtype == "int8" else 0
        return whole and is_zero(w.zero) and (not padded or (fill is not None and least <= fill < least + 256))

    def fits_floats(self, x: Bytes, w: Bytes) -> bool:
        """True for a depthwise convolution if float32 has all sums exactly."""
        padded = any(p != 0 for p in (*self.op.low, *self.op.high))
        depth = self.depth
        depthwise = self.op.groups > 1 and type_of(self.op.weight).shape[1] == 1
        largest = 255 * (128 if type_of(w.value).dtype == "int8" else 255)
        exact = depthwise and isinstance(depth, int) and 0 < depth * largest < 2**24
        return exact and is_zero(w.zero) and not (padded and self._fill(x) is None)

    def in_floats(self, x: Bytes, w: Bytes) -> ir.Value:
        """The convolution of the bytes of x, accumulated in float32."""
        fill = self._fill(x)
        return ops.conv(
            x.value,
            convert(w.value, "float32"),
            **(self.op.attrs | {"dtype": "float32", "fill": int(fill) if fill else None}),
        )

    def multiplied(self, x: Bytes, w: Bytes) -> ir.Value:
        """The convolution of bytes, accumulated in int32."""
        fill = self._fill(x)
        return ops.conv(x.value, w.value, **(self.op.attrs | {"dtype": "int32", "fill": int(fill) if fill else None}))

    def across(self, parameter: ir.Value) -> ir.Value:
        """A parameter of the weight, broadcast along the channels of the result."""
        return reshape(parameter, ()) if type_of(parameter).elements == 1 else along(parameter, 1, self.rank)

    def excess(self, x: Bytes, w: Bytes) -> ir.Value:
        """The correction for the zero point of x."""
        sums = ops.reduce(convert(w.value, "int32"), kind="sum", axes=tuple(range(1, self.rank)))
        return ops.mul(reshape(zero_or_0(x.zero), ()), self.across(sums))


def gains_as_floats(op: Conv, preferences: Preferences) -> bool:
    """True if a convolution of dequantised bytes stays one, for the pass `winograd`."""
    as_floats = preferences.bytes_as_floats
    if as_floats is None or op.strides != (1, 1) or op.dilations != (1, 1) or op.fill:
        return False
    y, (outputs, channels, *window) = type_of(op.operation.results[0]), type_of(op.weight).shape
    images, _, *sizes = y.shape
    known = all(isinstance(d, int) and d > 0 for d in (*type_of(op.x).shape[1:], *sizes))
    whole = known and all(isinstance(d, int) for d in op.low)
    if window != [TAPS, TAPS] or y.dtype != "float32" or not whole:
        return False
    return as_floats(Convolution(images, tuple(sizes), channels, outputs, "float32", True, False, op.groups))
