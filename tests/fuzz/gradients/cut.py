"""A failing program made short: fewer outputs, lines, inputs, and a simpler derivative and way. Enter at `cut_down`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.fuzz.gradients.case import Plan, attempt, mirrored
from tests.fuzz.gradients.draft import rounded
from tests.fuzz.gradients.program import Program
from tests.fuzz.runner import Outcome

SECONDS = 60.0


def cut_down(plan: Plan, found: Outcome) -> Outcome:
    """The outcome of the shortest plan that was found to fail in the same manner."""
    end = time.monotonic() + SECONDS
    again = True
    while again:
        again = False
        for shorter in simpler(plan):
            if time.monotonic() > end:
                return found
            outcome = attempt(shorter)
            if outcome.kind == found.kind:
                plan, found, again = shorter, outcome, True
                break
    return found


def simpler(plan: Plan) -> Iterator[Plan]:
    """Plans with less in them, the boldest first."""
    program = plan.program
    names = [name for line in program.needed(plan.outputs).lines for name in line.names]
    for name in names:
        if plan.outputs != (name,):
            yield _tidy(replace(plan, outputs=(name,)))
    if plan.way in ("named", "compile", "recorded"):
        yield replace(plan, way="jit")
    if plan.kind != "first":
        yield replace(plan, kind="first")
    for name in names[:-1][::-1]:
        shorter = _given(plan, name)
        if shorter is not None:
            yield _tidy(shorter)
    used = set(program.used(plan.outputs))
    if set(program.inputs) - used - set(plan.by):
        yield _tidy(plan)
    for name in plan.by:
        if len(plan.by) > 1:
            yield _tidy(replace(plan, by=tuple(n for n in plan.by if n != name)))


def _tidy(plan: Plan) -> Plan:
    """Without lines and inputs that nothing uses."""
    used = plan.program.used(plan.outputs)
    by = tuple(n for n in plan.by if n in used)
    if not by:
        return plan
    own = plan.program.needed(plan.outputs)
    return replace(plan, by=by, program=replace(own, inputs={n: a for n, a in own.inputs.items() if n in used}))


def _given(plan: Plan, name: str) -> Plan | None:
    """The plan in which a computed value is an input."""
    program = plan.program
    values = mirrored(replace(plan, outputs=(name,), kind="first"), program.inputs)
    if values is None or name in plan.outputs:
        return None
    new = f"x{1 + max(int(n[1:]) for n in program.inputs)}"

    def put(text: str | None) -> Any:
        return None if text is None else re.sub(rf"\b{name}\b", new, text)

    lines = [replace(line, burn=put(line.burn), torch=put(line.torch)) for line in program.lines]
    inputs = {**program.inputs, new: rounded(values[0][1], program.dtype)}
    return replace(plan, program=Program(program.dtype, inputs, lines), by=(*plan.by, new))
