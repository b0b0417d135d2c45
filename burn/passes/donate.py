"""Decides which outputs reuse the memory of donated inputs.

An output may reuse an input's memory only if nothing reads the input afterwards. Its last read must be before the write
of the output, or in the same kernel at the same index. (An iteration reads all its operands before it writes.) Records
the result in `takes` of `burn.return`. Runs after `fuse`, when the kernels are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from burn.dialect.control import Group
from burn.dialect.dims import Atom, Dim, Symbol, atoms, substitute
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.query import op_of
from burn.dialect.types import type_of
from burn.kernels.body import ContractionKernel, Fetched, Kernel, Load, LoopKernel, Scalar, Write, walk
from burn.kernels.builders import kernels
from burn.kernels.builders.builder import Call
from burn.kernels.liveness import Liveness
from burn.kernels.preferences import Preferences
from burn.passes.environment import Environment
from burn.passes.fix_sizes import checked_sizes
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
        with context():
            checked: dict[Atom, Dim] = {Symbol(name): number for name, number in checked_sizes(program).items()}
        live, preferences = Liveness(program.block), env.preferences
        takes = [-1] * len(outputs)
        for root, number in live.written_directly(outputs).items():
            own = program.renews.get(number)
            candidates = [own] if own is not None else [i for i in free if i not in program.renews.values()]
            for i in candidates:
                if (
                    i in free
                    and substitute(type_of(free[i]).bytes, checked) == substitute(type_of(root).bytes, checked)
                    and _may_lie(live, root, free[i], preferences)
                ):
                    takes[number] = i
                    del free[i]
                    break
        with context():
            program.terminator.attributes["takes"] = ir.DenseI64ArrayAttr.get(takes)


def _may_lie(live: Liveness, root: ir.Value, value: ir.Value, preferences: Preferences) -> bool:
    when = live.reads_of(value, root)
    return when == "before" or (when == "meanwhile" and _in_place(live, root, value, preferences))


def _in_place(live: Liveness, root: ir.Value, value: ir.Value, preferences: Preferences) -> bool:
    """True if the first kernel of the op that writes `root` reads `value` only at the index that it writes. Later
    kernels must not read `value`, because it is overwritten."""
    op = op_of(root)
    if not isinstance(op, Group) or type_of(value).element_bytes != type_of(root).element_bytes:
        return False
    operands, results = list(op.operation.operands), list(op.operation.results)
    mine = ("out", results.index(root))
    calls = kernels(op, preferences)
    writers = [i for i, call in enumerate(calls) if mine in call.bindings]
    if not writers:
        return False

    def reads(call: Call) -> set[int]:
        return {n for n, b in enumerate(call.bindings) if b and b[0] == "in" and live.home(operands[b[1]]) == value}

    call = calls[writers[0]]
    others = calls if op.kind == "foreach" else calls[writers[0] :]  # those of "foreach" run at once
    if any(map(reads, (other for other in others if other is not call))):
        return False
    theirs = reads(call)
    writes, elsewhere = _parts(call.kernel, lambda w: call.bindings[w.buffer] == mine)
    if not writes:
        return False
    written, *more = (w.offset for w in writes if call.bindings[w.buffer] == mine)
    if more:
        return False
    fetched = any(isinstance(atom, Fetched) for atom in atoms(written))
    offsets = {n.offset for n in walk(*(w.value for w in writes)) if isinstance(n, Load) and n.buffer in theirs}
    return (
        not fetched
        and offsets <= {written}
        and not any(isinstance(n, Load) and n.buffer in theirs for n in walk(*elsewhere))
    )


def _parts(kernel: Kernel, mine: Callable[[Write], bool]) -> tuple[Sequence[Write], list[Scalar]]:
    """The writes of the same stage as a buffer's (all their operands are read before), and the kernel's other scalars."""
    if isinstance(kernel, ContractionKernel):
        before = [body for stage in kernel.stages for body in stage.scalars]
        return kernel.epilogue, [*before, kernel.lhs, *kernel.weights]
    if not isinstance(kernel, LoopKernel):
        return (), []
    stage, *more = (s for s in kernel.stages if any(map(mine, s.writes)))
    if more or stage.reductions or stage.order != "parallel":
        return (), []
    elsewhere = [value for other in kernel.stages if other is not stage for value in other.scalars]
    return stage.writes, [*elsewhere, *(fold.reduction.body for fold in kernel.column_reductions)]
