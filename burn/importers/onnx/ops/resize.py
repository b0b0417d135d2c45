"""Resize and Upsample: where the result's sizes come from, and which axes change. `burn.resize` does the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, number, reshape
from burn.dialect.dims import Dim, floordiv
from burn.dialect.mlir import ir
from burn.dialect.resize import element
from burn.dialect.types import type_of
from burn.importers.onnx.node import Node, onnx_op

POLICIES = {"not_larger": ("min", ops.min), "not_smaller": ("max", ops.max)}

TRIED = 2**16
"""Sizes for which a fraction must give the same result as a float scale."""

SIMPLE = 1000
"""The largest denominator of a fraction that a scale may have been written as."""


@dataclass
class Plan:
    """The resized axes: their sizes, and scales as numbers, as a tensor, or neither (then the sizes give them)."""

    axes: list[int]
    sizes: list[Dim]
    factors: list[float] | None = None
    scales: ir.Value | None = None


@onnx_op("Resize")
def resize(node: Node) -> ir.Value:
    if node.opset < 11:
        return resample(node, scaled(node, 1), _legacy(node))
    transformation = node.string("coordinate_transformation_mode", "half_pixel")
    options = {
        "mode": node.string("mode", "nearest"),
        "transformation": transformation,
        "rounding": node.string("nearest_mode", "round_prefer_floor"),
        "cubic_a": node.float("cubic_coeff_a", -0.75),
        "exclude_outside": node.int("exclude_outside", 0) == 1,
        "antialias": node.int("antialias", 0) == 1,
        "extrapolation": node.float("extrapolation_value", 0.0),
    }
    with_sizes = node.has_input(3) and node.type(3).shape != (0,)
    with_scales = node.has_input(2) and node.type(2).shape != (0,)
    if not with_sizes or not with_scales:
        node.no_effect(3 if with_scales else 2, because="opsets 10 to 12 write a left-out one as an empty tensor")
    if with_sizes == with_scales:
        node.fail("needs either scales or sizes, and not both")
    if transformation != "tf_crop_and_resize":
        node.no_effect(1, because="only tf_crop_and_resize has a region")
    if not with_sizes:
        node.no_effect("keep_aspect_ratio_policy", because="it chooses between sizes")
    plan = sized(node) if with_sizes else scaled(node, 2)
    if transformation == "align_corners" and not options["antialias"]:
        # corners on corners: the sizes say how far apart the elements are, as in ONNX Runtime, OpenVINO and torch, also
        # where size times scale is no whole number
        plan = Plan(plan.axes, plan.sizes)
    return resample(node, plan, options, roi=node.required(1) if transformation == "tf_crop_and_resize" else None)


@onnx_op("Upsample")
def upsample(node: Node) -> ir.Value:
    plan = _scaled_image(node) if node.opset < 7 else scaled(node, 1)
    return resample(node, plan, _legacy(node))


def _scaled_image(node: Node) -> Plan:
    """Scales of opset 1, for the last two axes."""
    factors, shape = [node.float("height_scale"), node.float("width_scale")], node.type(0).shape
    axes = [len(shape) - 2, len(shape) - 1]
    sizes = [_scaled_size(node, shape[axis], factor) for axis, factor in zip(axes, factors, strict=True)]
    return Plan(axes, sizes, factors=factors)


def _legacy(node: Node) -> dict[str, Any]:
    """Upsample and the first Resize: every result element comes from y / scale, rounded down."""
    mode = node.string("mode", "nearest")
    if mode in ("bilinear", "trilinear"):
        mode = "linear"
    return {"mode": mode, "transformation": "asymmetric", "rounding": "floor"}


def resized_axes(node: Node) -> list[int]:
    rank = node.type(0).rank
    return list(node.axes(node.ints("axes", range(rank)), rank))


def scaled(node: Node, index: int) -> Plan:
    """Sizes from scales: floor(size * scale), multiplied in float32 as in ONNX Runtime and torch (10 * 0.7 is 7)."""
    axes, shape = resized_axes(node), node.type(0).shape
    if node.has("scales"):
        factors: Sequence[float] | None = [float(f) for f in node.floats("scales")]
    else:
        array = node.constant(index)
        factors = None if array is None else [float(f) for f in array.astype(np.float64)]
    if factors is None:
        scales = node.required(index)
        sizes: list[Dim] = []
        for i, axis in enumerate(axes):
            sizes.append(_read_size(node, convert(element(scales, i), "float32"), shape[axis]))
        return Plan(axes, sizes, scales=scales)
    if len(factors) != len(axes) or not all(f > 0 and np.isfinite(f) for f in factors):
        node.fail(f"scales {list(factors)} must be {len(axes)} positive numbers")
    sizes = [_scaled_size(node, shape[axis], factor) for axis, factor in zip(axes, factors, strict=True)]
    return Plan(axes, sizes, factors=list(factors))


def _read_size(node: Node, scale: ir.Value, size: Dim) -> Dim:
    width = ops.floor(ops.mul(scale, dim_value(size, "float32")))
    return node.read_dim(ops.cast(width, dtype="int64"), hint="resized")


def _scaled_size(node: Node, size: Dim, factor: float) -> Dim:
    """floor(size * factor) in float32. Of a size that varies the quotient by a fraction that gives the same, for all sizes up to
    `TRIED`; where there is none the program multiplies."""
    if isinstance(size, int):
        return int(np.floor(np.float32(size) * np.float32(factor)))
    tried = np.arange(TRIED)
    wanted = np.floor(tried.astype(np.float32) * np.float32(factor)).astype(np.int64)
    for exact in (Fraction(factor).limit_denominator(SIMPLE), Fraction(factor)):
        if np.float32(float(exact)) == np.float32(factor):
            high, low = exact.numerator, exact.denominator
            if high < 2**40 and np.array_equal(tried * high // low, wanted):
                return floordiv(size * high, low)
    return _read_size(node, number(factor, "float32"), size)


def sized(node: Node) -> Plan:
    """The sizes are given; a policy may make one scale of them that keeps the aspect ratio."""
    axes, shape = resized_axes(node), node.type(0).shape
    sizes = list(node.read_dims(3))
    if len(sizes) != len(axes):
        node.fail(f"gives {len(sizes)} sizes for {len(axes)} axes")
    policy = node.string("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return Plan(axes, sizes)
    if policy not in POLICIES:
        node.fail(f"'{policy}' is none of stretch, {', '.join(POLICIES)}", "keep_aspect_ratio_policy")
    name, pick = POLICIES[policy]
    pairs = [(size, shape[axis]) for size, axis in zip(sizes, axes, strict=True)]
    if all(isinstance(d, int) and d > 0 for pair in pairs for d in pair):
        ratios = [Fraction(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
        ratio = min(ratios) if name == "min" else max(ratios)
        rounded = [int(ratio * b + Fraction(1, 2)) for _, b in pairs if isinstance(b, int)]
        return Plan(axes, list(rounded), factors=[float(ratio)] * len(axes))
    scale = None
    for have, want in ((b, a) for a, b in pairs):
        one = ops.div(dim_value(want, "float64"), dim_value(have, "float64"))
        scale = one if scale is None else pick(scale, one)
    assert scale is not None
    rounded = []
    for _, have in pairs:
        width = ops.add(ops.mul(scale, dim_value(have, "float64")), number(0.5, "float64"))
        rounded.append(node.read_dim(ops.cast(width, dtype="int64"), hint="resized"))
    scales = ops.broadcast_to(reshape(scale, (1,)), shape=(len(axes),))
    return Plan(axes, rounded, scales=scales)


def resample(node: Node, plan: Plan, options: dict[str, Any], roi: ir.Value | None = None) -> ir.Value:
    """The composite, for the axes that change."""
    x = node.required(0)
    if plan.scales is None and roi is None:
        shape = type_of(x).shape
        factors = plan.factors or [1.0] * len(plan.axes)
        kept = [i for i, axis in enumerate(plan.axes) if plan.sizes[i] != shape[axis] or factors[i] != 1.0]
        plan = Plan(
            [plan.axes[i] for i in kept],
            [plan.sizes[i] for i in kept],
            None if plan.factors is None else [plan.factors[i] for i in kept],
        )
        if not kept:
            return x
    scales = None if plan.scales is None else convert(plan.scales, "float64")
    return ops.resize(
        x, scales, roi, axes=tuple(plan.axes), sizes=tuple(plan.sizes), factors=tuple(plan.factors or ()), **options
    )
