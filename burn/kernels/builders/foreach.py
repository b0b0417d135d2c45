"""Groups of independent loops over different tensors: a kernel for each. They may run in any order, or at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.traits import Trait
from burn.kernels.builders import loop
from burn.kernels.builders.builder import Call, Computation, Section
from burn.kernels.preferences import Preferences


def build(group: Computation, preferences: Preferences) -> list[Call]:
    calls = []
    yielded, arguments = group.yielded, group.arguments
    for numbers, ops in _parts(yielded):
        section = Section("loop", [*ops.values()], [yielded[n] for n in numbers], arguments)
        for call in loop.build(section, preferences):
            bindings = tuple(("out", numbers[b[1]]) if b and b[0] == "out" else b for b in call.bindings)
            calls.append(replace(call, bindings=bindings))
    return calls


def _parts(yielded: Sequence[ir.Value]) -> list[tuple[list[int], dict[ir.Value, Op]]]:
    """The loops: the numbers of their results, and their ops by result. Results that are computed from a common op are of one
    loop. A view computes nothing: loops over different numbers of elements may read the same one."""
    parts: list[tuple[list[int], dict[ir.Value, Op]]] = []
    part: dict[ir.Value, int] = {}  # by the result of an op that is no view
    for number, value in enumerate(yielded):
        ops = _computing(value)
        mine = sorted({part[result] for result in ops if result in part})
        if not mine:
            mine = [len(parts)]
            parts.append(([], {}))
        first, *others = mine
        numbers, members = parts[first]
        for other in others:
            numbers += parts[other][0]
            members |= parts[other][1]
            parts[other] = ([], {})
        numbers.append(number)
        members |= ops
        part |= {result: first for result, op in members.items() if not op.has(Trait.VIEW)}
    return [(sorted(numbers), ops) for numbers, ops in parts if numbers]


def _computing(value: ir.Value) -> dict[ir.Value, Op]:
    """The ops of the group that a value depends on, by result, without constants."""
    found: dict[ir.Value, Op] = {}
    todo = [value]
    while todo:
        result = todo.pop()
        op = op_of(result)
        if op is not None and not op.has(Trait.CONSTANT | Trait.GENERATED) and result not in found:
            found[result] = op
            todo += op.operation.operands
    return found
