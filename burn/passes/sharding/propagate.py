"""Shardings of all values of a program, from those of its inputs and outputs: `propagate`.

Every op relates the axes of its operands and results (`factors.py`). Shardings spread along these relations, forward and
backward, until nothing changes. A value keeps the sharding that it has. Batches spread first, so that activations stay divided by
batch where a parameter is divided along the same mesh axis; then parameters, state and outputs. Source: GSPMD (arXiv 2105.04663).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.types import type_of
from burn.passes.sharding.factors import AxisFactors, Factors
from burn.passes.sharding.grid import Axes, Grid, Names, used, whole
from burn.passes.sharding.rules import factors_of

SWEEPS = 50
"""The most sweeps over the ops; each adds shardings, so few are needed."""


@dataclass
class Shardings:
    """axes: of the values that are divided. early: those that batches divide. fixed: values whose sharding is given. factors: of
    each op, by its position."""

    grid: Grid
    axes: dict[ir.Value, Axes] = field(default_factory=dict)
    early: set[ir.Value] = field(default_factory=set)
    fixed: set[ir.Value] = field(default_factory=set)
    factors: list[Factors | None] = field(default_factory=list)

    def of(self, value: ir.Value) -> Axes:
        found = self.axes.get(value)
        return whole(type_of(value).rank) if found is None else found

    def give(self, value: ir.Value, axes: Axes) -> None:
        self.axes[value] = axes
        self.fixed.add(value)

    def divide(self, value: ir.Value, axis: int, names: Names, early: bool) -> bool:
        """Divides an axis that is whole along mesh axes that divide nothing else of the value; true if something changed."""
        have = self.of(value)
        if value in self.fixed or have[axis] or not used(have).isdisjoint(names):
            return False
        self.axes[value] = (*have[:axis], names, *have[axis + 1 :])
        if early:
            self.early.add(value)
        return True

    def chosen(self, operands: Sequence[ir.Value], results: Sequence[ir.Value], factors: Factors) -> dict[int, Names]:
        """The mesh axes of each factor. Where several factors take one mesh axis, that of a batch wins, then that of the first
        operand."""
        offers: list[tuple[bool, int, int, Names]] = []
        order = 0
        for value, row in self._rows(operands, results, factors):
            axes = self.of(value)
            for axis, factor in enumerate(row):
                if factor is not None and axes[axis]:
                    offers.append((value not in self.early, order, factor, axes[axis]))
                    order += 1
        found: dict[int, Names] = {}
        taken: set[str] = set()
        for _, _, factor, names in sorted(offers):
            if factor in found or not taken.isdisjoint(names) or factors.sizes[factor] % self.grid.count(names):
                continue
            found[factor] = names
            taken |= set(names)
        return found

    def _rows(
        self, operands: Sequence[ir.Value], results: Sequence[ir.Value], factors: Factors
    ) -> list[tuple[ir.Value, AxisFactors]]:
        rows = [*factors.operands, *factors.results]
        return [row for row in zip((*operands, *results), rows, strict=True) if self.axes.get(row[0]) is not None]

    def spread(self, op: Op, factors: Factors) -> bool:
        """Gives the shardings of an op's values to each other; true if something changed."""
        operands, results = list(op.operation.operands), list(op.operation.results)
        found = self.chosen(operands, results, factors)
        if not found:
            return False
        early = any(value in self.early for value in (*operands, *results))
        changed = False
        for number, (value, row) in enumerate(
            zip((*operands, *results), (*factors.operands, *factors.results), strict=True)
        ):
            if number in factors.free:
                continue
            for axis, factor in enumerate(row):
                if factor in found:
                    changed |= self.divide(value, axis, found[factor], early)
        return changed


def propagate(program: Program, grid: Grid, inputs: Sequence[Axes], outputs: Sequence[Axes], batch: int) -> Shardings:
    """batch: how many of the first inputs are of a batch."""
    found = Shardings(grid)
    ops = [operation.opview for operation in program.block.operations][:-1]
    found.factors = [factors_of(op) for op in ops if isinstance(op, Op)]
    values = program.inputs
    for value, axes in zip(values[:batch], inputs[:batch], strict=True):
        found.give(value, axes)
        if used(axes):
            found.early.add(value)
    for value in values[batch:]:
        found.fixed.add(value)
    _settle(found, ops)
    for value, axes in zip(values[batch:], inputs[batch:], strict=True):
        found.give(value, axes)
    for value, axes in zip(program.outputs, outputs, strict=True):
        if value not in found.axes and value not in found.fixed:
            found.give(value, axes)
    _settle(found, ops)
    return found


def _settle(found: Shardings, ops: Sequence[Op]) -> None:
    rows = [(op, factors) for op, factors in zip(ops, found.factors, strict=True) if factors is not None]
    for _ in range(SWEEPS):
        changed = False
        for order in (rows, reversed(rows)):
            for op, factors in order:
                changed |= found.spread(op, factors)
        if not changed:
            return


def named(axes: Mapping[int, Names], row: AxisFactors) -> Axes:
    """The sharding of a tensor, from that of its factors."""
    return tuple(axes.get(factor, ()) if factor is not None else () for factor in row)
