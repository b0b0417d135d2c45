"""Replaces symbols by sizes that became known, in every type and attribute of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from burn.dialect.dims import Atom, Dim, Symbol, substitute, symbols
from burn.dialect.mentions import dim_attributes
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks
from burn.dialect.shape import CheckSize
from burn.dialect.types import TensorType, type_of
from burn.passes.constants import is_pure


def replace_sizes(program: Program, values: Mapping[str, Dim], checked: bool = False) -> None:
    """Replaces symbols by expressions. The caller must erase the symbols' definers. checked: the symbols are sizes of inputs
    that the program checks. Types of inputs and checks keep them, and the caller must read the inputs through views. Raises
    TypeMismatch if an op does not accept its new types, and ZeroDivisionError if a size is divided by 0. Then nothing has
    changed."""
    replacement = _Replacement(values)
    for block in blocks(program.block):
        for argument in block.arguments:
            replacement.retype(argument)
        for operation in block.operations:
            op = operation.opview
            if isinstance(op, Op) and not (checked and isinstance(op, CheckSize)):
                replacement.visit(op)
    replacement.apply(program.inputs if checked else ())
    types_ = [v.type for v in program.inputs], [v.type for v in program.outputs]
    program.function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types_))


class _Replacement:
    """The types and attributes that change. Those of a whole program are found before any is written."""

    def __init__(self, values: Mapping[str, Dim]) -> None:
        self.names = values.keys()
        self.atoms: dict[Atom, Dim] = {Symbol(name): dim for name, dim in values.items()}
        self.types: dict[ir.Value, TensorType] = {}
        self.attributes: list[tuple[Op, str, tuple[Dim, ...] | Dim]] = []

    def type(self, value: ir.Value) -> TensorType:
        return self.types.get(value) or type_of(value)

    def replaced(self, dim: Dim) -> Dim:
        return dim if symbols(dim).isdisjoint(self.names) else substitute(dim, self.atoms)

    def retype(self, value: ir.Value) -> None:
        have = type_of(value)
        want = have.with_shape(tuple(self.replaced(d) for d in have.shape))
        if have != want:
            self.types[value] = want

    def visit(self, op: Op) -> None:
        """Infers the result types of a pure op again: a maximum with a known size may simplify."""
        changed: dict[str, tuple[Dim, ...] | Dim] = {}
        for name, dims in dim_attributes(op).items():
            made = tuple(self.replaced(d) for d in dims)
            if made != dims:
                changed[name] = made if isinstance(getattr(op, name), tuple) else made[0]
        self.attributes += [(op, name, value) for name, value in changed.items()]
        results = list(op.operation.results)
        for result in results:
            self.retype(result)
        if is_pure(op):
            groups = [
                [self.type(v) for v in g] if isinstance(g, list) else None if g is None else self.type(g)
                for g in op.args
            ]
            inferred = op.infer(*groups, **(op.attrs | changed))
            found = [inferred] if isinstance(inferred, TensorType) else inferred
            self.types.update(zip(results, found, strict=True))

    def apply(self, kept: Sequence[ir.Value]) -> None:
        """kept: values that keep their types."""
        for op, name, value in self.attributes:
            op.operation.attributes[name] = op.ATTRS[name].codec.encode(value)
        for value, want in self.types.items():
            if type_of(value) != want and value not in kept:
                value.set_type(want.to_mlir())
