"""The argument of an op's builder: one call of a torch graph with its operands as values of the program. Enter at `Node`, `aten`.

    @aten("_softmax.default", "softmax.int")
    def softmax(node: Node, x: ir.Value, dim: int, dtype: torch.dtype | None = None) -> ir.Value:
        return ops.softmax(node.as_result(x), axis=dim)

A builder takes the arguments of the ATen schema in its order, defaults filled in, keyword-only ones by name. A tensor is
an ir.Value, a SymInt a size (int or Expr), a SymFloat or SymBool a scalar ir.Value. It builds at the insertion point and
returns one value, or a list for several (None for one that nothing uses).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from torch import fx

from burn.dialect import ops
from burn.dialect.compose import convert, dim_value, number
from burn.dialect.dims import Dim, Expr
from burn.dialect.mlir import ir
from burn.dialect.types import PARTS, TensorType, type_of
from burn.errors import ModelError, Problem
from burn.importers.torch.dtypes import dtype_name

if TYPE_CHECKING:
    from burn.importers.torch.build import Importer

Builder = Callable[..., Any]
BUILDERS: dict[str, Builder] = {}
"""An operator overload's name ("aten.add.Tensor") -> its builder."""


def aten(*names: str, namespace: str = "aten") -> Callable[[Builder], Builder]:
    """Enters a builder into the table under one or more overloads."""

    def register(builder: Builder) -> Builder:
        for name in names:
            key = f"{namespace}.{name}"
            if key in BUILDERS:
                raise ValueError(f"{key} has two builders")
            BUILDERS[key] = builder
        return builder

    return register


def higher_order(name: str) -> Callable[[Builder], Builder]:
    """Enters the builder of an operator that takes graphs (torch.cond ...)."""

    def register(builder: Builder) -> Builder:
        BUILDERS[name] = builder
        return builder

    return register


@dataclass
class Node:
    """One call in a graph: the operator's name, where it came from, and what torch found out about its results."""

    fx: fx.Node
    importer: Importer
    op: str

    @property
    def name(self) -> str:
        """The module that the call is in, such as encoder.layer.0.attention."""
        return module_path(self.fx)

    def problem(self, message: str, hint: str = "") -> Problem:
        where = ": ".join(filter(None, (self.name, source_line(self.fx))))
        return Problem(message, node=where or self.fx.name, op=self.op, hint=hint)

    def located(self, problem: Problem) -> Problem:
        return problem if problem.op == self.op else self.problem(problem.message, problem.hint)

    def fail(self, message: str, hint: str = "") -> NoReturn:
        raise ModelError("the program cannot be imported", [self.problem(message, hint)])

    # ---- results -----------------------------------------------------------------------------------------------------
    @property
    def meta(self) -> Any:
        """torch's fake result: a tensor, a SymInt ..., or a sequence of them."""
        return self.fx.meta.get("val")

    def result_type(self, index: int | None = None) -> TensorType:
        """The type that torch gives the result (or one of several)."""
        value = self.meta if index is None else self.meta[index]
        return self.importer.tensor_type(value)

    @property
    def dtype(self) -> str:
        value = self.meta
        return dtype_name((value[0] if isinstance(value, (list, tuple)) else value).dtype)

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.result_type().shape

    def uses(self, index: int, but: Callable[[fx.Node], bool] = lambda user: False) -> bool:
        """True if anything reads the result `index`, except for the users that `but` excludes."""
        for user in self.fx.users:
            if user.target is not operator.getitem:
                return True
            if user.args[1] == index and not all(map(but, user.users)):
                return True
        return False

    # ---- values ------------------------------------------------------------------------------------------------------
    def as_result(self, x: ir.Value) -> ir.Value:
        """An operand in the result's element type."""
        return convert(x, self.dtype)

    def scalar(self, value: Any, dtype: str | None = None) -> ir.Value:
        """A tensor operand, a number, a size, as a value of an element type (the result's by default)."""
        dtype = dtype or self.dtype
        if isinstance(value, ir.Value):
            return convert(value, dtype)
        if isinstance(value, Expr):
            return dim_value(value, dtype)
        if isinstance(value, complex):
            if dtype not in PARTS:
                self.fail(f"{value} is no {dtype}")
            return ops.complex(*(number(part, PARTS[dtype]) for part in (value.real, value.imag)))
        return number(value, dtype)

    def argument_meta(self, position: int) -> Any:
        """torch's view of an operand: a fake tensor, a symbolic number, or the number itself."""
        argument = self.importer.bound(self.fx)[0][position]
        return argument.meta["val"] if isinstance(argument, fx.Node) else argument

    def read_dim(self, value: ir.Value, expression: Any, position: int = 0, minimum: int = 0) -> Expr:
        """A new size, an element of an integer tensor that is read while the program runs, in place of torch's symbol."""
        size = self.new_size("size")
        ops.read_dim(convert(value, "int64"), symbol=str(size), position=position, minimum=minimum)
        self.importer.sizes.bind(expression, size)
        return size

    def new_size(self, hint: str) -> Expr:
        """A size that this call defines, under a name that nothing else in the program has."""
        tracer = self.importer.tracer
        return tracer.new_size(tracer.fresh(hint))

    # ---- axes --------------------------------------------------------------------------------------------------------
    def axis(self, axis: int, x: ir.Value | int) -> int:
        rank = x if isinstance(x, int) else type_of(x).rank
        return axis % rank if rank else 0

    def axes(self, axes: Sequence[int] | int | None, x: ir.Value) -> tuple[int, ...]:
        """Axes in ascending order; None or an empty list means all of them."""
        rank = type_of(x).rank
        if isinstance(axes, int):
            axes = [axes]
        if not axes:
            return tuple(range(rank))
        return tuple(sorted({a % rank for a in axes})) if rank else ()


def module_path(node: fx.Node) -> str:
    """encoder.layer.0.attention: the innermost module that the call stands in, "" for the outermost."""
    stack = node.meta.get("nn_module_stack") or {}
    path = ""
    for entry in stack.values():
        if isinstance(entry, tuple) and isinstance(entry[0], str):
            path = entry[0]
    for prefix in ("L['self'].", "L__self___", "L['self']"):
        path = path.removeprefix(prefix)
    return "" if path.startswith("_empty") else path


def source_line(node: fx.Node) -> str:
    """modeling_bert.py:123: the innermost line of Python that made the call."""
    file, line = source_location(node)
    return f"{file.rsplit('/', 1)[-1]}:{line}" if file else ""


def source_location(node: fx.Node) -> tuple[str, int]:
    for text in reversed((node.meta.get("stack_trace") or "").splitlines()):
        text = text.strip()
        if text.startswith('File "'):
            file, _, rest = text[6:].partition('", line ')
            number_ = rest.split(",")[0]
            return (file, int(number_)) if number_.isdigit() else ("", 0)
    return "", 0
