"""Resampling, where runtimes do it as ONNX says: the last two axes of an image. Other uses are decomposed."""

from __future__ import annotations

from typing import Any

import numpy as np

from burn.dialect.types import type_of
from burn.exporters.onnx.emitters import Site, emits

EXACT_MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")


def _whole(op: Any) -> bool:
    type_, attrs = type_of(op.x), op.attrs
    if op.scales is not None or op.roi is not None or attrs["antialias"] or attrs["transformation"] not in EXACT_MODES:
        return False
    if any(float(np.float32(f)) != f for f in attrs["factors"]):
        return False
    if type_.dtype != "float32":
        return False
    image = type_.rank == 4 and {a % 4 for a in attrs["axes"]} <= {2, 3}
    return image and not (attrs["mode"] == "linear" and attrs["exclude_outside"])


@emits("resize", operator="Resize", when=_whole)
def resize(site: Site) -> str:
    """By scales where they are given, else to sizes."""
    attrs = site.attrs
    rank = site.types[0].rank
    by_axis = sorted(zip((a % rank for a in attrs["axes"]), range(len(attrs["axes"])), strict=True))
    order = [i for _, i in by_axis]
    scales, sizes = None, None
    if attrs["factors"]:
        scales = site.graph.literal(np.array([attrs["factors"][i] for i in order], np.float32))
    else:
        sizes = site.vector([attrs["sizes"][i] for i in order])
    return site.node(
        "Resize",
        site.inputs[0],
        None,
        scales,
        sizes,
        axes=[a for a, _ in by_axis],
        mode=attrs["mode"],
        coordinate_transformation_mode=attrs["transformation"],
        nearest_mode=attrs["rounding"] if attrs["mode"] == "nearest" else None,
        cubic_coeff_a=attrs["cubic_a"] if attrs["mode"] == "cubic" else None,
        exclude_outside=1 if attrs["exclude_outside"] else None,
    )
