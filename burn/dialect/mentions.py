"""The sizes that ops mention: in their attributes, in the types of what they read and make, in their regions."""

from __future__ import annotations

from burn.dialect.control import defined_symbols
from burn.dialect.dims import Dim, symbols
from burn.dialect.mlir import ir
from burn.dialect.op import CODECS, Op
from burn.dialect.types import type_of


def dim_attributes(op: Op) -> dict[str, tuple[Dim, ...]]:
    """The attributes of an op that hold sizes."""
    found = {}
    for name, attr in op.ATTRS.items():
        if attr.codec in (CODECS[Dim], CODECS[tuple[Dim, ...]]) and (value := getattr(op, name)) is not None:
            found[name] = value if isinstance(value, tuple) else (value,)
    return found


def attribute_symbols(op: Op) -> set[str]:
    """The sizes that an op's attributes mention."""
    return {name for dims in dim_attributes(op).values() for dim in dims for name in symbols(dim)}


def used_symbols(op: Op) -> set[str]:
    """The sizes that an op needs, in its regions too, but for those it defines."""
    names: set[str] = set()
    for region in op.operation.regions:
        for block in region.blocks:
            for operation in block.operations:
                if isinstance(operation.opview, Op):
                    names |= used_symbols(operation.opview)
    for value in (*op.operation.operands, *op.operation.results):
        if isinstance(value.type, ir.RankedTensorType):
            for d in type_of(value).shape:
                names |= symbols(d)
    return (names | attribute_symbols(op)) - defined_symbols(op)
