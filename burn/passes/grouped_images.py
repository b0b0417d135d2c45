"""Grouped convolutions whose image and result are channels-first, as matmuls that read the image as it is.

`layout` copies such an image to channels-last. The channels of a group are then a part of each pixel: with many groups a kernel
reads a cache line of every page. In a channels-first image each group is contiguous in memory. A matmul of sliding windows reads
it in place, and its result has an image for each group, which is transposed by itself.

Convolutions must be channels-last already (`layout`), and those that are faster in the Winograd domain are gone (`winograd`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.contraction import Conv
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import context, ir
from burn.dialect.pointwise import Pointwise
from burn.dialect.program import Program
from burn.dialect.query import erase_dead, op_of
from burn.dialect.shape import Transpose
from burn.dialect.types import type_of
from burn.kernels.preferences import GroupedConvolution, Preferences
from burn.passes.constants import Constants
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.layout import to_first, to_last
from burn.passes.pipeline import register
from burn.passes.replace import replace_ops

DTYPES = ("float32", "float64")
"""Narrower numbers are multiplied in pairs along the depth, which a channels-last image has contiguous."""


@register
@dataclass(frozen=True)
class GroupedImages:
    """For convolutions between transposes that the target prefers so (`Preferences.grouped_images`)."""

    name: ClassVar[str] = "grouped_images"

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        constant = Constants()
        count = replace_ops(program, Transpose, lambda op: _rewritten(op, constant, env.preferences))
        with context():
            erase_dead(program.block)
        return {"grouped images": count}


def _rewritten(op: Transpose, constant: Constants, preferences: Preferences) -> ir.Value | None:
    """op: the transpose of the result."""
    if op.permutation != to_first(len(op.permutation)):
        return None
    epilogue: list[Pointwise] = []
    conv = _convolution(op.x, epilogue)
    before = None if conv is None else op_of(conv.x)
    if conv is None or not isinstance(before, Transpose) or before.permutation != to_last(len(op.permutation)):
        return None
    if not constant(conv.weight) or _readers(before.operation.results[0]) > 1 or not _is_preferred(conv, preferences):
        return None
    with op.operation.location, ir.InsertionPoint(op.operation):
        return _built(conv, before.x, epilogue)


def _convolution(value: ir.Value, epilogue: list[Pointwise]) -> Conv | None:
    """The convolution whose result, after pointwise ops with numbers and with elements for each channel, is `value`. Nothing else
    reads the values between them. The pointwise ops are added to `epilogue`."""
    op = op_of(value)
    while isinstance(op, Pointwise) and _readers(value) == 1:
        images = {v for v in op.operation.operands if not _is_vector(v)}
        if len(images) != 1:
            return None
        epilogue.insert(0, op)
        value = images.pop()
        op = op_of(value)
    return op if isinstance(op, Conv) and _readers(value) == 1 else None


def _readers(value: ir.Value) -> int:
    return len({use.owner.operation for use in value.uses})


def _is_vector(value: ir.Value) -> bool:
    """True for a number, or elements along the last axis alone."""
    return all(d == 1 for d in type_of(value).shape[:-1])


def _is_preferred(op: Conv, preferences: Preferences) -> bool:
    *window, inputs, outputs = type_of(op.weight).shape
    x, made = type_of(op.x), type_of(op.operation.results[0])
    numbers = isinstance(inputs, int) and isinstance(outputs, int) and all(isinstance(k, int) for k in window)
    if preferences.grouped_images is None or not numbers or op.groups == 1 or op.layout != "last":
        return False
    if not x.dtype == made.dtype == type_of(op.weight).dtype or x.dtype not in DTYPES or op.fill:
        return False
    assert isinstance(inputs, int) and isinstance(outputs, int)
    grouped = GroupedConvolution(op.groups, inputs, outputs // op.groups, tuple(window), x.dtype, made.dtype)
    return preferences.grouped_images(grouped, x.elements)


def _built(op: Conv, image: ir.Value, epilogue: Sequence[Pointwise]) -> ir.Value:
    """The result after the epilogue, channels-first. image: channels-first."""
    *window, inputs, outputs = type_of(op.weight).shape
    groups, rank = op.groups, len(window)
    within = outputs // groups
    if any(pad != 0 for pad in (*op.low, *op.high)):
        zero = ops.full(shape=(), dtype=type_of(image).dtype, value=0.0)
        none = (0,) * (rank + 2)
        image = ops.pad(image, zero, low=(0, 0, *op.low), high=(0, 0, *op.high), interior=none)
    batch, _, *sizes = type_of(image).shape
    image = ops.reshape(image, shape=(batch, groups, inputs, *sizes))
    image = ops.transpose(image, permutation=(1, 0, *range(3, rank + 3), 2))
    options = {"strides": op.strides, "dilations": op.dilations}
    windows = ops.windows(image, axis=2, window=tuple(window), **options)
    weight = ops.reshape(op.weight, shape=(*window, inputs, groups, within))
    weight = ops.transpose(weight, permutation=(rank + 1, *range(rank + 1), rank + 2))
    depth = range(rank + 1)
    made = ops.dot_general(
        windows,
        weight,
        lhs_batch=(0,),
        rhs_batch=(0,),
        lhs_contract=tuple(2 + rank + axis for axis in depth),
        rhs_contract=tuple(1 + axis for axis in depth),
    )
    replaced = {op.operation.results[0]: made}
    for each in epilogue:
        operands = (replaced[v] if v in replaced else _of_groups(v, op, within) for v in each.operation.operands)
        replaced[each.operation.results[0]] = made = type(each).build(*operands, **each.attrs)
    _, batch, *sizes, _ = type_of(made).shape
    made = ops.transpose(made, permutation=(1, 0, rank + 2, *range(2, rank + 2)))
    return ops.reshape(made, shape=(batch, outputs, *sizes))


def _of_groups(value: ir.Value, op: Conv, outputs: Dim) -> ir.Value:
    """An operand of the epilogue, beside results [groups, N, d.., outputs of a group]."""
    is_number = product(type_of(value).shape) == 1
    ones = (1,) * (len(op.strides) + 1)
    return ops.reshape(value, shape=() if is_number else (op.groups, *ones, outputs))
