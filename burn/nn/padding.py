"""Padding of the last axes: zeros, a number, the edge repeated, or the tensor mirrored or repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from burn.errors import TypeMismatch
from burn.nn.spatial import Spatial
from burn.tensors import Tensor

MODES = {"zeros": "constant", "constant": "constant", "replicate": "edge", "reflect": "reflect", "circular": "wrap"}
"""torch's name of a mode -> numpy's."""


def pad(x: Tensor, low: Sequence[int], high: Sequence[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Adds `low` rows before and `high` rows after the last axes; negative numbers crop. Raises TypeMismatch."""
    if mode not in MODES:
        raise TypeMismatch(f"there is no padding mode '{mode}'", [f"there are {', '.join(MODES)}"])
    first = x.ndim - len(low)
    if first < 0:
        raise TypeMismatch(f"{len(low)} axes are to be padded", [f"{x.type} has fewer"])
    if any(p < 0 for p in (*low, *high)):
        kept = [slice(max(-a, 0), d - max(-b, 0)) for a, b, d in zip(low, high, x.shape[first:], strict=True)]
        x = x[(slice(None),) * first + tuple(kept)]
    widths = [(0, 0)] * first + [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    for size, (before, after) in zip(x.shape, widths, strict=True):
        least = {"reflect": max(before, after) + 1, "circular": max(before, after)}.get(mode, 0)
        if isinstance(size, int) and size < least:  # as in torch; numpy would mirror repeatedly
            raise TypeMismatch(
                f"{mode} padding by {before} and {after} needs {least} elements", [f"{x.type} has {size}"]
            )
    return x.pad(widths, MODES[mode], value) if any(map(any, widths)) else x


class _Pad(Spatial):
    """Pads the last axes. padding: one number for all borders, or, as in torch, (before, after) of the last axis, then of the one
    before it, ... Shapes: x [.., d..] -> [.., before + d + after ..]."""

    MODE: ClassVar[str]

    def __init__(self, padding: int | Sequence[int]) -> None:
        sides = (padding,) * (2 * self.AXES) if isinstance(padding, int) else tuple(padding)
        if len(sides) != 2 * self.AXES:
            raise TypeMismatch(f"{type(self).__name__} takes {2 * self.AXES} pads", [f"not {len(sides)}"])
        self.low, self.high = sides[::2][::-1], sides[1::2][::-1]

    def forward(self, x: Tensor) -> Tensor:
        return pad(x, self.low, self.high, self.MODE)

    def extra_repr(self) -> str:
        return f"low={self.low}, high={self.high}"


class _ConstantPad(_Pad):
    """Pads the last axes with a number; `padding` as in the other paddings."""

    MODE = "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        return pad(x, self.low, self.high, self.MODE, self.value)


def _family(name: str, base: type[_Pad], mode: str, what: str) -> list[type[_Pad]]:
    doc = f"The last {{}} padded with {what}. {base.__doc__}"
    axes = {1: "axis", 2: "two axes", 3: "three axes"}
    return [
        type(f"{name}{n}d", (base,), {"__doc__": doc.format(axes[n]), "__module__": __name__, "AXES": n, "MODE": mode})
        for n in axes
    ]


ZeroPad1d, ZeroPad2d, ZeroPad3d = _family("ZeroPad", _Pad, "zeros", "zeros")
ConstantPad1d, ConstantPad2d, ConstantPad3d = _family("ConstantPad", _ConstantPad, "constant", "a number")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _family("ReflectionPad", _Pad, "reflect", "their mirror image")
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _family("ReplicationPad", _Pad, "replicate", "their edge")
CircularPad1d, CircularPad2d, CircularPad3d = _family("CircularPad", _Pad, "circular", "their other end")
