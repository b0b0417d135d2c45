"""Contractions whose rhs the pass `pack` laid out for matrix kernels: one family, whose members have an `Encoding`.

A packed op is its logical op with another layout of the rhs. Only fusion, memory planning and kernel builders see them: laws,
differentiation and exporters deal with logical ops.
"""

from __future__ import annotations

from burn.dialect.blocks import BlockDot
from burn.dialect.contraction import Conv, DotGeneral
from burn.dialect.dims import Dim, product
from burn.dialect.encoding import Encoding
from burn.dialect.op import Agreement, Op, Operand
from burn.dialect.reduction import windows_fit
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, type_of

FRAGMENT_COLUMNS = 16
"""Columns of a weight in fragments (`PackedBlockDot`) that a warp multiplies at once."""

FRAGMENT_BYTES = 32
"""Bytes of each column that it multiplies at once."""


class Packed(
    Op, traits=Trait.CONTRACTION | Trait.PACKED, kernel="contract", batching="operands are packed after tracing"
):
    """The family. Every member has the attribute `columns`; `interleaved` is 1 for members without it."""

    columns: int
    interleaved: int = 1

    @property
    def encoding(self) -> Encoding:
        return Encoding(self.columns, self.interleaved)


class PackedDot(Packed, name="packed_dot", traits=Trait.REPEATABLE, shown_as="dot_general"):
    """`dot_general` with a packed rhs.

    Shapes: lhs [...], rhs [batch.., panels, k.., width] or interleaved (`Encoding`) -> [batch.., the rest of lhs.., columns]. The
    axes lhs_batch and lhs_contract of lhs meet the batch and depth axes of rhs in order. dtype, sums: as for `dot_general`."""

    lhs: Operand
    rhs: Operand
    columns: int
    lhs_batch: tuple[int, ...] = ()
    lhs_contract: tuple[int, ...] = ()
    dtype: str | None = None
    sums: str | None = None
    interleaved: int = 1

    @classmethod
    def infer(
        cls, lhs: TensorType, rhs: TensorType, columns, lhs_batch, lhs_contract, dtype, sums, interleaved
    ) -> TensorType:
        batch, depth = len(lhs_batch), len(lhs_contract)
        if rhs.rank != batch + 1 + depth + (1 if interleaved == 1 else 2):
            cls.fail(f"rhs {rhs} has not the panels of {batch} batch axes and {depth} depth axes")
        logical = rhs.with_shape(Encoding(columns, interleaved).logical(rhs.shape, batch))
        axes = tuple(range(batch)), tuple(range(batch, batch + depth))
        return DotGeneral.infer(lhs, logical, lhs_batch, axes[0], lhs_contract, axes[1], dtype, sums)

    def must_agree(self) -> list[Agreement]:
        lhs, rhs, batch = type_of(self.lhs).shape, type_of(self.rhs).shape, len(self.lhs_batch)
        theirs = (*rhs[:batch], *self.encoding.depth(rhs, batch))
        return [Agreement(lhs[a], n) for a, n in zip((*self.lhs_batch, *self.lhs_contract), theirs, strict=True)]

    def flops(self) -> Dim:
        depth = product([type_of(self.lhs).shape[a] for a in self.lhs_contract])
        return type_of(self.operation.results[0]).elements * depth * 2


class PackedConv(Packed, name="packed_conv", traits=Trait.REPEATABLE, shown_as="conv"):
    """`conv` of the layout "last" with a packed weight.

    Shapes: x [N, d.., C], weight [groups, panels, k.., C / groups, width] or interleaved (`Encoding`) -> [N, e.., columns]. Each
    group has the panels of its own output channels. The other attributes are those of `conv`."""

    x: Operand
    weight: Operand
    columns: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    groups: int = 1
    dtype: str | None = None
    interleaved: int = 1
    fill: int | None = None

    @classmethod
    def infer(cls, x, weight, columns, strides, dilations, low, high, groups, dtype, interleaved, fill) -> TensorType:
        logical = weight.with_shape(Encoding(columns, interleaved).logical(weight.shape, 1)[1:])
        return Conv.infer(x, logical, strides, dilations, low, high, groups, "last", dtype, fill)

    def must_agree(self) -> list[Agreement]:
        x, depth = type_of(self.x).shape, self.encoding.depth(type_of(self.weight).shape, 1)
        fit = windows_fit(x[1:-1], depth[:-1], self.dilations, self.low, self.high)
        return [Agreement(x[-1], depth[-1] * self.groups), *fit]

    def flops(self) -> Dim:
        taps = product(self.encoding.depth(type_of(self.weight).shape, 1))
        return type_of(self.operation.results[0]).elements * taps * 2


class PackedBlockDot(Packed, name="packed_block_dot", shown_as="block_dot"):
    """`block_dot` with a packed weight.

    Shapes: x [.., blocks * block], weight uint8[panels, blocks, block * bits / 32, width, 4], scale and zero
    [panels, blocks, width] -> [.., columns]. The weight holds words of adjacent depth elements, with the highest bit of each
    number inverted: two's complement. 2^(bits - 1) is subtracted from `zero`.

    In fragments of tensor cores (`burn.passes.block_fragments`) the weight is uint8[tiles, chunks, 8, 4, 4, 4]. Scale and zero
    are [tiles, blocks, 8, 2]."""

    x: Operand
    weight: Operand
    scale: Operand
    zero: Operand | None
    columns: int
    bits: int
    block: int

    @classmethod
    def infer(cls, x: TensorType, weight: TensorType, scale, zero, columns: int, bits: int, block: int) -> TensorType:
        BlockDot.check_operands(x, weight, scale, zero, bits, block)
        if (weight.rank, scale.rank) not in ((5, 3), (6, 4)):
            cls.fail(
                f"the weight must be uint8[panels, blocks, words, width, 4] with scales [panels, blocks, width], or uint8[tiles, "
                f"chunks, 8, 4, 4, 4] with scales [tiles, blocks, 8, 2], not {weight} with scales {scale}"
            )
        return x.with_shape((*x.shape[:-1], columns))

    def flops(self) -> Dim:
        return type_of(self.operation.results[0]).elements * type_of(self.x).shape[-1] * 2
