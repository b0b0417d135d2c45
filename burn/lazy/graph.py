"""The recorded ops of some values, as a graph with a key: graphs with equal keys share a program.

Literal numbers (`full` ops) are stored beside the key, so a loop with a changing step size
reuses one program (`engine.py`).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from burn.dialect import ops
from burn.dialect.deferred import Application, Deferred
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.shape import Constant, Full, Iota
from burn.dialect.types import TensorType

SOURCES = frozenset({Full, Constant, Iota})
"""Ops that cost nothing to do again: their results are not kept for later."""


RECORDED = "#"
"""The file name in the location of a recorded op, whose line is the op's number in its graph. Graphs of one structure share a
program, but were recorded at different source lines. `Graph.located` maps numbers to lines."""

_NUMBERED = re.compile(rf"\({RECORDED}:(\d+)\)$")


@dataclass(frozen=True)
class Graph:
    """Ops in an order in which operands come first.

    `leaves`: operands with elements. `outputs`: the requested values, followed by intermediate ones that the caller's
    tensors still hold. `key`: everything that the program depends on, except `numbers`, the values of its `full` ops."""

    applications: list[Application]
    leaves: list[Deferred]
    outputs: list[Deferred]
    numbers: tuple[float | int, ...]
    key: Hashable

    def program(self, free: frozenset[int] = frozenset()) -> Program:
        """The graph as a program; its inputs are the leaves, then the numbers (by index) that are left open."""
        inputs = [(f"x{i}", leaf.type) for i, leaf in enumerate(self.leaves)]
        fulls = [a for a in self.applications if a.op is Full]
        inputs += [(f"number{i}", TensorType(fulls[i].types[0].dtype, ())) for i in sorted(free)]
        program = Program.create(inputs)
        values: dict[Deferred, ir.Value] = dict(zip(self.leaves, program.inputs, strict=False))
        given = dict(zip(sorted(free), program.inputs[len(self.leaves) :], strict=True))
        full = -1
        with program.building():
            for number, application in enumerate(self.applications):
                line = ir.Location.file(RECORDED, number, 0)
                with context(), ir.Location.name(application.shown_as, line):
                    if application.op is Full:
                        full += 1
                        if full in given:
                            built = ops.broadcast_to(given[full], shape=application.types[0].shape)
                            self._define(values, application, [built])
                            continue
                    operands = [
                        [values[v] for v in o] if isinstance(o, list) else None if o is None else values[o]
                        for o in application.operands
                    ]
                    results = application.op.build(*operands, result_types=application.types, **application.attrs)
                    self._define(values, application, results if isinstance(results, list) else [results])
        return program.finish([(f"y{i}", values[v]) for i, v in enumerate(self.outputs)])

    def located(self, name: str) -> str:
        """The full name of an op in errors of the program, with the line on which this graph's op was recorded."""
        match = _NUMBERED.search(name)
        if match is None:
            return name
        application = self.applications[int(match[1])]
        return application.site or application.shown_as

    @staticmethod
    def _define(values: dict[Deferred, ir.Value], application: Application, results: list[ir.Value]) -> None:
        for reference, result in zip(application.results, results, strict=True):
            deferred = reference()
            if deferred is not None:
                values[deferred] = result


def is_sequence(value: Deferred) -> bool:
    """True for a sequence of tensors, which lives inside of programs: it stays recorded, and its readers are computed."""
    return value.type.dtype == "list"


def collect(roots: Iterable[Deferred]) -> Graph:
    """The graph behind values that are not computed yet."""
    order: dict[Application, int] = {}
    leaves: dict[Deferred, int] = {}
    held: dict[Deferred, None] = {}
    wanted = list(dict.fromkeys(roots))
    pending = [root.application for root in wanted if root.application is not None]
    while pending:
        application = pending[-1]
        if application in order:
            pending.pop()
            continue
        waiting = []
        for value in application.values():
            if value.array is not None:
                leaves.setdefault(value, len(leaves))
            elif value.application is not None and value.application not in order:
                waiting.append(value.application)
        if waiting:
            pending += reversed(waiting)
            continue
        pending.pop()
        order[application] = len(order)
        if application.op not in SOURCES:
            for reference in application.results:
                result = reference()
                if result is not None and result.held and result.array is None and not is_sequence(result):
                    held[result] = None
    outputs = list(dict.fromkeys([*wanted, *held]))
    return _graph(order, leaves, outputs)


def exact(value: Hashable) -> Hashable:
    """A key of a number's bits: it separates 0.0 from -0.0, and equates a NaN with itself."""
    if isinstance(value, float):
        return value.hex()
    return tuple(map(exact, value)) if isinstance(value, tuple) else value


def _graph(order: dict[Application, int], leaves: dict[Deferred, int], outputs: list[Deferred]) -> Graph:
    numbers: list[float | int] = []
    rows: list[Hashable] = []

    def reference(value: Deferred | None) -> Hashable:
        if value is None:
            return None
        application = value.application
        if value.array is not None or application is None:
            return -1 - leaves[value]
        return order[application], value.index

    for application in order:
        attrs = application.attrs
        if application.op is Full:
            bits = attrs["bits"]
            numbers.append(attrs["value"] if bits is None else bits)
            attrs = {"shape": attrs["shape"], "dtype": attrs["dtype"]}
        operands = tuple(
            tuple(map(reference, operand)) if isinstance(operand, list) else reference(operand)
            for operand in application.operands
        )
        rows.append((application.op.OP_NAME, operands, tuple((k, exact(v)) for k, v in attrs.items())))
    key = (tuple(rows), tuple(leaf.type for leaf in leaves), tuple(map(reference, outputs)))
    return Graph(list(order), list(leaves), outputs, tuple(numbers), key)
