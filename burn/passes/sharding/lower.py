"""The program of one device: each op on the device's blocks, and collectives between shardings. Enter at `lower`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from burn.dialect.control import captured
from burn.dialect.copies import copy_ops
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import used_once
from burn.dialect.types import TensorType, type_of
from burn.passes.sharding.factors import Factors
from burn.passes.sharding.grid import Axes, Grid, Names, local, whole
from burn.passes.sharding.propagate import Shardings, named
from burn.passes.sharding.reshard import moved, reduced, summed


@dataclass(frozen=True)
class Placed:
    """A device's block of a value. partial: the mesh axes along which the devices' blocks are partial sums of it."""

    value: ir.Value
    axes: Axes
    partial: Names = ()


def lower(program: Program, shardings: Shardings, inputs: Sequence[Axes], outputs: Sequence[Axes]) -> None:
    """Makes a program the one of one device."""
    grid = shardings.grid
    values = program.inputs
    types_ = [_local(type_of(value), axes, grid) for value, axes in zip(values, inputs, strict=True)]
    made = Program.create(list(zip(program.input_names, types_, strict=True)), program.weights)
    work = _Lowering(shardings, made)
    work.found = {v: Placed(n, a) for v, n, a in zip(values, made.inputs, inputs, strict=True)}
    ops = [operation.opview for operation in program.block.operations]
    with made.building():
        for op, factors in zip(ops[:-1], shardings.factors, strict=True):
            with op.operation.location:
                work.op(op, factors)
        results = [work.use(value, axes) for value, axes in zip(program.outputs, outputs, strict=True)]
    made.finish(list(zip(program.output_names, results, strict=True)))
    program.module, program.input_names, program.size_hints = made.module, made.input_names, {}


def _local(type_: TensorType, axes: Axes, grid: Grid) -> TensorType:
    return type_ if not any(axes) else type_.with_shape(local(type_.shape, axes, grid))  # type: ignore[arg-type]


class _Lowering:
    def __init__(self, shardings: Shardings, made: Program) -> None:
        self.shardings, self.grid, self.made = shardings, shardings.grid, made
        self.found: dict[ir.Value, Placed] = {}
        self._moved: dict[tuple[ir.Value, Axes], ir.Value] = {}

    # ---- operands ----------------------------------------------------------------------------------------------------------
    def use(self, value: ir.Value, axes: Axes) -> ir.Value:
        """A value's block under a sharding. Partial sums are added at the first use, as the value's own sharding says."""
        placed = self.found[value]
        if placed.partial:
            made, have = summed(placed.value, placed.axes, placed.partial, self.shardings.of(value), self.grid)
            placed = self.found[value] = Placed(made, have)
        if placed.axes == axes:
            return placed.value
        key = value, axes
        if key not in self._moved:
            self._moved[key] = moved(placed.value, placed.axes, axes, self.grid)
        return self._moved[key]

    def _all(self, value: ir.Value) -> ir.Value:
        return self.use(value, whole(type_of(value).rank))

    # ---- ops -----------------------------------------------------------------------------------------------------------------
    def op(self, op: Op, factors: Factors | None) -> None:
        operands, results = list(op.operation.operands), list(op.operation.results)
        chosen = {} if factors is None else self.shardings.chosen(operands, results, factors)
        partial = () if factors is None else self._partial(operands, factors)
        if partial:  # each device has a partial sum of the whole axis
            chosen = {factor: names for factor, names in chosen.items() if set(names).isdisjoint(partial)}
        if factors is None or not (chosen or partial or factors.build):
            return self._copied(op)
        axes = [named(chosen, factors_of_axes) for factors_of_axes in factors.operands]
        taken: list[ir.Value] = []
        for number, (value, own) in enumerate(zip(operands, axes, strict=True)):
            if number in factors.free or (partial and self.found[value].partial):
                taken.append(self._as_it_lies(value, own))
            else:
                taken.append(self.use(value, own))
        into = [named(chosen, factors_of_axes) for factors_of_axes in factors.results]
        made = (
            factors.build(op, taken, into, self.grid) if factors.build else op.build(*_grouped(op, taken), **op.attrs)
        )
        made = list(made) if isinstance(made, list | tuple) else [made]
        sums = tuple(n for f, kind in factors.reduced.items() if kind == "sum" for n in chosen.get(f, ()))
        for result, value, own in zip(results, made, into, strict=True):
            for factor, kind in factors.reduced.items():
                if kind != "sum" and factor in chosen:
                    value = reduced(value, chosen[factor], kind, self.grid)
            self.found[result] = Placed(value, own, (*partial, *sums))
        return None

    def _as_it_lies(self, value: ir.Value, axes: Axes) -> ir.Value:
        """The block of a value whose partial sums are added later, or of one that may lie in any way."""
        placed = self.found[value]
        return placed.value if not placed.partial else moved(placed.value, placed.axes, axes, self.grid)

    def _partial(self, operands: Sequence[ir.Value], factors: Factors) -> Names:
        """The mesh axes along which a linear op's result is a partial sum, because operands are that no other op reads."""
        if not factors.linear:
            return ()
        found = [self.found[value].partial for value in operands]
        some = [value for value, partial in zip(operands, found, strict=True) if partial]
        if not some or not all(map(used_once, some)) or len(set(some)) < len(some):
            return ()
        if factors.linear == "all":
            return found[0] if len(set(found)) == 1 else ()
        at = {"first": 0, "last": -1}.get(factors.linear)
        if len(some) > 1 or (at is not None and not found[at]):
            return ()
        return next(partial for partial in found if partial)

    def _copied(self, op: Op) -> None:
        """The op on whole operands, with its regions."""
        operation = op.operation
        copies: dict[Any, ir.Value] = {}
        for value in (*operation.operands, *captured(op)):
            if value in self.found:
                copies[value] = self._all(value)
        before = dict.fromkeys(copies)
        copy_ops([operation], copies, observers=True)
        for result in operation.results:
            assert result not in before
            self.found[result] = Placed(copies[result], whole(type_of(result).rank))


def _grouped(op: Op, operands: Sequence[ir.Value]) -> list[Any]:
    """Operands in the builder's form, as `Op.args`."""
    rest = iter(operands)
    return [
        [next(rest) for _ in arg] if isinstance(arg, list) else None if arg is None else next(rest) for arg in op.args
    ]
