"""Values as they are stored: `stored` moves elements that kernels read next to each other."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.dims import coefficient
from burn.dialect.mlir import ir
from burn.dialect.query import op_of
from burn.dialect.traits import Trait
from burn.dialect.types import type_of
from burn.kernels.body import Load
from burn.kernels.builders.builder import loop_index, loops
from burn.kernels.lower import Lowering


def stored(value: ir.Value) -> ir.Value:
    """The value, in memory in the order of its axes unless the last one of several elements is contiguous already."""
    shape = type_of(value).shape
    index = loops(shape)

    def is_view(v: ir.Value) -> bool:
        op = op_of(v)
        return op is not None and op.has(Trait.VIEW)

    load = Lowering(is_view).at(value, loop_index(index))
    last = next((v for v in reversed(index) if v.extent != 1), None)
    in_order = isinstance(load, Load) and (last is None or coefficient(load.offset, last) == 1)
    return value if in_order else ops.barrier(value, value)
