"""Which outputs take over the memory of inputs that the caller gives up.

An output may lie where an input did only if nobody reads the input any more: it is read last before the output is written, or
by the kernel that writes the output, and then only at the place that it writes. Says so in `takes` of `burn.return`; runs behind
`fuse`, when it is known which kernels there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.control import Group
from burn.dialect.dims import Dim, atoms
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import op_of
from burn.dialect.types import type_of
from burn.kernels.body import Fetched, Load, LoopKernel, Write, walk
from burn.kernels.builders import kernels
from burn.kernels.liveness import Liveness
from burn.kernels.wants import Wants
from burn.passes.environment import Environment
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class Donate:
    name: ClassVar[str] = "donate"

    def run(self, program: Program, env: Environment) -> None:
        inputs, outputs = program.inputs, program.outputs
        free = {i: inputs[i] for i in program.given_up}
        if not free:
            return
        live = Liveness(program.block)
        takes = [-1] * len(outputs)
        for root, number in live.written_directly(outputs).items():
            fitting = [
                i
                for i, v in free.items()
                if type_of(v).bytes == type_of(root).bytes and _may_lie(live, root, v, env.wants)
            ]
            if fitting:
                takes[number] = fitting[0]
                del free[fitting[0]]
        with context():
            program.terminator.attributes["takes"] = ir.DenseI64ArrayAttr.get(takes)


def _may_lie(live: Liveness, root: ir.Value, value: ir.Value, wants: Wants) -> bool:
    when = live.reads_of(value, root)
    return when == "before" or (when == "meanwhile" and _in_place(live, root, value, wants))


def _in_place(live: Liveness, root: ir.Value, value: ir.Value, wants: Wants) -> bool:
    """Whether the op that writes `root` is one kernel that reads `value` just where it writes, before it does."""
    op = op_of(root)
    if not isinstance(op, Group) or type_of(value).element_bytes != type_of(root).element_bytes:
        return False
    (call, *others) = kernels(op, wants)
    kernel = call.kernel
    if others or not isinstance(kernel, LoopKernel) or len(kernel.stages) != 1:
        return False
    (stage,) = kernel.stages
    if stage.reductions or stage.order != "parallel" or not stage.writes:
        return False
    operands, results = list(op.operation.operands), list(op.operation.results)
    (number,) = (n for n, w in enumerate(stage.writes) if call.bindings[w.buffer] == ("out", results.index(root)))
    theirs = {n for n, b in enumerate(call.bindings) if b and b[0] == "in" and live.home(operands[b[1]]) == value}

    def places(writes: Sequence[Write]) -> set[Dim]:
        return {n.offset for n in walk(*(w.value for w in writes)) if isinstance(n, Load) and n.buffer in theirs}

    place = stage.writes[number].offset
    fetched = any(isinstance(atom, Fetched) for atom in atoms(place))
    return not fetched and places(stage.writes) <= {place} and not places(stage.writes[number + 1 :])
