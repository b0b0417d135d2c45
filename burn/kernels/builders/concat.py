"""Concat fused with its producers. Each kernel writes its tensor into the result, and operands already in memory are
copied there. The ops of an operand form a `Section`, described like a group of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from burn.dialect.control import Group
from burn.dialect.dims import Dim, floordiv, product
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.shape import Concat
from burn.dialect.types import type_of
from burn.kernels.body import ContractionKernel, Kernel, LoopKernel, Write
from burn.kernels.builders import contract, loop, tiles, window
from burn.kernels.builders.builder import Call, Computation, Section, shared_buffers
from burn.kernels.preferences import Preferences

MAKERS: dict[str, Callable[[Computation, Preferences], list[Call]]] = {
    "loop": loop.build,
    "window": window.build,
    "contract": contract.build,
    "join": tiles.join,
}
"""Builders of a concat operand's producer, by the kind that it would have as a group."""


def build(group: Group, preferences: Preferences) -> list[Call]:
    """One concat of tensors that the group computes or takes as arguments."""
    (whole,) = group.yielded
    root = op_of(whole)
    assert root is not None and isinstance(root, Concat)
    shape = type_of(whole).shape
    axis = root.axis % len(shape)
    inner = product(shape[axis + 1 :])
    calls: list[Call] = []
    before: Dim = 0
    ops, arguments, shared_count = group.ops, group.arguments, 0
    for x in root.xs:
        size = type_of(x).shape[axis]
        if size * inner != 0:
            section = _section(ops, arguments, x)
            made = MAKERS[section.kind](section, preferences)
            for call in made:
                kernel = _into_result(call, size * inner, shape[axis] * inner, before * inner)
                bindings = tuple(
                    ("shared", b[1] + shared_count) if b and b[0] == "shared" else b for b in call.bindings
                )
                calls.append(Call(kernel, bindings, section))
            shared_count += len(shared_buffers(made))
        before = before + size
    return calls


def _section(ops: list[Op], arguments: list[ir.Value], value: ir.Value) -> Section:
    """The ops of the group that a concat operand needs."""
    wanted, needed = {value}, []
    for op in reversed(ops):
        if wanted & set(op.operation.results):
            needed.append(op)
            wanted |= set(op.operation.operands)
    kinds = [op.KERNEL for op in needed if op.KERNEL in MAKERS]
    assert len(kinds) <= 1
    return Section(kinds[0] if kinds else "loop", needed[::-1], [value], arguments)


def _into_result(call: Call, part: Dim, whole: Dim, before: Dim) -> Kernel:
    """An operand's kernel, writing into the concat's result: runs of `part` elements, one in each run of `whole`, after
    `before` others."""

    def writes(old: tuple[Write, ...]) -> tuple[Write, ...]:
        return tuple(
            replace(w, offset=w.offset + floordiv(w.offset, part) * (whole - part) + before)
            if call.bindings[w.buffer] == ("out", 0)
            else w
            for w in old
        )

    kernel = call.kernel
    if isinstance(kernel, ContractionKernel):
        return replace(kernel, epilogue=writes(kernel.epilogue))
    assert isinstance(kernel, LoopKernel)
    return replace(kernel, stages=tuple(replace(s, writes=writes(s.writes)) for s in kernel.stages))
