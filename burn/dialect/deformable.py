"""Deformable convolutions: ONNX DeformConv and torchvision's deform_conv2d. A composite; enter at `deformed`."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, part, reshape, transpose, wide
from burn.dialect.dims import Dim, floordiv, product
from burn.dialect.mlir import ir
from burn.dialect.sampling import sample
from burn.dialect.types import type_of


def deformed(
    x: ir.Value,
    weight: ir.Value,
    offset: ir.Value,
    mask: ir.Value | None,
    bias: ir.Value | None,
    strides: Sequence[Dim],
    pads: Sequence[Dim],
    dilations: Sequence[Dim],
    groups: Dim,
    shares: Dim,
) -> ir.Value:
    """A convolution that reads each tap of its kernel at a position of its own (arXiv:1703.06211), scaled by the mask
    (arXiv:1811.11168).

    Shapes: x [n, c, d..], weight [out, c / groups, k..], offset [n, shares * k.. * rank, e..], mask [n, shares * k..,
    e..], bias [out] -> [n, out, e..]. offset: the offset of each tap along every axis, in pixels. pads: padding at the
    start of each axis. shares: the number of channel groups that share offsets. Positions between pixels are
    interpolated; x is zero-padded.
    """
    (batch, channels, *_), (outputs, _, *kernel) = type_of(x).shape, type_of(weight).shape
    rank, sizes = len(kernel), type_of(offset).shape[2:]
    working = wide(type_of(x).dtype)
    taps, pixels = product(kernel), product(sizes)
    grid = (*kernel, *sizes)
    moved = reshape(convert(offset, working), (batch * shares, *kernel, rank, *sizes))
    positions = []
    for axis in range(rank):
        at_kernel = ops.mul(ops.iota(shape=grid, axis=axis), dim_value(dilations[axis]))
        at_window = ops.mul(ops.iota(shape=grid, axis=rank + axis), dim_value(strides[axis]))
        base = ops.sub(ops.add(at_kernel, at_window), dim_value(pads[axis]))
        own = reshape(part(moved, 1 + rank, axis, 1), (batch * shares, *grid))
        positions.append(reshape(ops.add(ops.cast(base, dtype=working), own), (batch * shares, taps * pixels)))
    split = reshape(x, (batch * shares, floordiv(channels, shares), *type_of(x).shape[2:]))
    values = sample(split, positions, "linear", "zeros", True, working)
    if mask is not None:
        values = ops.mul(values, reshape(convert(mask, working), (batch * shares, 1, taps * pixels)))
    depth = floordiv(channels, groups) * taps
    columns = reshape(convert(values, type_of(x).dtype), (batch, groups, depth, pixels))
    rows = reshape(weight, (groups, floordiv(outputs, groups), depth))
    out = ops.dot_general(rows, columns, lhs_batch=(0,), rhs_batch=(1,), lhs_contract=(2,), rhs_contract=(2,))
    out = reshape(transpose(out, (2, 0, 1, 3)), (batch, outputs, *sizes))
    return out if bias is None else ops.add(out, reshape(bias, (outputs, *(1,) * rank)))
