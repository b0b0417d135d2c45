"""Which outputs are there long before a run on a card ends: whoever waits for one of them, as training waits for its loss, need
not wait for the rest, and gets the next run ready meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

from burn.dialect.control import Group
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import type_of

BEHIND = 32
"""Groups that come behind such an output at least: a recorded run is cut there, which costs as much as a few launches."""

SMALL = 4096
"""Bytes that it has at most: what is larger is seldom waited for by itself."""


def early_outputs(program: Program, written: Mapping[ir.Value, int]) -> dict[ir.Operation, list[int]]:
    """By the op behind which they are there, the numbers of outputs that are the caller's and no input's next elements. written:
    the outputs that ops write where they belong, by value. Those that are there one soon after the other are told of together."""
    groups = [o for o in program.block.operations if isinstance(o.opview, Group)]
    found: dict[ir.Operation, list[int]] = {}
    waiting: list[int] = []
    since = 0
    for place, operation in enumerate(groups):
        own = [written[r] for r in operation.results if r in written and written[r] not in program.renews]
        if own := [number for number in own if _is_small(program, number)]:
            waiting, since = [*waiting, *own], place
        if waiting and place - since == BEHIND:
            found[groups[since]], waiting = waiting, []
    return found


def _is_small(program: Program, number: int) -> bool:
    size = type_of(program.outputs[number]).bytes
    return isinstance(size, int) and size <= SMALL
