"""A StableHLO module becomes a program: every op, in order, through one table of rules. Enter at `import_stablehlo`.

Calls are inlined. The build continues after a problem: an op that cannot be built leaves its results `FAILED`, and ops that
depend on
those are skipped. At the end one ModelError lists all problems. An op without a rule is listed once, with the lines that use it.
"""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect.complexes.pair import Complex
from burn.dialect.compose import reshape
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import type_of
from burn.dialect.weights import array_weight
from burn.errors import ModelError, Problem
from burn.importers.core import FAILED, SHOWN, Problems, Skipped
from burn.importers.stablehlo.complexes import COMPLEX, computes_with_complex, real_type
from burn.importers.stablehlo.known import folded, materialise, mentions
from burn.importers.stablehlo.node import POINTWISE, REFUSED, RULES, Node, RowWrite, Rule
from burn.importers.stablehlo.ops import load_rules
from burn.importers.stablehlo.parsing import as_file, generic_form
from burn.importers.stablehlo.recognition import recognise
from burn.importers.stablehlo.signature import Signature, read_signature
from burn.importers.stablehlo.structure import read_structure
from burn.importers.stablehlo.syntax.locations import read_location
from burn.importers.stablehlo.syntax.module import Block, DialectAttribute, Module, Operation, QuantizedType, Ranked
from burn.importers.stablehlo.syntax.reader import read_module
from burn.tensors.tracer import Tracer, tracing

if TYPE_CHECKING:
    from collections.abc import Iterator

SUMMARY = "the StableHLO program cannot be imported"

MOST_OPS = 1_000_000
"""Ops of a program after its calls are inlined."""

SCALAR_VIEWS = ("stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.transpose")
"""Ops that do nothing to a scalar."""

CONTAINERS = ("stablehlo.while", "stablehlo.if", "stablehlo.case")
"""Ops that hand values on, complex ones among them."""

TERMINATORS = ("func.return", "stablehlo.return")


def import_stablehlo(source: str | os.PathLike[str] | bytes, *, dims: Mapping[str, int] | None = None) -> Program:
    """A StableHLO program (text, bytecode, or an artefact of jax.export; a path or bytes) as one of burn's.

    dims: values for named sizes; the others stay dynamic. Raises ModelError that lists everything that cannot be imported."""
    if isinstance(source, bytes):
        with as_file(source) as path:
            return _import(path, recognise(source) or "text", "the program", dims or {})
    path = Path(source)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {path}", [error.strerror or str(error)]) from None
    return _import(path, recognise(content, path.name) or "text", str(path), dims or {})


def _import(path: Path, kind: str, name: str, dims: Mapping[str, int]) -> Program:
    load_rules()
    form = generic_form(path, kind)
    module = read_module(form.text, name)
    return Importer(module, read_signature(module, form.notes, name, dims), name).run()


class Importer:
    """The state of one import."""

    def __init__(self, module: Module, signature: Signature, name: str) -> None:
        self.module = module
        self.signature = signature
        self.name = name
        self.tracer = Tracer([(v.name, v.type) for v in signature.inputs])
        self.problems = Problems(SUMMARY)
        self.count = 0
        self._known: dict[ir.Value, np.ndarray] = {}
        self.steps: set[str] = set()
        """Symbols of iterations of loops. Arithmetic uses them, and the program has no such sizes."""
        self.rows: dict[ir.Value, RowWrite] = {}
        self._scope: ChainMap[str, Any] = ChainMap()
        self._missing: dict[str, list[str]] = {}
        self._calls: list[str] = []
        self._lifted: tuple[Dim, ...] | None = None
        self._structures: dict[DialectAttribute, dict[str, Any]] = {}

    # ---- the program -------------------------------------------------------------------------------------------------
    def run(self) -> Program:
        main = self.module.functions[self.signature.function]
        with tracing(self.tracer):
            given: list[Any] = []
            inputs = self.tracer.program.inputs
            for source in self.signature.arguments:
                if isinstance(source, int):
                    given.append(inputs[source])
                    continue
                value = np.empty((), object)
                value[()] = source.value
                made = materialise(value, source.dtype)
                assert made is not None
                self.note(made, value)
                given.append(made)
            results = self.build_block(main.regions[0][0], given) if main.regions and main.regions[0] else []
            if not main.regions or not main.regions[0]:
                self.problems.add(Problem("has no body", op="func.func", node=f"@{self.signature.function}"))
            outputs = [self._output(name, value) for name, value in zip(self.signature.outputs, results, strict=False)]
        self._raise_problems()
        return self.tracer.program.finish([o for o in outputs if o is not None])

    def _output(self, name: str, value: Any) -> tuple[str, ir.Value] | None:
        if isinstance(value, ir.Value):
            return name, value
        if value is not FAILED:
            self.problems.add(
                Problem(f"output '{name}' is a {type(value).__name__.lower()}; only tensors can be outputs")
            )
        return None

    def _raise_problems(self) -> None:
        for op, locations in self._missing.items():
            sources = list(dict.fromkeys(locations))
            shown = ", ".join(sources[:SHOWN]) + (f" and {len(sources) - SHOWN} more" * (len(sources) > SHOWN))
            times = f"{len(locations)} time{'s' * (len(locations) > 1)}"
            reason = REFUSED.get(op, "is not supported")
            self.problems.add(Problem(f"{reason}; used {times}{f' in {shown}' if shown else ''}", op=op))
        self._missing.clear()
        self.problems.raise_any()

    # ---- functions and regions ---------------------------------------------------------------------------------------
    def call(self, node: Node, name: str, arguments: Sequence[Any]) -> list[Any]:
        """Builds the body of a function at the insertion point."""
        function = self.module.functions.get(name)
        if function is None or not function.regions or len(function.regions[0]) != 1:
            node.fail(f"there is no function @{name} with a body")
        if name in self._calls:
            node.fail(f"@{name} calls itself", "a program of StableHLO has no recursion")
        self._calls.append(name)
        outer, self._scope = self._scope, ChainMap()
        try:
            return self.build_block(function.regions[0][0], arguments)
        finally:
            self._scope = outer
            self._calls.pop()

    def build_block(self, block: Block, arguments: Sequence[Any], lifted: bool = False) -> list[Any]:
        """Builds a block's ops at the insertion point; returns its results. Raises Skipped where one could not be built in a
        region of an op."""
        if len(arguments) != len(block.arguments):
            raise ModelError(SUMMARY, [f"a block takes {len(block.arguments)} arguments, not {len(arguments)}"])
        outer, before = self._scope, self._lifted
        self._scope = outer.new_child({name: v for (name, _, _), v in zip(block.arguments, arguments, strict=True)})
        if lifted:
            self._lifted = type_of(arguments[0]).shape if arguments else ()
        try:
            for op in block.ops:
                if op.name in TERMINATORS:
                    return [self._value(name) for name in op.operands]
                self._build(op)
            return []
        finally:
            self._scope, self._lifted = outer, before

    def region(self, node: Node, block: Block, arguments: Sequence[Any], lifted: bool = False) -> list[Any]:
        """As `build_block`; raises Skipped if a result could not be built."""
        values = self.build_block(block, arguments, lifted)
        if any(value is FAILED for value in values):
            raise Skipped
        return values

    def lookup(self, name: str) -> Any:
        """The value of a name, None if it has none here."""
        return self._scope.get(name)

    def _value(self, name: str) -> Any:
        if name not in self._scope:
            self.problems.add(Problem(f"'{name}' is not defined"))
            self._scope[name] = FAILED
        return self._scope[name]

    # ---- ops ---------------------------------------------------------------------------------------------------------
    def _build(self, op: Operation) -> None:
        self.count += 1
        if self.count > MOST_OPS:
            raise ModelError(SUMMARY, [f"it has more than {MOST_OPS} ops when its calls are inlined"])
        try:
            values = self._results(op)
        except Skipped:
            values = [FAILED] * len(op.results)
        for name, value in zip(op.results, values, strict=True):
            self._scope[name] = value

    def _results(self, op: Operation) -> list[Any]:
        operands = [self._value(name) for name in op.operands]
        if any(operand is FAILED for operand in operands):
            raise Skipped
        rule = self._rule(op, operands)
        if rule is None:
            self._missing.setdefault(op.name, []).append(self.where(op))
            raise Skipped
        node = Node(op, self, operands)
        if self._lifted is not None and op.name not in POINTWISE:
            if op.name in SCALAR_VIEWS and all(isinstance(t, Ranked) and not t.shape for t in op.type.results):
                return operands
            self.problems.add(node.problem("is not supported in a region that is computed for all elements at once"))
            raise Skipped
        with self.problems.building(node), self._location(op):
            elements = None if self._lifted is not None else self._folded(node)
            unnamed = elements is not None and mentions(elements, self.steps)
            value = None if elements is None or unnamed else materialise(elements, node.dtype)
            if value is None:
                result = rule(node)
                values = list(result) if isinstance(result, (list, tuple)) else [] if result is None else [result]
            else:
                values = [value]
            self.problems.found += node.unread()
            if len(values) != len(op.type.results):
                node.fail(f"was built with {len(values)} results, not {len(op.type.results)}")
            values = [self._fitted(node, v, t) for v, t in zip(values, op.type.results, strict=True)]
            if elements is not None:
                self.note(values[0], elements)
        return values if op.results else []

    def _rule(self, op: Operation, operands: Sequence[Any]) -> Rule | None:
        if op.name in CONTAINERS or not (computes_with_complex(op) or any(isinstance(v, Complex) for v in operands)):
            return RULES.get(op.name)
        rule = COMPLEX.get(op.name)
        if rule is None and op.name in RULES:
            self.problems.add(Node(op, self, operands).problem("is not supported for complex numbers"))
            raise Skipped
        return rule

    def _folded(self, node: Node) -> np.ndarray | None:
        known = [self._known.get(v) if isinstance(v, ir.Value) else None for v in node.operands]
        return folded(node, known)

    def note(self, value: ir.Value, elements: np.ndarray) -> None:
        """Records the elements of a tensor, for arithmetic with sizes."""
        self._known[value] = elements

    def known(self, value: ir.Value) -> np.ndarray | None:
        """The elements of a tensor, if they are known and the program can name them."""
        found = self._known.get(value)
        return None if found is None or mentions(found, self.steps) else found

    def in_loop(self, value: ir.Value) -> np.ndarray | None:
        """As `known`; elements may be expressions over iterations (`steps`)."""
        return self._known.get(value)

    @property
    def lifted(self) -> bool:
        """True in a region of scalars that is computed for all elements of tensors at once."""
        return self._lifted is not None

    @contextmanager
    def unlifted(self) -> Iterator[None]:
        before, self._lifted = self._lifted, None
        try:
            yield
        finally:
            self._lifted = before

    def constant(self, array: np.ndarray, hint: str) -> ir.Value:
        return self.tracer.literal(array_weight(array), hint)

    def _fitted(self, node: Node, value: Any, declared: Any) -> Any:
        """Holds a rule to the file's types: element type, rank, sizes."""
        if isinstance(value, Complex):
            part = real_type(declared)
            return Complex(*(self._fitted(node, p, part) for p in (value.real, value.imag)))
        if not isinstance(value, ir.Value) or not isinstance(declared, Ranked):
            return value
        have = type_of(value)
        element = declared.element.dtype if isinstance(declared.element, QuantizedType) else declared.element
        if self._lifted is not None and not declared.shape:
            if have.dtype != element:
                node.fail(f"was built as {have}, the file says {declared}")
            return value
        pairs = zip(have.shape, declared.shape, strict=False)
        wrong = any(isinstance(a, int) and b is not None and a != b for a, b in pairs)
        if have.dtype != element or have.rank != len(declared.shape) or wrong:
            node.fail(f"was built as {have}, the file says {declared}")
        shape = tuple(a if b is None else b for a, b in zip(have.shape, declared.shape, strict=True))
        return reshape(value, shape)

    # ---- source locations --------------------------------------------------------------------------------------------
    def where(self, op: Operation) -> str:
        """The source location of an op, as an error names it."""
        return str(read_location(op.location, self.module.locations)) or f"op {op.number}"

    @contextmanager
    def _location(self, op: Operation) -> Iterator[None]:
        found = read_location(op.location, self.module.locations)
        name = "/".join(found.names[:1]) or op.name
        file, line = (found.file.rsplit("/", 1)[-1], found.line) if found.file else (Path(self.name).name, op.number)
        with ir.Location.name(name, ir.Location.file(file, line, 0)):
            yield

    def structure(self, attribute: DialectAttribute) -> dict[str, Any]:
        known = self._structures.get(attribute)
        if known is None:
            known = self._structures[attribute] = read_structure(attribute.body)
        return known
