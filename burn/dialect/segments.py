"""Reductions of rows that a list orders by their targets: the pass `order_scatters` makes them of scatters with constant indices.

Only fusion, memory planning and kernel builders see them: laws, differentiation and exporters deal with scatters.
"""

from __future__ import annotations

from burn.dialect.dims import product
from burn.dialect.op import Agreement, Op, Operand
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, type_of

REDUCTIONS = ("none", "add", "mul", "max", "min")


class SegmentReduce(
    Op,
    name="segment_reduce",
    traits=Trait.INDEXED,
    kernel="segments",
    shown_as="scatter_nd",
    batching="scatters are ordered after tracing",
):
    """A copy of x in which row t is combined with updates[order[k]] for starts[t] <= k < starts[t + 1], in this order.

    `reduction` is none (the first update replaces the row), add, mul, max or min. No row has more than `longest` updates, and all
    entries are in range. Shapes: x [t, r..], updates [n, r..], order [m] int32, starts [t + 1] int32 -> x's."""

    x: Operand
    updates: Operand
    order: Operand
    starts: Operand
    reduction: str
    longest: int

    @classmethod
    def infer(cls, x, updates, order, starts, reduction, longest) -> TensorType:
        for name, each in (("order", order), ("starts", starts)):
            if each.rank != 1 or each.dtype != "int32":
                cls.fail(f"{name} is {each}, not a row of int32")
        if x.rank == 0 or updates.rank != x.rank:
            cls.fail(f"x {x} and updates {updates} must be rows of the same rank")
        if reduction not in REDUCTIONS:
            cls.fail(f"there is no reduction '{reduction}'", "reduction")
        if longest < 1:
            cls.fail(f"a row has at most {longest} updates", "longest")
        return x

    def must_agree(self) -> list[Agreement]:
        x, updates, starts = (type_of(v).shape for v in (self.x, self.updates, self.starts))
        rest = [Agreement(u, d) for u, d in zip(updates[1:], x[1:], strict=True)]
        return [*rest, Agreement(starts[0], x[0] + 1)]

    def flops(self):
        return product(type_of(self.updates).shape)
