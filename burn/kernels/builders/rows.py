"""Stages of a kernel that processes a space row by row, with reductions over each row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from burn.dialect.dims import Dim, LoopVar, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.reduction import ArgReduce, Reduce
from burn.dialect.types import type_of
from burn.kernels.body import EXPENSIVE, Reduced, Reduction, Scalar, Stage, Write, walk
from burn.kernels.builders.builder import Builder, Computation, accumulate_type, convert, loop_index, loops
from burn.kernels.lower import linear, reshape_index, rule_of


class Rows:
    """Stages of a row-wise kernel. The `anchors` reduce `axes`; `kept` and `inner` are the loops over the other axes
    and over these."""

    def __init__(
        self,
        builder: Builder,
        space: tuple[Dim, ...],
        axes: Set[int],
        anchors: Sequence[Op],
        keep_rows: bool,
        variables: tuple[LoopVar, ...] = (),
    ) -> None:
        """variables: the loops over the space, `loops(space)` by default."""
        self.builder, self.space, self.axes = builder, space, axes
        variables = variables or loops(space)
        self.kept = tuple(v for i, v in enumerate(variables) if i not in self.axes)
        self.inner = tuple(v for i, v in enumerate(variables) if i in self.axes)
        self.full = loop_index(variables)
        self.stages: list[Stage] = []
        costly = _costly_values(builder.group, anchors, space) if keep_rows and (len(space) - 1) in self.axes else []
        for number, anchor in enumerate(anchors):
            self._reduce(number, anchor)
            for value in [v for v in costly if uses(anchor.x, v)]:
                costly.remove(value)
                self._keep(value)
                builder.low._memo.clear()

    def _reduce(self, number: int, anchor: Op) -> None:
        low, stages, name = self.builder.low, self.stages, f"r{number}"
        reduction, out = reduction_of(anchor, name, low.at(anchor.x, self.full), self.inner)
        depends = {n.name for n in walk(reduction.body) if isinstance(n, Reduced)}
        if stages and not depends & {r.name for r in stages[-1].reductions} and not stages[-1].writes:
            stages[-1] = Stage(self.inner, (*stages[-1].reductions, reduction))
        else:
            stages.append(Stage(self.inner, (reduction,)))
        low.define(anchor.operation.results[0], lambda index: out)

    def _keep(self, value: ir.Value) -> None:
        """Stores a full-space value to scratch in the current stage, and loads it in later stages. At other indices
        than the current iteration's it is recomputed."""
        low, stages = self.builder.low, self.stages
        row = tuple(v.extent for v in self.inner)
        buffer = self.builder.scratch(type_of(value).dtype, product(row))
        offset = linear(loop_index(self.inner), row)
        scalar = low.at(value, self.full)
        stages[-1] = Stage(stages[-1].loops, stages[-1].reductions, (*stages[-1].writes, Write(buffer, offset, scalar)))
        op = op_of(value)
        assert op is not None
        low.define(value, lambda index: low.load(buffer, offset) if index == self.full else rule_of(op)(low, op, index))

    def write(self, numbers: Iterable[int]) -> None:
        """Appends stages that write results of the group, by number."""
        builder, low = self.builder, self.builder.low
        narrow: list[Write] = []
        wide: list[Write] = []
        kept_shape = tuple(v.extent for v in self.kept)
        with_ones = tuple(1 if i in self.axes else d for i, d in enumerate(self.space))
        for number in numbers:
            value = builder.group.yielded[number]
            shape = type_of(value).shape
            if shape == self.space and self.inner:
                offset = linear(self.full, self.space)
                wide.append(Write(builder.out(number), offset, low.at(value, self.full)))
                continue
            if shape == with_ones:
                index = tuple(0 if i in self.axes else p for i, p in enumerate(self.full))
            else:
                same = shape == kept_shape
                index = loop_index(self.kept) if same else reshape_index(loop_index(self.kept), kept_shape, shape)
            narrow.append(Write(builder.out(number), linear(loop_index(self.kept), kept_shape), low.at(value, index)))
        if wide:
            self._write_wide(tuple(wide))
        if narrow:
            self.stages.append(Stage((), (), tuple(narrow)))

    def _write_wide(self, writes: tuple[Write, ...]) -> None:
        """Writes during the last reductions if these are independent, so that common operands are read once."""
        last = self.stages[-1] if self.stages else Stage(self.inner)
        formed = {r.name for r in last.reductions}
        waiting = {n.name for w in writes for n in walk(w.value) if isinstance(n, Reduced)}
        if formed and formed.isdisjoint(waiting):
            self.stages[-1] = replace(last, writes=(*last.writes, *writes))
        else:
            self.stages.append(Stage(self.inner, (), writes))


def reduction_of(anchor: Op, name: str, body: Scalar, inner: tuple[LoopVar, ...]) -> tuple[Reduction, Scalar]:
    """The reduction of an op, and the scalar that stands for its result."""
    if isinstance(anchor, Reduce):
        dtype = accumulate_type(body.dtype)
        return Reduction(name, anchor.kind, dtype, convert(body, dtype)), convert(Reduced(dtype, name), body.dtype)
    assert isinstance(anchor, ArgReduce)
    (axis,) = inner
    return Reduction(name, f"arg{anchor.kind}", body.dtype, body, loop_index((axis,))[0], anchor.last), Reduced(
        "int64", name
    )


def reduced_axes(op: Op) -> tuple[int, ...]:
    return (op.axis,) if isinstance(op, ArgReduce) else op.axes


def uses(value: ir.Value, wanted: ir.Value) -> bool:
    """True if `value` is computed from `wanted` within the region."""
    todo, seen = [value], set()
    while todo:
        v = todo.pop()
        if v == wanted:
            return True
        if v in seen or isinstance(v.owner, ir.Block):
            continue
        seen.add(v)
        todo += list(v.owner.operands)
    return False


def _costly_values(group: Computation, anchors: Sequence[Op], space: tuple[Dim, ...]) -> list[ir.Value]:
    """Full-space results of expensive functions that more than one stage reads."""
    found = []
    for op in group.ops:
        value = op.operation.results[0]
        if getattr(op, "FUNCTION", "") not in EXPENSIVE or type_of(value).shape != space:
            continue
        readers = sum(uses(a.x, value) for a in anchors)
        after = any(uses(v, value) for v in group.yielded if type_of(v).shape == space)
        if readers + after > 1:
            found.append(value)
    return found
