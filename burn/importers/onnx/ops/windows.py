"""Attributes of sliding windows: strides, dilations, and padding, explicit or from `auto_pad`, which looks at sizes that may be
symbolic."""

from __future__ import annotations

from collections.abc import Sequence

from burn.dialect.dims import Dim, ceildiv, dim_max
from burn.importers.onnx.node import Node


def padding(
    node: Node, dims: Sequence[Dim], window: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[list[Dim], list[Dim]]:
    """Pads before and after each spatial axis."""
    n = len(dims)
    auto = node.string("auto_pad", "NOTSET")
    if auto == "NOTSET":
        pads = node.ints("pads", None) or (0,) * (2 * n)
        if len(pads) != 2 * n or min(pads) < 0:
            node.fail(f"{list(pads)} are not pads of {n} spatial axes", "pads")
        return list(pads[:n]), list(pads[n:])
    node.no_effect("pads", because="auto_pad decides")
    if auto == "VALID":
        return [0] * n, [0] * n
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        node.fail(f"'{auto}' is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER", "auto_pad")
    low: list[Dim] = []
    high: list[Dim] = []
    for d, k, s, t in zip(dims, window, strides, dilations, strict=True):
        total = dim_max(0, (ceildiv(d, s) - 1) * s + (k - 1) * t + 1 - d)
        half = total // 2
        low.append(half if auto == "SAME_UPPER" else total - half)
        high.append(total - half if auto == "SAME_UPPER" else half)
    return low, high


def window_options(node: Node, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """strides, dilations, pads (before, then after) of `rank` spatial axes."""
    values = []
    for name, count, default in (("strides", rank, 1), ("dilations", rank, 1), ("pads", 2 * rank, 0)):
        given = node.ints(name, None) or (default,) * count
        if len(given) != count or min(given) < (1 if default else 0):
            node.fail(f"{list(given)} does not fit {rank} spatial axes", name)
        values.append(given)
    return values[0], values[1], values[2]
