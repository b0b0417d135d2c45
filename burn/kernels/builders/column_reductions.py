"""Column reductions of values computed row by row, for example the gradients of a norm's parameters.

The kernel processes the rows in blocks, accumulates each column over a block and stores it once. A second kernel
combines the blocks in a fixed order. If the target does not prefer that, the rows' reductions are stored, and a kernel
over the columns reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from burn.dialect.control import Group
from burn.dialect.dims import Dim, Expr, LoopVar, ceildiv, dim_max, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.types import type_of
from burn.kernels.body import ColumnReduction, Load, LoopKernel, Reduced, Reduction, Rewriter, Stage, Write
from burn.kernels.builders.builder import Builder, Call, accumulate_type, convert, loop_index, with_used_buffers
from burn.kernels.builders.rows import Rows, reduced_axes, reduction_of, uses
from burn.kernels.lower import linear
from burn.kernels.preferences import Preferences


def column_reductions(
    group: Group, anchors: Sequence[Op], across: Sequence[Op], preferences: Preferences
) -> list[Call]:
    """`anchors` reduce the trailing axes, `across` the leading ones."""
    return _ColumnReductions(group, anchors, across, preferences).calls()


class _ColumnReductions:
    def __init__(self, group: Group, anchors: Sequence[Op], across: Sequence[Op], preferences: Preferences) -> None:
        self.group, self.across, self.preferences = group, across, preferences
        space = type_of(across[0].x).shape
        down = {a % len(space) for a in reduced_axes(across[0])}
        self.rows = Rows(Builder(group), space, set(range(len(space))) - down, anchors, keep_rows=False)
        self.columns = [number for number, value in enumerate(group.yielded) if self._is_of_columns(value)]
        self.rows.write(number for number in range(len(group.yielded)) if number not in self.columns)
        self.length = product([v.extent for v in self.rows.inner])

    def _is_of_columns(self, value: ir.Value) -> bool:
        """True if a result depends on the column reductions, or has the shape of one."""
        rows, shape = self.rows, type_of(value).shape
        ones = tuple(1 if i in rows.axes else d for i, d in enumerate(rows.space))
        of_rows = shape in (rows.space, ones, tuple(v.extent for v in rows.kept))
        return not of_rows or any(uses(value, op.operation.results[0]) for op in self.across)

    def calls(self) -> list[Call]:
        return self._in_blocks() if self.preferences.column_reduction_width else self._separate()

    def _reductions(self) -> list[Reduction]:
        rows = self.rows
        bodies = (rows.builder.low.at(op.x, rows.full) for op in self.across)
        return [
            reduction_of(op, f"c{i}", body, ())[0] for i, (op, body) in enumerate(zip(self.across, bodies, strict=True))
        ]

    def _in_blocks(self) -> list[Call]:
        rows, builder = self.rows, self.rows.builder
        count = product([v.extent for v in rows.kept])
        block = dim_max(
            self.preferences.column_reduction_rows, ceildiv(count, self.preferences.column_reduction_blocks)
        )
        blocks = ceildiv(count, block)
        reductions = self._reductions()
        summed = tuple(
            ColumnReduction(rows.inner, r, builder.shared(number, r.dtype, blocks * self.length, "write"))
            for number, r in enumerate(reductions)
        )
        first = builder.call(lambda buffers: LoopKernel(rows.kept, tuple(rows.stages), buffers, summed, block))
        flat = LoopVar("block", blocks)
        return [first, self._combined(reductions, blocks, flat)]

    def _combined(self, reductions: Sequence[Reduction], blocks: Dim, flat: LoopVar) -> Call:
        """The combined blocks, and the results derived from them."""
        inner, builder = self.rows.inner, Builder(self.group)
        here = linear((Expr.of(flat), *loop_index(inner)), (blocks, *(v.extent for v in inner)))
        joined = [
            replace(r, body=builder.low.load(builder.shared(number, r.dtype, blocks * self.length, "read"), here))
            for number, r in enumerate(reductions)
        ]
        stages = (Stage((flat,), tuple(joined)), self._last(builder))
        return builder.call(lambda buffers: LoopKernel(inner, stages, buffers))

    def _last(self, builder: Builder) -> Stage:
        """Writes the results that are derived from the columns' sums."""
        for number, op in enumerate(self.across):
            dtype = type_of(op.x).dtype
            out = convert(Reduced(accumulate_type(dtype), f"c{number}"), dtype)
            builder.low.define(op.operation.results[0], lambda index, out=out: out)
        writes = []
        inner = loop_index(self.rows.inner)
        offset = linear(inner, [v.extent for v in self.rows.inner])
        for number in self.columns:
            value = self.group.yielded[number]
            index = (0,) * (type_of(value).rank - len(inner)) + inner
            writes.append(Write(builder.out(number), offset, builder.low.at(value, index)))
        return Stage((), (), tuple(writes))

    def _separate(self) -> list[Call]:
        """A row kernel that stores its reductions, then a column kernel that reads them."""
        rows, builder = self.rows, self.rows.builder
        reductions = self._reductions()
        count, here = (
            product([v.extent for v in rows.kept]),
            linear(loop_index(rows.kept), [v.extent for v in rows.kept]),
        )
        made = [r for s in rows.stages for r in s.reductions]
        held = {r.name: builder.shared(number, r.dtype, count, "write") for number, r in enumerate(made)}
        handed = tuple(Write(held[r.name], here, Reduced(r.dtype, r.name)) for r in made)
        stages = (*rows.stages, Stage((), (), handed))
        last = self._last(builder)
        read = Rewriter(
            lambda d: d,
            lambda node: Load(node.dtype, held[node.name], here) if isinstance(node, Reduced) else node,
        )
        columns = (Stage(rows.kept, tuple(replace(r, body=read(r.body)) for r in reductions)), last)
        call = builder.call(lambda buffers: LoopKernel(rows.kept, stages, buffers))
        buffers = tuple(
            replace(b, access="read") if n in held.values() else b for n, b in enumerate(call.kernel.buffers)
        )
        return [
            with_used_buffers(call.kernel, call.bindings),
            with_used_buffers(LoopKernel(rows.inner, columns, buffers), call.bindings),
        ]
