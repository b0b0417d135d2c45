"""Resampling of images: torch's upsample operators, all of them `burn.resize`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect import ops
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten

_OVERLOADS = ("default", "vec")


def _names(*operators: str) -> tuple[str, ...]:
    return tuple(f"{name}.{overload}" for name in operators for overload in _OVERLOADS)


def resample(node: Node, x: ir.Value, factors: Sequence[float | None], **options: Any) -> ir.Value:
    """To the sizes that torch gives; a factor, where the caller gave one, says how far apart the samples are."""
    n = len(node.shape) - 2
    known = tuple(float(f) for f in factors if isinstance(f, (int, float)) and f > 0)
    if options["transformation"] == "align_corners":  # the corners decide how far apart the samples are
        known = ()
    return ops.resize(
        x, axes=tuple(range(2, n + 2)), sizes=node.shape[2:], factors=known if len(known) == n else (), **options
    )


def _factors(node: Node, rest: Sequence[Any]) -> list[float | None]:
    """The overload with a list has it last, or None; the other has one number an axis."""
    if node.op.endswith(".vec"):
        return list(rest[-1] or ())
    return list(rest)


@aten(*_names(*(f"upsample_nearest{n}d" for n in (1, 2, 3))))
def nearest(node: Node, x: ir.Value, size: Any, *rest: Any) -> ir.Value:
    return resample(node, x, _factors(node, rest), mode="nearest", transformation="asymmetric", rounding="floor")


@aten(*_names(*(f"_upsample_nearest_exact{n}d" for n in (1, 2, 3))))
def nearest_exact(node: Node, x: ir.Value, size: Any, *rest: Any) -> ir.Value:
    return resample(
        node, x, _factors(node, rest), mode="nearest", transformation="half_pixel", rounding="round_prefer_ceil"
    )


@aten(*_names("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"))
def smooth(node: Node, x: ir.Value, size: Any, align_corners: bool, *rest: Any) -> ir.Value:
    mode = "cubic" if "cubic" in node.op else "linear"
    return resample(node, x, _factors(node, rest), mode=mode, transformation=_corners(align_corners))


@aten(*_names("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"))
def smooth_antialias(node: Node, x: ir.Value, size: Any, align_corners: bool, *rest: Any) -> ir.Value:
    """Corners that are aligned change torch's scale here, not the centres."""
    mode = "linear" if "bilinear" in node.op else "cubic"
    factors = aligned(node, type_of(x).shape[2:], node.shape[2:]) if align_corners else _factors(node, rest)
    return resample(node, x, factors, mode=mode, **antialiased(mode))


def antialiased(mode: str) -> dict[str, Any]:
    """The options of a filter that widens where an image shrinks. The cubic one is a = -0.5, as in PIL."""
    options: dict[str, Any] = {"transformation": "half_pixel", "antialias": True, "exclude_outside": True}
    return options | {"cubic_a": -0.5} if mode == "cubic" else options


def aligned(node: Node, sizes: Sequence[Dim], wanted: Sequence[Dim]) -> list[float | None]:
    """How many times further apart the samples of the operand are than the result's."""
    factors: list[float | None] = []
    for have, want in zip(sizes, wanted, strict=True):
        if not isinstance(have, int) or not isinstance(want, int) or (want == 1) != (have == 1):
            node.fail("aligned corners with antialiasing need sizes that are known and more than 1")
        factors.append((want - 1) / (have - 1) if have > 1 else 1.0)
    return factors


def _corners(align: bool) -> str:
    return "align_corners" if align else "half_pixel"
