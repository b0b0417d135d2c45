"""The walk over a program, and the table of emitters: `Emission`, `emits`, `Site`.

    @emits("transpose")
    def transpose(site: Site) -> Value:
        return site.b.transpose(site.x(0), site.op.permutation)

Ops are primitives: `decompose` has expanded composites. With `checks` the module computes which check on data failed first,
such as an index out of range; without, such indices are clamped, as StableHLO does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from burn.codegen.stablehlo.builder import Builder, Size, Value
from burn.codegen.stablehlo.elements import has_carrier
from burn.dialect.control import If, Loop
from burn.dialect.custom import BODIES, Custom
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Op, full_name, site
from burn.dialect.query import blocks
from burn.dialect.types import TensorType, type_of
from burn.errors import Problem
from burn.runtime.abi import Status

STATUS_BITS = 8
"""A failure is an int64: the number of the op that failed, above as many bits of `Status`. 0: none."""


class Disagreement(Exception):
    """A condition on sizes does not hold."""

    def __init__(self, status: Status, site: str, value: int) -> None:
        super().__init__(status, site, value)
        self.status, self.site, self.value = status, site, value


class Emission:
    """Writes ops with a builder. weights: the value of a constant in the weight store, by key and type."""

    def __init__(self, builder: Builder, weights: Callable[[Any], Value], checks: bool = False) -> None:
        self.b, self.weights, self.checks = builder, weights, checks
        self.values: dict[ir.Value, Value] = {}
        self.sites: list[str] = []
        self.failure: tuple[Value, Value] | None = None

    def block(self, operations: Iterable[ir.OpView]) -> None:
        """All ops but the terminator. Raises Disagreement."""
        for operation in operations:
            if operation.OP_NAME in ("return", "yield"):
                continue
            self.op(operation)

    def op(self, op: Op) -> None:
        self.agree(op)
        results = EMITTERS[op.OP_NAME](Site(op, self))
        if results is None:
            return
        results = results if isinstance(results, (list, tuple)) else [results]
        for value, result in zip(op.operation.results, results, strict=True):
            self.values[value] = result

    # ---- conditions ----------------------------------------------------------------------------------------------------
    def agree(self, op: Op) -> None:
        """Raises Disagreement if sizes differ that the op takes to be equal."""
        for need in op.must_agree():
            size = self.b.size(need.size)
            try:
                wanted = self.b.size(need.wanted)
            except ValueError:  # sizes that do not broadcast
                raise Disagreement(Status.SHAPE_MISMATCH, full_name(op), size) from None
            if not (isinstance(size, int) and isinstance(wanted, int)):
                continue
            if not RELATIONS[need.relation](size, wanted):
                indexed = need.relation == "indexed"
                status = Status.INDEX_OUT_OF_RANGE if indexed else Status.SHAPE_MISMATCH
                raise Disagreement(status, full_name(op), size)

    def check(self, status: Status, op: Op, bad: Value, number: Value) -> None:
        """Ends the run with `number` (int64) where an element of `bad` (bool, of the same shape) is true."""
        if not self.checks:
            return
        b, axes = self.b, range(len(self.b.shape_of(bad)))
        self.sites.append(full_name(op))
        code = (len(self.sites) << STATUS_BITS) | status
        least = -(1 << 63)
        found = b.reduce("or", bad, False, axes)
        value = b.reduce("maximum", b.select(bad, number, b.like(least, number)), least, axes)
        failure = b.select(found, b.scalar(code, "int64"), b.scalar(0, "int64")), value
        if self.failure is not None:
            failed = b.compare("NE", self.failure[0], b.scalar(0, "int64"))
            failure = b.select(failed, self.failure[0], failure[0]), b.select(failed, self.failure[1], failure[1])
        self.failure = failure

    def fail(self, error: Disagreement) -> None:
        """Ends the run if it gets here: a block that is written although its sizes do not fit."""
        b = self.b
        self.sites.append(error.site)
        code = (len(self.sites) << STATUS_BITS) | error.status
        if self.failure is None:
            self.failure = b.scalar(code, "int64"), b.scalar(error.value, "int64")
            return
        failed = b.compare("NE", self.failure[0], b.scalar(0, "int64"))
        new = b.scalar(code, "int64"), b.scalar(error.value, "int64")
        self.failure = b.select(failed, self.failure[0], new[0]), b.select(failed, self.failure[1], new[1])

    def watched(self) -> tuple[Value, Value]:
        """The failure so far, for control flow to carry."""
        if self.failure is None:
            self.failure = self.b.scalar(0, "int64"), self.b.scalar(0, "int64")
        return self.failure


RELATIONS: Mapping[str, Callable[[int, int], bool]] = {
    "equal": lambda size, wanted: size == wanted,
    "at most": lambda size, wanted: size <= wanted,
    "broadcast": lambda size, wanted: size in (1, wanted),
    "indexed": lambda size, wanted: size > 0 or wanted <= 0,
}
"""Of `Agreement`."""


class Site:
    """One op being written."""

    def __init__(self, op: Op, emission: Emission) -> None:
        self.op: Any = op
        self.emission = emission
        self.b = emission.b

    def x(self, index: int) -> Value:
        """An operand."""
        return self.value(self.op.operation.operands[index])

    def value(self, value: ir.Value) -> Value:
        return self.emission.values[value]

    def type(self, index: int) -> TensorType:
        """The type of an operand, in burn."""
        return type_of(self.op.operation.operands[index])

    def result(self, index: int = 0) -> TensorType:
        return type_of(self.op.operation.results[index])

    def sizes(self, dims: Sequence[Dim]) -> tuple[Size, ...]:
        return tuple(map(self.b.size, dims))

    def shape(self, index: int = 0) -> tuple[Size, ...]:
        """Of a result."""
        return self.sizes(self.result(index).shape)


Emit = Callable[[Site], Any]

EMITTERS: dict[str, Emit] = {}
"""By op name. The modules in `ops/` fill it."""


def emits(*names: str) -> Callable[[Emit], Emit]:
    """Registers an emitter, which returns the result, several, or None for an op without any."""

    def register(function: Emit) -> Emit:
        EMITTERS.update(dict.fromkeys(names, function))
        return function

    return register


def refused(op: Op, calls: bool = False) -> str:
    """The reason why an op cannot be written; "" if it can. calls: the builder calls custom ops."""
    values = (*op.operation.operands, *op.operation.results)
    odd = next((d for v in values if not has_carrier(d := type_of(v).dtype)), None)
    if odd is not None:
        return f"StableHLO has no element type {odd}"
    if isinstance(op, Custom) and not calls:
        bodies = " and ".join(BODIES[kind] for kind in sorted(op.definition.bodies))
        return f"{op.called} has no body of burn functions, only {bodies}, which StableHLO cannot call"
    if op.OP_NAME not in EMITTERS and op.OP_NAME not in ("return", "yield"):
        return f"burn.{op.OP_NAME} has no form in StableHLO"
    if isinstance(op, (If, Loop)) and op.symbols:
        return f"the sizes of burn.{op.OP_NAME} depend on data"
    return ""


def problems(block: ir.Block, calls: bool = False) -> list[Problem]:
    """Every op in a block, and in the regions of its ops, that cannot be written. calls: see `refused`."""
    return [
        Problem(reason, op=op.OP_NAME, node=site(op))
        for inner in blocks(block)
        for operation in inner.operations
        if isinstance(op := operation.opview, Op) and (reason := refused(op, calls))
    ]
