"""Early outputs: outputs that are complete long before a GPU run ends. A caller that waits for one of them, as training
does for its loss, can prepare the next run meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

from burn.dialect.control import Group
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import type_of

BEHIND = 32
"""The fewest groups after such an output: a recorded run is split there, which costs as much as a few launches."""

SMALL = 4096
"""The most bytes of an early output: callers seldom wait only for a larger one."""


def early_outputs(program: Program, written: Mapping[ir.Value, int]) -> dict[ir.Operation, list[int]]:
    """Maps the op after which outputs are complete to their numbers, for outputs that the caller owns and that are no
    input's next value. written: the outputs that ops write directly, by value. Outputs that complete shortly after each
    other share an op."""
    groups = [o for o in program.block.operations if isinstance(o.opview, Group)]
    found: dict[ir.Operation, list[int]] = {}
    waiting: list[int] = []
    since = 0
    for position, operation in enumerate(groups):
        own = [written[r] for r in operation.results if r in written and written[r] not in program.renews]
        if own := [number for number in own if _is_small(program, number)]:
            waiting, since = [*waiting, *own], position
        if waiting and position - since == BEHIND:
            found[groups[since]], waiting = waiting, []
    return found


def _is_small(program: Program, number: int) -> bool:
    size = type_of(program.outputs[number]).bytes
    return isinstance(size, int) and size <= SMALL
