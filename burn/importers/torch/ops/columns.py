"""Patches of images as columns (`F.unfold`), and their sum (`F.fold`)."""

from __future__ import annotations

from burn.dialect.compose import reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.patches import folded, unfolded
from burn.dialect.types import type_of
from burn.importers.torch.node import Node, aten
from burn.importers.torch.ops.contract import each


@aten("im2col.default")
def im2col(
    node: Node, x: ir.Value, kernel: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> ir.Value:
    """x [n, c, h, w], or without the n -> [n, c * kernel.., patches]."""
    shape = type_of(x).shape
    x = reshape(x, (1, *shape)) if len(shape) == 3 else x
    found = unfolded(x, each(kernel, 2), each(stride, 2), each(dilation, 2), each(padding, 2))
    return reshape(found, type_of(found).shape[1:]) if len(shape) == 3 else found


@aten("col2im.default")
def col2im(
    node: Node,
    x: ir.Value,
    image: list[Dim],
    kernel: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> ir.Value:
    """x [n, c * kernel.., patches], or without the n -> [n, c, *image]."""
    shape = type_of(x).shape
    x = reshape(x, (1, *shape)) if len(shape) == 2 else x
    pads = each(padding, 2)
    found = folded(x, image, each(kernel, 2), each(stride, 2), each(dilation, 2), pads, pads)
    return reshape(found, type_of(found).shape[1:]) if len(shape) == 2 else found
