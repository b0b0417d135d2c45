"""Programs whose ops become recorded ops: what only works on programs also works on lazy tensors. Enter at `in_program`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burn.dialect.deferred import Deferred, Value
from burn.dialect.mlir import ir
from burn.dialect.types import type_of
from burn.dialect.weights import Weight
from burn.runtime.origins import boundary
from burn.tensors.base import made
from burn.tensors.gradients import registered
from burn.tensors.tracer import Owned, Tracer, active, tracing
from burn.tracing.replay import replay


class Capturing(Tracer):
    """A tracer for which lazy tensors and parameters are inputs of the program, not constants: derivatives reach them."""

    def __init__(self) -> None:
        super().__init__([])
        self.given: list[Deferred] = []
        self._inputs: dict[int, ir.Value] = {}

    def captured(self, value: Deferred, weight: Callable[[], Weight] | None = None) -> ir.Value:
        found = self._inputs.get(id(value))
        if found is None:
            found = self._inputs[id(value)] = self.program.add_input(f"x{len(self.given)}", type_of(value))
            self.given.append(value)
        return found

    def parameter(self, owner: Owned) -> ir.Value:
        return self.captured(owner._value)  # type: ignore[attr-defined]


@boundary
def in_program(function: Callable[[], Sequence[Value]]) -> list[Value]:
    """The values that `function` returns. It is called in a traced function: in the one around it, or in a program whose ops are
    then recorded."""
    if active() is not None:
        return list(function())
    customs = registered()
    before = len(customs or ())
    tracer = Capturing()
    with tracing(tracer):
        values = function()
        named = [(f"y{i}", value) for i, value in enumerate(values)]
    if customs is not None and len(customs) > before:
        customs.kept.append(tracer)
        tracer.ended = False  # backward functions may hold tensors of the program
    program = tracer.program.finish(named)
    outputs = replay(program, [made(value) for value in tracer.given], customs)
    return [tensor.value for tensor in outputs]


def usable(value: Any) -> Any:
    """A value for ops of the program under construction: recorded values are its inputs or constants."""
    return made(value).value if isinstance(value, Deferred) else value
