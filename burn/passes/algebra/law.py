"""Laws, and the loop that applies them."""

from __future__ import annotations

from collections.abc import Callable

from burn.dialect import ops
from burn.dialect.compose import broadcast_to
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import blocks, is_used, op_of, settled
from burn.dialect.types import TensorType, is_symbolic, type_of
from burn.dialect.weights import WeightStore
from burn.kernels.preferences import Preferences
from burn.passes.constants import Constants

USUAL_PREFERENCES = Preferences()

MAX_STEPS = 24
"""The most laws applied to one op in a row; more would be laws that undo each other."""


class Rewriter:
    """Applies a table of laws to every op of a program. Replaced ops stay without uses, for `erase_dead`."""

    def __init__(
        self, laws: dict[str, list[Law]], weights: WeightStore, preferences: Preferences = USUAL_PREFERENCES
    ) -> None:
        self.laws, self.weights, self.preferences = laws, weights, preferences
        self.constant = Constants()

    def sweep(self, block: ir.Block) -> int:
        """Visits all ops once, in order; returns how many were replaced."""
        self.constant = Constants()
        changed = 0
        with settled():
            for inner in blocks(block):
                for operation in inner.operations:
                    if isinstance(operation, Op) and operation.OP_NAME in self.laws and operation.PURE:
                        changed += self._apply(operation)
        return changed

    def _apply(self, op: Op) -> int:
        """Applies laws to an op, then to its replacement."""
        for step in range(MAX_STEPS):
            if not is_used(op.operation):
                return step
            value = self._first(op)
            if value is None:
                return step
            op.operation.results[0].replace_all_uses_with(value)
            made = op_of(value)
            if made is None or made.OP_NAME not in self.laws:
                return step + 1
            op = made
        return MAX_STEPS

    def _first(self, op: Op) -> ir.Value | None:
        """The value of the first law that holds. Ops that a law built before it returned None are dead, and erased
        later."""
        with op.operation.location, ir.InsertionPoint(op.operation):
            for each in self.laws[op.OP_NAME]:
                value = each(self, op)
                if value is not None:
                    return _same_type(op, value)
        return None


def _same_type(op: Op, value: ir.Value) -> ir.Value:
    """The value with the type of the op's result. Two expressions for one symbolic size may differ in form."""
    want, have = type_of(op.operation.results[0]), type_of(value)
    if want == have:
        return value
    fits = [a == b or is_symbolic(a) or is_symbolic(b) for a, b in zip(want.shape, have.shape, strict=False)]
    assert want.dtype == have.dtype and want.rank == have.rank and all(fits), f"law: burn.{op.OP_NAME} {want} -> {have}"
    return ops.reshape(value, shape=want.shape)


Law = Callable[[Rewriter, Op], "ir.Value | None"]
LAWS: dict[str, list[Law]] = {}
"""The laws of `simplify` by the name of the op that they rewrite, in the order of trial."""


WHOLE: dict[str, list[Law]] = {}
"""The same without the laws that restructure formulas to move constants into weights."""


def law(*names: str, absorbs: bool = False) -> Callable[[Law], Law]:
    """Registers a law for the ops of these names."""

    def register(function: Law) -> Law:
        for table in (LAWS,) if absorbs else (LAWS, WHOLE):
            for name in names:
                table.setdefault(name, []).append(function)
        return function

    return register


def fit(value: ir.Value, type_: TensorType) -> ir.Value:
    """The value broadcast to a result's shape."""
    return broadcast_to(value, type_.shape)


def ones(shape: tuple[Dim, ...]) -> bool:
    return all(d == 1 for d in shape)
