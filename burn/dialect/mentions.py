"""The named sizes in ops: in their attributes, in the types of their operands and results, and in their regions."""

from __future__ import annotations

from burn.dialect.control import defined_symbols
from burn.dialect.dims import Dim, symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.types import TensorType


def dim_attributes(op: Op) -> dict[str, tuple[Dim, ...]]:
    """The attributes of an op that hold sizes."""
    found = {}
    for attr in op.SIZES:
        value = attr.read(op.operation)
        if value is not None:
            found[attr.name] = value if isinstance(value, tuple) else (value,)
    return found


def attribute_symbols(op: Op) -> set[str]:
    """The sizes in an op's attributes."""
    if not op.SIZES:
        return set()
    return {name for dims in dim_attributes(op).values() for dim in dims for name in symbols(dim)}


def used_symbols(op: Op) -> set[str]:
    """The sizes that an op and its regions use, without those that it defines."""
    operation, names = op.operation, attribute_symbols(op)
    if op.REGIONS:
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    if isinstance(inner.opview, Op):
                        names |= used_symbols(inner.opview)
    for value in operation.operands:
        names |= _type_symbols(value.type)
    for value in operation.results:
        names |= _type_symbols(value.type)
    return names - defined_symbols(op) if op.IS_DEFINER else names


def _type_symbols(type_: ir.Type) -> frozenset[str]:
    """The sizes in the type of a value."""
    known = _OF_TYPES.get(type_)
    if known is None:
        shape = TensorType.from_mlir(type_).shape if isinstance(type_, ir.RankedTensorType) else ()
        known = _OF_TYPES[type_] = frozenset(name for dim in shape for name in symbols(dim))
    return known


_OF_TYPES: dict[ir.Type, frozenset[str]] = {}
