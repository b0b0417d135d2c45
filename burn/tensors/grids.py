"""Sampling of images at the points of a grid, and grids of affine transforms: spatial transformers (arXiv:1506.02025)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burn.dialect import sampling
from burn.dialect.dims import Dim
from burn.dialect.sampling import PADDINGS
from burn.dialect.types import FLOATS
from burn.errors import TypeMismatch
from burn.tensors.base import made
from burn.tensors.creation import checked_shape
from burn.tensors.promotion import constant
from burn.tensors.tensor import Tensor

MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


def grid_sample(
    x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """Images x [n, c, d..] at the points of grid [n, e.., k]: [n, c, e..]. Coordinates are in [-1, 1], the last axis first. They
    are the outer pixels' centres if align_corners, else their borders. mode: "bilinear" (linear along every axis), "nearest" or
    "bicubic" (of two axes). padding_mode, for points outside: "zeros", "border" or "reflection". Raises TypeMismatch for
    others."""
    images, points = constant(x), constant(grid)
    if mode not in MODES or padding_mode not in PADDINGS:
        problem = f"mode is one of {', '.join(MODES)}, padding_mode of {', '.join(PADDINGS)}"
        raise TypeMismatch("there is no such grid_sample", [problem, f"not {mode!r}, {padding_mode!r}"])
    spatial = images.ndim - 2
    if spatial < 1 or points.ndim != images.ndim or points.type.shape[-1] != spatial or points.dtype not in FLOATS:
        raise TypeMismatch("grid_sample takes a coordinate for each spatial axis", [f"{points.type} for {images.type}"])
    if mode == "bicubic" and spatial != 2:
        raise TypeMismatch("bicubic sampling is of two spatial axes", [f"not of {images.type}"])
    return made(sampling.sample_grid(images.value, points.value, MODES[mode], padding_mode, align_corners))


def affine_grid(theta: Any, size: Sequence[Dim], align_corners: bool = False) -> Tensor:
    """The grid for `grid_sample` of affine transforms theta [n, k, k + 1]: [n, d.., k], for images of size [n, c, d..] with k
    spatial axes. Raises TypeMismatch for shapes that do not fit."""
    transforms = constant(theta)._floating()
    sizes = checked_shape(tuple(size))
    k = len(sizes) - 2
    if k < 1 or transforms.ndim != 3 or transforms.type.shape[1:] != (k, k + 1):
        raise TypeMismatch(
            "affine_grid takes a matrix [k, k + 1] for each image", [f"{transforms.type} for {list(size)}"]
        )
    return made(sampling.affine_points(transforms.value, sizes[2:], align_corners))
