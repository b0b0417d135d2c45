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
        live = Liveness(program.block)
        readers: dict[ir.Value, _Reads] = {}  # by the first result of a group

        def may_lie(root: ir.Value, value: ir.Value) -> bool:
            when = live.reads_of(value, root)
            op = op_of(root)
            if when != "meanwhile" or not isinstance(op, Group):
                return when == "before"
            if type_of(value).element_bytes != type_of(root).element_bytes:
                return False
            first, number = op.operation.results[0], ir.OpResult(root).result_number
            if first not in readers:
                readers[first] = _Reads(live, op, env.preferences)
            return readers[first].are_in_place(number, value)

        takes = [-1] * len(outputs)
        for root, number in live.written_directly(outputs).items():
            own = program.renews.get(number)
            candidates = [own] if own is not None else [i for i in free if i not in program.renews.values()]
            for i in candidates:
                if (
                    i in free
                    and substitute(type_of(free[i]).bytes, checked) == substitute(type_of(root).bytes, checked)
                    and may_lie(root, free[i])
                ):
                    takes[number] = i
                    del free[i]
                    break
        with context():
            program.terminator.attributes["takes"] = ir.DenseI64ArrayAttr.get(takes)


class _Reads:
    """The kernels of a group: which of them read an input, and which writes a result."""

    def __init__(self, live: Liveness, group: Group, preferences: Preferences) -> None:
        self.calls = kernels(group, preferences)
        self.at_once = group.kind == "foreach"
        self._readers: dict[ir.Value, dict[int, set[int]]] = {}  # by call: the buffers that are the input
        self._writers: dict[int, int] = {}  # the first call that writes a result
        homes = [live.home(operand) for operand in group.operation.operands]
        for number, call in enumerate(self.calls):
            for buffer, binding in enumerate(call.bindings):
                if binding is not None and binding[0] == "in":
                    self._readers.setdefault(homes[binding[1]], {}).setdefault(number, set()).add(buffer)
                elif binding is not None and binding[0] == "out":
                    self._writers.setdefault(binding[1], number)

    def are_in_place(self, result: int, value: ir.Value) -> bool:
        """True if the first kernel that writes a result reads `value` only at the index that it writes. Later kernels must
        not read `value`, because it is overwritten."""
        if result not in self._writers:
            return False
        writer, readers = self._writers[result], self._readers.get(value, {})
        if any(number != writer and (self.at_once or number > writer) for number in readers):
            return False
        call, theirs = self.calls[writer], readers.get(writer, set())
        writes, elsewhere = _parts(call.kernel, lambda w: call.bindings[w.buffer] == ("out", result))
        if not writes:
            return False
        written, *more = (w.offset for w in writes if call.bindings[w.buffer] == ("out", result))
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
