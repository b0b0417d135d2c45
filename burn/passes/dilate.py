"""Transposed depthwise convolutions, such as the input's gradient of a strided one, as convolutions of a dilated input.

The general decomposition has a convolution for each phase of the stride and adds their dilated results, which moves each element
several times. A kernel of sliding windows unrolls the phases and skips the zeros between the input's elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from burn.dialect import ops
from burn.dialect.compose import number_like, reshape, transpose
from burn.dialect.convolution import ConvTranspose
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.types import type_of
from burn.kernels.builders.matrix import MIN_GROUP_CHANNELS
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register
from burn.passes.replace import replace_ops


@register
@dataclass(frozen=True)
class Dilate:
    """For targets with kernels of sliding windows. Other transposed convolutions stay."""

    name: ClassVar[str] = "dilate"

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        return {"dilated": replace_ops(program, ConvTranspose, _dilated)}


def _dilated(op: Op) -> ir.Value | None:
    """The convolution; None if groups have many channels, the stride is 1 (which has no phases), or ends are cropped."""
    inputs, _, *kernel = type_of(op.weight).shape
    groups, n = op.groups, len(kernel)
    if groups == 1 or not isinstance(inputs, int) or inputs // groups >= MIN_GROUP_CHANNELS or set(op.strides) == {1}:
        return None
    rows = list(zip(kernel, op.dilations, op.low, op.high, op.extra, strict=True))
    low: list[Dim] = [(k - 1) * t - p for k, t, p, _, _ in rows]
    high: list[Dim] = [(k - 1) * t - q + e for k, t, _, q, e in rows]
    if not all(isinstance(k, int) for k in kernel) or any(not isinstance(d, int) or d < 0 for d in (*low, *high)):
        return None
    with op.operation.location, ir.InsertionPoint(op.operation):
        gaps = (0, 0, *(s - 1 for s in op.strides))
        none = (0,) * (n + 2)
        x = ops.pad(op.x, number_like(0, op.x), low=none, high=none, interior=gaps)
        options: dict[str, Any] = {"low": tuple(low), "high": tuple(high), "groups": groups, "dilations": op.dilations}
        return ops.conv(x, _mirrored(op.weight, groups), strides=(1,) * n, **options)


def _mirrored(weight: ir.Value, groups: int) -> ir.Value:
    """The kernel in reverse order, inputs and outputs exchanged: [C, O/g, k..] -> [O, C/g, k..]."""
    inputs, outputs, *kernel = type_of(weight).shape
    n = len(kernel)
    assert isinstance(inputs, int)
    starts = (0, 0, *(k - 1 if isinstance(k, int) else 0 for k in kernel))
    turned = ops.slice(weight, starts=starts, sizes=(inputs, outputs, *kernel), steps=(1, 1, *(-1,) * n))
    swapped = transpose(reshape(turned, (groups, inputs // groups, outputs, *kernel)), (0, 2, 1, *range(3, n + 3)))
    return reshape(swapped, (outputs * groups, inputs // groups, *kernel))
