"""Pads the rows of attention's masks, so that each row starts at an aligned address.

A relative position bias of 197 keys in half precision has rows at odd addresses, and a GPU then reads two bytes at a time.
It does so for every sequence of a batch, three times in a training step. The padded mask is written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.attention import Attention
from burn.dialect.attention_gradient import AttentionBackward, AttentionForward
from burn.dialect.dims import Dim, product
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks, splat
from burn.dialect.types import DTYPES, type_of
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register

WORD = 16
"""Bytes that a GPU thread reads at once; rows aligned to them stay unpadded."""

UNIT = 16
"""Padded rows are a multiple of this many elements; see `ROOM` of burn/codegen/triton/attention_base.py."""


@register
@dataclass(frozen=True)
class AlignMasks:
    """For targets with kernels of attention. least: masks that fewer sequences and heads read stay as they are."""

    name: ClassVar[str] = "align_masks"
    least: int = 4

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        """Returns the number of attentions whose mask is padded."""
        found = 0
        with context():
            for block in blocks(program.block):
                padded: dict[ir.Value, ir.Value] = {}
                for operation in list(block.operations):
                    op = operation.opview
                    if isinstance(op, Attention | AttentionForward | AttentionBackward) and self._pays(op):
                        _align(op, padded)
                        found += 1
        return {"padded": found}

    def _pays(self, op: Op) -> bool:
        """True if a mask with rows of a known, unaligned length is read often. A mask that is a number has no rows."""
        if op.mask is None or splat(op.mask) is not None:
            return False
        mask, (batch, heads, rows, _), keys = type_of(op.mask), type_of(op.q).shape, type_of(op.k).shape[2]
        if mask.shape[-1] != keys or not isinstance(keys, int) or keys * DTYPES[mask.dtype].size % WORD == 0:
            return False
        elements, scores = product(mask.shape), product([batch, heads, rows, keys])
        if not isinstance(elements, int) or not isinstance(scores, int):
            return False
        return mask.rank > 1 and mask.shape[-2] == rows != 1 and scores >= self.least * elements


def _align(op: Op, padded: dict[ir.Value, ir.Value]) -> None:
    mask = op.mask
    with op.operation.location:
        if mask not in padded:
            with ir.InsertionPoint(op.operation):
                padded[mask] = _first(_with_room(mask), type_of(mask).shape)
        number = next(i for i, operand in enumerate(op.operation.operands) if operand == mask)
        op.operation.operands[number] = padded[mask]


def _with_room(value: ir.Value) -> ir.Value:
    type_ = type_of(value)
    zero = ops.full(value=0, shape=(), dtype=type_.dtype)
    none = (0,) * (type_.rank - 1)
    return ops.pad(value, zero, low=(*none, 0), high=(*none, _room(type_.shape[-1])))


def _room(length: Dim) -> int:
    assert isinstance(length, int)
    return -length % UNIT


def _first(value: ir.Value, shape: tuple[Dim, ...]) -> ir.Value:
    """The first elements along each axis."""
    return ops.slice(value, starts=(0,) * len(shape), sizes=shape, steps=(1,) * len(shape))
