"""The argument of an op's rule: one op of the program with its operands as values. Enter at `Node`, `rule`.

    @rule("transpose")
    def transpose(node: Node) -> ir.Value:
        return compose.transpose(node.x(0), node.ints("permutation"))

A rule builds at the insertion point and returns one value, or a list of values. It reads every attribute that has an effect: an
unread attribute is an error (`unread`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from burn.dialect import ops
from burn.dialect.compose import convert
from burn.dialect.dims import Dim, Expr
from burn.dialect.mlir import ir
from burn.dialect.types import DTYPES, TensorType, type_of
from burn.errors import ModelError, Problem
from burn.importers.stablehlo.known import Condition
from burn.importers.stablehlo.syntax.module import (
    Block,
    DialectAttribute,
    Elements,
    Operation,
    QuantizedType,
    Ranked,
    SymbolRef,
)

if TYPE_CHECKING:
    from burn.importers.stablehlo.build import Importer

Rule = Callable[["Node"], Any]
RULES: dict[str, Rule] = {}
"""An op's full name ("stablehlo.add") -> its rule."""

REFUSED: dict[str, str] = {}
"""An op's full name -> the reason why it has no meaning in a program for one device."""

HINTS = frozenset(
    (
        "result_accuracy",  # how exact a compiler must be; burn's functions are as exact as HIGHEST
        "indices_are_sorted",
        "unique_indices",
        "precision_config",  # lower precision that an engine may use; burn has `precision=` for it
        "known_expanding_dimensions",
        "known_nonexpanding_dimensions",
        "operand_layouts",
        "result_layouts",
        "output_operand_aliases",
    )
)
"""Attributes that say how a result may be computed, not what it is."""

FOREIGN = ("sdy.", "mhlo.", "jax.", "xla.", "tf.")
"""Prefixes of annotations for other compilers: shardings over devices (a program here is for one), schedules, names."""


POINTWISE: set[str] = {
    "stablehlo.constant",
    "stablehlo.convert",
    "stablehlo.compare",
    "stablehlo.select",
    "stablehlo.clamp",
    "stablehlo.reduce_precision",
    "stablehlo.bitcast_convert",
    "stablehlo.optimization_barrier",
    "stablehlo.composite",
    "func.call",
    "func.return",
}
"""Ops that a region of scalars may have where it is computed for all elements at once."""


class Token:
    """The value of an op that has none: it orders effects."""


TOKEN = Token()
_MISSING = object()


@dataclass(frozen=True)
class RowWrite:
    """The result of dynamic_update_slice that replaces one index of one axis. index: over iterations of loops. alone: True if
    nothing else has used `x` so far; uses: how many operands are x after it."""

    x: ir.Value
    axis: int
    index: Dim
    update: ir.Value
    alone: bool
    uses: int


def rule(*names: str, dialect: str = "stablehlo") -> Callable[[Rule], Rule]:
    """Enters a rule into the table under one or more names."""

    def register(function: Rule) -> Rule:
        for name in names:
            key = f"{dialect}.{name}"
            if key in RULES or key in REFUSED:
                raise ValueError(f"{key} has two rules")
            RULES[key] = function
        return function

    return register


@dataclass
class Node:
    """One op, its operands as values, and what was read of it."""

    op: Operation
    importer: Importer
    operands: Sequence[Any]
    reads: set[str] = field(default_factory=set)

    # ---- errors ------------------------------------------------------------------------------------------------------
    def problem(self, message: str, hint: str = "") -> Problem:
        return Problem(message, node=self.importer.where(self.op), op=self.op.name, hint=hint)

    def located(self, problem: Problem) -> Problem:
        return problem if problem.op == self.op.name else self.problem(problem.message, problem.hint)

    def fail(self, message: str, hint: str = "") -> NoReturn:
        raise ModelError("the program cannot be imported", [self.problem(message, hint)])

    # ---- operands ----------------------------------------------------------------------------------------------------
    def x(self, index: int) -> ir.Value:
        """An operand that is a tensor."""
        if index >= len(self.operands):
            self.fail(f"operand {index} is missing")
        return self.tensor(self.operands[index], f"operand {index}")

    def tensor(self, value: Any, what: str) -> ir.Value:
        if not isinstance(value, ir.Value):
            self.fail(f"{what} is a {type(value).__name__.lower()}, and a tensor is wanted")
        return value

    @property
    def xs(self) -> list[ir.Value]:
        return [self.x(i) for i in range(len(self.operands))]

    def type(self, index: int) -> TensorType:
        return type_of(self.x(index))

    def shape(self, index: int) -> tuple[Dim, ...]:
        return self.type(index).shape

    def elements(self, index: int) -> np.ndarray | None:
        """The elements of an operand, if they are known."""
        value = self.operands[index]
        return self.importer.known(value) if isinstance(value, ir.Value) else None

    def sizes(self, index: int, minimum: int | None = 0) -> list[Dim]:
        """The elements of an integer tensor as sizes: exact expressions where they are known, else sizes that the program reads
        when it runs."""
        found = self.elements(index)
        if found is not None and not any(isinstance(e, Condition) for e in found.reshape(-1)):
            return [int(e) if not isinstance(e, Expr) else e for e in found.reshape(-1)]
        x = self.x(index)
        count = type_of(x).elements
        if not isinstance(count, int):
            self.fail("a shape has an unknown number of sizes")
        return [self.read_dim(x, position, minimum) for position in range(count)]

    def read_dim(self, x: ir.Value, position: int = 0, minimum: int | None = 0) -> Expr:
        """A size that the program reads, an element of an integer tensor."""
        tracer = self.importer.tracer
        size = tracer.new_size(tracer.fresh("size"))
        least = -(2**31) if minimum is None else minimum
        ops.read_dim(convert(x, "int64"), symbol=str(size), position=position, minimum=least)
        return size

    # ---- types -------------------------------------------------------------------------------------------------------
    def operand_type(self, index: int) -> Any:
        return self.op.type.inputs[index]

    def result(self, index: int = 0) -> Ranked:
        """The type that the file declares for a result."""
        type_ = self.op.type.results[index]
        if not isinstance(type_, Ranked):
            self.fail(f"result {index} is a {type_}, and a tensor is wanted")
        return type_

    @property
    def dtype(self) -> str:
        """The result's element type."""
        element = self.result().element
        if isinstance(element, QuantizedType):
            self.fail(f"has a result of the quantized type {element}, and is not supported for such")
        if element not in DTYPES:
            self.fail(f"has a result of {element}, an element type that burn does not have")
        return element

    def static_shape(self, index: int = 0) -> tuple[int, ...]:
        """The declared sizes of a result. Fails if the file leaves one open."""
        shape = self.result(index).shape
        if None in shape:
            self.fail(f"the sizes of its result {self.result(index)} are not known", "use the op's dynamic form")
        return tuple(size or 0 for size in shape)

    # ---- attributes --------------------------------------------------------------------------------------------------
    def attribute(self, name: str, default: Any = _MISSING) -> Any:
        self.reads.add(name)
        value = self.op.attributes.get(name, default)
        if value is _MISSING:
            self.fail(f"attribute '{name}' is missing")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.attribute(name, _MISSING if default is None else default)
        if not isinstance(value, int):
            self.fail(f"attribute '{name}' is no integer")
        return int(value)

    def number(self, name: str, default: float | None = None) -> float:
        value = self.attribute(name, _MISSING if default is None else default)
        if not isinstance(value, (int, float)):
            self.fail(f"attribute '{name}' is no number")
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.attribute(name, default)
        if not isinstance(value, bool):
            self.fail(f"attribute '{name}' is no bool")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        value = self.attribute(name, _MISSING if default is None else default)
        if not isinstance(value, str):
            self.fail(f"attribute '{name}' is no string")
        return value

    def ints(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """A list of integers: an array, or a dense vector or matrix, flat."""
        value = self.attribute(name, _MISSING if default is None else tuple(default))
        if isinstance(value, Elements):
            value = [e.item() for e in value.full().reshape(-1)]
        if not isinstance(value, (tuple, list)) or not all(isinstance(e, int) for e in value):
            self.fail(f"attribute '{name}' is no list of integers")
        return tuple(int(e) for e in value)

    def flags(self, name: str, count: int) -> tuple[bool, ...]:
        value = self.attribute(name, None)
        if isinstance(value, Elements):
            value = [bool(e) for e in value.full().reshape(-1)]
        return tuple(bool(v) for v in value) if value else (False,) * count

    def padding(self, name: str, count: int) -> list[tuple[int, int]]:
        """Pairs of numbers, (0, 0) for each axis without the attribute."""
        flat = self.ints(name, (0, 0) * count)
        return list(zip(flat[::2], flat[1::2], strict=True))

    def word(self, name: str, default: str | None = None) -> str:
        """The value of an enumeration."""
        value = self.attribute(name, _MISSING if default is None else default)
        if isinstance(value, DialectAttribute):
            return value.word
        if not isinstance(value, str):
            self.fail(f"attribute '{name}' is no word")
        return value

    def fields(self, name: str, default: str | None = None) -> dict[str, Any]:
        """The entries of a structure: `#stablehlo.gather<offset_dims = [0], index_vector_dim = 1>`."""
        value = self.attribute(name, _MISSING if default is None else DialectAttribute("", default))
        if not isinstance(value, DialectAttribute):
            self.fail(f"attribute '{name}' is no structure")
        return self.importer.structure(value)

    def symbol(self, name: str) -> str:
        value = self.attribute(name)
        if not isinstance(value, SymbolRef):
            self.fail(f"attribute '{name}' is no name of a function")
        return value.name

    def no_effect(self, *names: str) -> None:
        """Notes attributes that do not change this op's result."""
        self.reads.update(names)

    def unread(self) -> list[Problem]:
        names = [n for n in self.op.attributes if n not in self.reads | HINTS and not n.startswith(FOREIGN)]
        return [self.problem(f"attribute '{name}' is not supported") for name in names]

    # ---- regions -----------------------------------------------------------------------------------------------------
    def block(self, index: int = 0) -> Block:
        """The block of a region."""
        if index >= len(self.op.regions) or len(self.op.regions[index]) != 1:
            self.fail(f"region {index} does not have one block")
        return self.op.regions[index][0]

    def build(self, block: Block, arguments: Sequence[Any], lifted: bool = False) -> list[Any]:
        """Builds a region's ops at the insertion point and returns its results. lifted: the arguments are tensors of one shape
        in place of scalars, and the region is computed for every element."""
        return self.importer.region(self, block, arguments, lifted)

    def one(self, block: Block, *arguments: Any, lifted: bool = True) -> ir.Value:
        """The single tensor that a region gives."""
        values = self.importer.region(self, block, arguments, lifted)
        if len(values) != 1:
            self.fail(f"its region gives {len(values)} values, not one")
        return self.tensor(values[0], "the region's result")
