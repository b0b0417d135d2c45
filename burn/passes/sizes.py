"""Replaces symbols by sizes that became known, in every type and attribute of a program."""

from __future__ import annotations

from collections.abc import Mapping

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
    """Replaces symbols by expressions. The caller must erase the symbols' definers. checked: the symbols are sizes of
    inputs that the program checks. Types of inputs and checks keep them."""
    atoms: dict[Atom, Dim] = {Symbol(name): dim for name, dim in values.items()}

    def replaced(dim: Dim) -> Dim:
        return dim if symbols(dim).isdisjoint(values) else substitute(dim, atoms)

    def retype(value: ir.Value) -> None:
        have = type_of(value)
        want = have.with_shape(tuple(replaced(d) for d in have.shape))
        if have != want:
            value.set_type(want.to_mlir())

    for block in blocks(program.block):
        for argument in block.arguments if not checked or block != program.block else ():
            retype(argument)
        for operation in block.operations:
            op = operation.opview
            if not isinstance(op, Op) or (checked and isinstance(op, CheckSize)):
                continue
            for name, dims in dim_attributes(op).items():
                made = tuple(replaced(d) for d in dims)
                if made != dims:
                    value = made if isinstance(getattr(op, name), tuple) else made[0]
                    op.operation.attributes[name] = op.ATTRS[name].codec.encode(value)
            for result in op.operation.results:
                retype(result)
            if is_pure(op):
                _infer_again(op)
    types_ = [v.type for v in program.inputs], [v.type for v in program.outputs]
    program.function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types_))


def _infer_again(op: Op) -> None:
    """Infers the result types again: a maximum with a known size may simplify."""
    groups = [[type_of(v) for v in g] if isinstance(g, list) else None if g is None else type_of(g) for g in op.args]
    inferred = op.infer(*groups, **op.attrs)
    for result, type_ in zip(
        op.operation.results, [inferred] if isinstance(inferred, TensorType) else inferred, strict=True
    ):
        if type_of(result) != type_:
            result.set_type(type_.to_mlir())
