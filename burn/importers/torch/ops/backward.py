"""Gradients that torch does not take apart: of convolutions, average pools and resampling."""

from __future__ import annotations

from typing import Any

from burn.dialect import ops
from burn.dialect.adjoint.contraction import kernel_gradient, transposed_input_gradient
from burn.dialect.compose import convert, number_like, transpose, wide
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten
from burn.importers.torch.ops.contract import each
from burn.importers.torch.ops.pool import Windows, counts, shares
from burn.importers.torch.ops.resize import aligned, antialiased


@aten("convolution_backward.default")
def convolution_backward(
    node: Node,
    grad: ir.Value,
    x: ir.Value,
    weight: ir.Value,
    bias_sizes: Any,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    wanted: list[bool],
) -> list[Any]:
    """The gradients of the input, the weight and the bias, those that are wanted."""
    n = type_of(weight).rank - 2
    strides, pads, dilations = each(stride, n), each(padding, n), each(dilation, n)
    options = {"strides": strides, "dilations": dilations, "groups": groups}
    results: list[Any] = [None, None, None]
    if wanted[0] and transposed:
        spatial = type_of(x).shape[2:]
        results[0] = transposed_input_gradient(grad, weight, spatial, strides, pads, pads, dilations, groups)
    elif wanted[0]:
        rows = zip(
            type_of(grad).shape[2:],
            strides,
            type_of(weight).shape[2:],
            dilations,
            pads,
            type_of(x).shape[2:],
            strict=True,
        )
        high = tuple((e - 1) * s + (k - 1) * t + 1 - p - d for e, s, k, t, p, d in rows)
        results[0] = ops.conv_transpose(grad, weight, low=pads, high=high, extra=(0,) * n, **options)
    if wanted[1]:
        few, many = (x, grad) if transposed else (grad, x)
        results[1] = kernel_gradient(few, many, type_of(weight).shape[2:], strides, pads, pads, dilations, groups)
    if wanted[2]:
        results[2] = ops.reduce(grad, kind="sum", axes=(0, *range(2, n + 2)))
    return results


@aten(*(f"avg_pool{n}d_backward.default" for n in (2, 3)))
def avg_pool_backward(
    node: Node,
    grad: ir.Value,
    x: ir.Value,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    include_pad: bool,
    divisor: Any,
) -> ir.Value:
    """Every window's share goes to all of its elements: the shares are spread out by the strides and summed over windows."""
    n = int(node.op.split("avg_pool")[1][0])
    dtype = type_of(grad).dtype
    w = Windows(type_of(x), kernel, stride, padding, (1,), ceil, n)
    value = convert(grad, wide(dtype))
    share = ops.div(value, counts(w, include_pad, divisor, type_of(value).dtype))
    zeros = (0,) * w.lead
    low = tuple(k - 1 for k in w.kernel)
    spread = ops.pad(
        share,
        number_like(0, share),
        low=(*zeros, *low),
        high=(*zeros, *low),
        interior=(*zeros, *(s - 1 for s in w.strides)),
    )
    ones = (1,) * type_of(x).rank
    total = ops.window_reduce(
        spread,
        kind="sum",
        window=(*ones[: w.lead], *w.kernel),
        strides=ones,
        dilations=ones,
        low=(0,) * len(ones),
        high=(0,) * len(ones),
    )
    return convert(_cut(total, w), dtype)


def _cut(x: ir.Value, w: Windows) -> ir.Value:
    """The image out of the padded one; what no window reaches has no gradient."""
    shape = type_of(x).shape
    missing = [
        max(0, p + d - s) if isinstance(d, int) and isinstance(s, int) else 0
        for p, d, s in zip(w.low, w.dims, shape[w.lead :], strict=True)
    ]
    if any(missing):
        zeros = (0,) * len(shape)
        x = ops.pad(x, number_like(0, x), low=zeros, high=(*zeros[: w.lead], *missing))
    return ops.slice(x, starts=(*[0] * w.lead, *w.low), sizes=(*shape[: w.lead], *w.dims), steps=(1,) * len(shape))


# ---- resampling is linear: its gradient is a matmul with the transposed matrix of each axis ---------------------------------
_LINEAR = ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d")
_LINEAR += ("_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d")
_LINEAR += ("upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")


@aten(*(f"{name}_backward.default" for name in _LINEAR))
def upsample_backward(node: Node, grad: ir.Value, size: Any, input_size: list[Dim], *rest: Any) -> ir.Value:
    options: dict[str, Any] = {"mode": "nearest", "transformation": "asymmetric", "rounding": "floor"}
    if "exact" in node.op:
        options = {"mode": "nearest", "transformation": "half_pixel", "rounding": "round_prefer_ceil"}
    if "linear" in node.op or "cubic" in node.op:
        align, rest = rest[0], rest[1:]
        transformation = "align_corners" if align else "half_pixel"
        options = {"mode": "cubic" if "cubic" in node.op else "linear", "transformation": transformation}
        if node.op.endswith("_aa_backward.default"):
            rest = tuple(aligned(node, input_size[2:], type_of(grad).shape[2:])) if align else rest
            options |= antialiased(options["mode"])
    dtype = type_of(grad).dtype
    value = convert(grad, wide(dtype))
    for i, d in enumerate(input_size[2:]):
        scale = rest[i] if i < len(rest) else None
        factors = (float(scale),) if isinstance(scale, (int, float)) else ()
        e = type_of(value).shape[2 + i]
        matrix = ops.resize(_identity(d, type_of(value).dtype), axes=(1,), sizes=(e,), factors=factors, **options)
        value = _through(value, matrix, 2 + i)
    return convert(value, dtype)


def _identity(size: Dim, dtype: str) -> ir.Value:
    same = ops.eq(ops.iota(shape=(size, 1), axis=0), ops.iota(shape=(1, size), axis=1))
    return convert(same, dtype)


def _through(x: ir.Value, matrix: ir.Value, axis: int) -> ir.Value:
    """x with an axis of length e replaced by one of length d: a matmul with matrix [d, e]."""
    result = ops.dot_general(x, matrix, lhs_contract=(axis,), rhs_contract=(1,))
    rank = type_of(x).rank
    return transpose(result, (*range(axis), rank - 1, *range(axis, rank - 1)))


@aten("_adaptive_avg_pool2d_backward.default", "_adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool_backward(node: Node, grad: ir.Value, x: ir.Value) -> ir.Value:
    dtype = type_of(grad).dtype
    value = convert(grad, wide(dtype))
    n = int(node.op.split("pool")[1][0])
    lead = type_of(x).rank - n
    for axis in range(lead, lead + n):
        d, wanted = type_of(x).shape[axis], type_of(value).shape[axis]
        if d != wanted:
            matrix = transpose(shares(d, wanted, type_of(value).dtype), (1, 0))
            value = _through(value, matrix, axis)
    return convert(value, dtype)
