"""Sections of a program: the ops that a function built, which the backward pass builds again (`burn.checkpoint`).

A section begins at `start()` and ends with `ended`. Its operands are the function's arguments and every value from outside
that the ops use, because the function captured it. So a section can be built again in another region, where other values stand
for its operands, and its operands are all that its results depend on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key
from typing import Any, TypeVar

from burn.dialect import ops
from burn.dialect.adjoint.reverse import Customs, gradients, move_customs
from burn.dialect.compose import number
from burn.dialect.control import captured, defined_symbols, region_symbols
from burn.dialect.copies import copy_ops, rename, seen_now
from burn.dialect.deferred import Application, Deferred, Value, is_deferred, record_again, remembered
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.types import CONTINUOUS, type_of

T = TypeVar("T")


def start() -> ir.Operation | int:
    """Where a section begins: here."""
    if is_deferred(()):
        return len(remembered())
    owner = op_of(number(True, "bool"))
    assert owner is not None
    return owner.operation


def ended(start: Any, own: Sequence[Value], outputs: Sequence[Value], customs: Customs) -> Section:
    """The section from `start` to here. own: the function's arguments, aliases built since; outputs: its results."""
    section = _Recorded if isinstance(start, int) else _Built
    return section(start, own, outputs, customs)


def alias(value: Value) -> Value:
    """A new value equal to this one."""
    return ops.reshape(value, shape=type_of(value).shape)


class Section(ABC):
    """operands: values that it depends on, the function's arguments first; results: aliases of the function's results."""

    operands: tuple[Value, ...]
    results: tuple[Value, ...]

    def __init__(self, own: Sequence[Value], outputs: Sequence[Value], customs: Customs) -> None:
        self.own, self.customs = tuple(own), customs
        self.operands = self.own
        self.results = tuple(map(alias, outputs))

    @abstractmethod
    def again(self, values: Sequence[Value]) -> list[Value]:
        """Its ops built again, of these values instead of its operands; returns what the function returned."""

    def backward(
        self,
        values: Sequence[Value],
        residuals: Sequence[Value],
        cotangents: Sequence[Value | None],
        wanted: Sequence[bool],
    ) -> list[Value | None]:
        """The cotangents of `values`, as a `Custom` returns them."""
        after = next(g for g in cotangents if g is not None)
        # Barriers on the arguments keep CSE from merging the recomputed ops with those of the forward pass. Captured tensors get
        # none: most are parameters, and ops on these alone may be shared. A function without float arguments needs them on all.
        count = len(self.own) if any(type_of(v).dtype in CONTINUOUS for v in self.own) else len(values)
        given = [*(ops.barrier(v, after) for v in values[:count]), *values[count:]]
        found = iter(
            gradients(self.again(given), cotangents, [v for v, w in zip(given, wanted, strict=True) if w], self.customs)
        )
        return [next(found) if w else None for w in wanted]


def _reached(
    ends: Iterable[Value],
    stops: Iterable[Value],
    customs: Customs,
    inside: Callable[[Value], T | None],
    uses: Callable[[T], Iterable[Value]],
) -> tuple[set[T], list[Value]]:
    """Returns the makers of the values that `ends` depend on, up to `stops`, and the values from outside that they use."""
    found: set[T] = set()
    outside: dict[Any, None] = {}
    seen: set[Any] = set(stops)
    stack = list(ends)
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        maker = inside(value)
        if maker is None:
            outside[value] = None
            continue
        found.add(maker)
        stack += uses(maker)
        if (custom := customs.get(value)) is not None:
            stack += [*custom.results, *custom.operands, *custom.residuals]
    return found, list(outside)


class _Built(Section):
    """Of ops that are built. Values from outside get aliases, which stay the section's operands where passes of differentiation
    replace the values themselves.

    An op that defines a size is not built again: its results are operands."""

    def __init__(self, start: ir.Operation, own: Sequence[Value], outputs: Sequence[Value], customs: Customs) -> None:
        super().__init__(own, outputs, customs)
        self.start = start
        operations, outside = self.made_by((operation.operands[0] for operation in self._ends), self.own)
        names = {}
        for value in outside:
            owner = op_of(value)
            with ir.InsertionPoint.after(owner.operation if owner is not None and self.holds(owner) else start):
                names[value] = alias(value)
        for operation in (*operations, *self._ends):
            rename(operation, names)
        self.operands = (*self.own, *names.values())

    @property
    def _ends(self) -> list[ir.Operation]:
        return [op.operation for op in map(op_of, self.results) if op is not None]

    def holds(self, op: Op | None) -> bool:
        """True if an op was built in the section itself, not in a region of one of its ops."""
        if op is None or op.operation.block != self.start.block:
            return False
        return self.start.is_before_in_block(op.operation) and op.operation.is_before_in_block(self._ends[0])

    def made_by(self, values: Iterable[Value], stops: Iterable[Value]) -> tuple[list[ir.Operation], list[Value]]:
        """The ops that values depend on, from `stops` on, in the program's order, and the values from outside that they use."""

        def inside(value: ir.Value) -> Op | None:
            op = op_of(value)
            return op if op is not None and (_is_constant(op) or (self.holds(op) and not _defines(op))) else None

        def uses(op: Op) -> list[ir.Value]:
            return [*op.operation.operands, *captured(op)]

        found, outside = _reached(values, stops, self.customs, inside, uses)
        own = [op.operation for op in found if self.holds(op)]
        return [*(op.operation for op in found if not self.holds(op)), *sorted(own, key=cmp_to_key(_order))], outside

    def again(self, values: Sequence[Value]) -> list[Value]:
        returned = [operation.operands[0] for operation in self._ends]
        copies = _Copied(self, values)
        copies.build(returned)
        move_customs(self.customs, copies, seen_now())
        return [copies.get(v, v) for v in returned]


class _Copied(dict[Any, Any]):
    """The values of a copied section. A value that the program did not use is built when a backward function that captured
    it requests it."""

    def __init__(self, section: _Built, values: Sequence[Value]) -> None:
        super().__init__(zip(section.operands, values, strict=True))
        self.section = section
        self.end = start()

    def build(self, values: Iterable[Value]) -> None:
        with ir.InsertionPoint(self.end):
            copy_ops(self.section.made_by(values, self)[0], self)

    def get(self, value: Any, default: Any = None) -> Any:
        if value not in self and self.section.holds(op_of(value)):
            self.build([value])
        return super().get(value, default)


def _order(a: ir.Operation, b: ir.Operation) -> int:
    return -1 if a.is_before_in_block(b) else 1


def _is_constant(op: Op) -> bool:
    """True if an op can be copied anywhere, and its results have no derivatives."""
    return (
        op.PURE
        and not len(op.operation.operands)
        and not op.IS_DEFINER
        and type_of(op.operation.results[0]).dtype not in CONTINUOUS
    )


def _defines(op: Op) -> bool:
    """True if an op or its regions define sizes."""
    return bool(defined_symbols(op)) or any(map(region_symbols, op.operation.regions))


class _Recorded(Section):
    """Of ops that are recorded. One whose results have sizes that the data tell is not recorded again."""

    def __init__(self, start: int, own: Sequence[Value], outputs: Sequence[Value], customs: Customs) -> None:
        order = {application: i for i, application in enumerate(remembered()[start:])}
        super().__init__(own, outputs, customs)
        self.outputs = tuple(outputs)

        def inside(value: Deferred) -> Application | None:
            application = value.origin or value.application
            known = application in order and all(t.is_static for t in application.types)
            return application if known else None

        found, outside = _reached(outputs, own, customs, inside, Application.values)
        self.applications = sorted(found, key=order.__getitem__)
        self.operands = (*self.own, *outside)

    def again(self, values: Sequence[Value]) -> list[Value]:
        copies: dict[Any, Any] = dict(zip(self.operands, values, strict=True))

        def copied(operand: Any) -> Any:
            return [copies.get(v, v) for v in operand] if isinstance(operand, list) else copies.get(operand, operand)

        for application in self.applications:
            results = record_again(application, [copied(operand) for operand in application.operands])
            copies.update(zip(application.all(), results, strict=True))
        move_customs(self.customs, copies)
        return [copied(v) for v in self.outputs]


def rebuilt(
    outputs: Sequence[Deferred], inputs: Sequence[Value], customs: Customs, given: Callable[[Value], Value]
) -> tuple[list[Value], list[Value]]:
    """Builds recorded ops in the program under construction. Returns the values that stand for outputs and for inputs. given: the
    value of an operand from elsewhere."""

    def inside(value: Deferred) -> Application | None:
        return value.origin or value.application

    _, outside = _reached(outputs, inputs, customs, inside, Application.values)
    copies: dict[Any, Any] = {v: alias(given(v)) for v in inputs}
    copies.update((v, given(v)) for v in outside)

    def build(value: Deferred) -> None:
        """Operands first."""
        stack = [value]
        while stack:
            last = stack[-1]
            maker = None if last in copies else inside(last)
            waiting = [] if maker is None else [v for v in maker.values() if v not in copies]
            stack += waiting
            if waiting:
                continue
            stack.pop()
            if maker is not None:
                operands = [[copies[v] for v in o] if isinstance(o, list) else copies.get(o) for o in maker.operands]
                results = maker.op.build(*operands, result_types=maker.types, **maker.attrs)
                copies.update(zip(maker.all(), results if isinstance(results, list) else [results], strict=True))

    for value in outputs:
        build(value)
    for custom in {id(c): c for v in list(copies) if (c := customs.get(v)) is not None}.values():
        for value in (*custom.results, *custom.operands, *custom.residuals):
            build(value)  # type: ignore[arg-type]  # recorded, as the outputs are
    move_customs(customs, copies)
    return [copies[v] for v in outputs], [copies[v] for v in inputs]
