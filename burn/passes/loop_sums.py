"""Sums over the iterations of a loop are computed after it: one contraction of stacked operands instead of one per iteration.

The gradient of a weight that a loop reads is a sum over its iterations. In the loop, each iteration reads and writes the whole
sum, and its contraction has few terms (a recurrent layer's has as many as the batch). After the loop, one contraction
has the terms of all iterations. The operands are mostly stacked already: the states by the forward pass, and the gradients of
inputs by the backward pass. Source: J. Appleyard et al., "Optimizing Performance of Recurrent Neural Networks on GPUs",
arXiv:1604.01946, section 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from burn.dialect import ops
from burn.dialect.compose import number_like, part, reshape
from burn.dialect.contraction import DotGeneral
from burn.dialect.control import Loop, region_symbols, yielded
from burn.dialect.dims import Dim, at_most
from burn.dialect.indexing import Gather
from burn.dialect.loops import body, iterations, linear, with_results
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.query import blocks, erase_dead, op_of, splat, used_once
from burn.dialect.reduction import Reduce
from burn.dialect.types import CONTINUOUS, DTYPES, type_of
from burn.passes.algebra.loop_results import prune
from burn.passes.environment import ANYWHERE, Environment
from burn.passes.pipeline import register


@register
@dataclass(frozen=True)
class LoopSums:
    """For floats, in loops that run a known number of times. Changes the order of sums.

    New stacks of a loop have at most as many elements as those that it reads or writes anyway. A loop without stacks stays as
    it is: it was written so that its memory does not grow with the number of iterations."""

    name: ClassVar[str] = "loop_sums"

    def run(self, program: Program, env: Environment = ANYWHERE) -> dict[str, int]:
        count = 0
        with context():
            # inner loops first: what moves out of one may then move out of the next
            for block in reversed(blocks(program.block)):
                for operation in list(block.operations):
                    if isinstance(operation, Loop):
                        count += _Sums(operation).moved()
            if count:
                erase_dead(program.block)
        return {"sums": count}


Build = Callable[[dict[ir.Value, ir.Value]], ir.Value]
"""Builds a sum over all iterations after the loop, given the stacks of values of its body."""


@dataclass
class _Term:
    """A sum over the iterations of a value. operands: what is stacked for it, values of the body before it moves."""

    operands: list[ir.Value]
    build: Build


@dataclass
class _Sums:
    """The carried values of a loop that are sums over its iterations."""

    loop: Loop
    stacked: dict[ir.Value, int] = field(default_factory=dict)  # values of the body that are results: their numbers
    more: dict[ir.Value, None] = field(default_factory=dict)  # values of the body that become results

    def moved(self) -> int:
        """Moves sums behind the loop; returns how many."""
        length = iterations(self.loop)
        if length is None or self.loop.symbols or region_symbols(self.loop.operation.regions[0]):
            return 0  # sizes that change in the loop have no meaning outside of it
        self.length, self.block = length, body(self.loop)
        self.counter, _, *self.arguments = self.block.arguments
        count, given = len(self.arguments), yielded(self.loop.operation.regions[0])[1:]
        self.stacked = {value: count + i for i, value in reversed(list(enumerate(given[count:])))}
        self.most = self._slices()
        found: dict[int, tuple[list[_Term], list[ir.Value]]] = {}
        for number, argument in enumerate(self.arguments):
            if type_of(argument).dtype in CONTINUOUS and used_once(argument):
                terms, rest = self._terms(argument, given[number])
                if terms:
                    found[number] = terms, rest
        return self._replace(found) if found else 0

    # ---- finding -----------------------------------------------------------------------------------------------------
    def _terms(self, argument: ir.Value, total: ir.Value) -> tuple[list[_Term], list[ir.Value]]:
        """The values that a sum adds to a carried value: terms that move out of the loop, and values that stay."""
        leaves = self._leaves(total)
        if argument not in leaves:
            return [], []
        leaves.remove(argument)
        terms, rest = list[_Term](), list[ir.Value]()
        for leaf in leaves:
            term = self._term(leaf) if type_of(leaf) == type_of(argument) else None
            if term is not None and self._fits(term):
                terms.append(term)
            else:
                rest.append(leaf)
        return terms, rest

    def _leaves(self, value: ir.Value) -> list[ir.Value]:
        op = op_of(value)
        if op is None or op.OP_NAME != "add" or op.operation.block != self.block or not used_once(value):
            return [value]
        return [*self._leaves(op.lhs), *self._leaves(op.rhs)]

    def _term(self, value: ir.Value) -> _Term | None:
        """The sum of a value over all iterations, if it is that of a contraction or of a reduction that has no other use."""
        op = op_of(value)
        if op is None or op.operation.block != self.block or type_of(value).dtype not in CONTINUOUS:
            return None
        if not used_once(value):
            return None
        if isinstance(op, DotGeneral):
            return self._of_dot(op)
        if isinstance(op, Reduce):
            return self._of_reduce(op) if op.kind == "sum" else None
        if not self._is_linear(op):
            return None
        inner = self._term(op.x)
        if inner is None:
            return None
        return _Term(inner.operands, lambda stacks: self._again(op, inner.build(stacks)))

    def _is_linear(self, op: Op) -> bool:
        """True for views of one tensor, negation, and casts. Not for casts to a wider type: a sum of the narrow type has less
        range and precision. bfloat16 has the range of float32, and the sum is rounded once."""
        if op.OP_NAME == "pad":
            return splat(op.value) == 0
        if op.OP_NAME == "cast":
            given, made = type_of(op.x).dtype, op.dtype
            return DTYPES[made].size <= DTYPES[given].size or (given, made) == ("bfloat16", "float32")
        return op.OP_NAME in ("reshape", "transpose", "slice", "broadcast_to", "neg")

    def _again(self, op: Op, x: ir.Value) -> ir.Value:
        """The op, of another operand."""
        with op.operation.location:
            fill = [number_like(0.0, x)] if op.OP_NAME == "pad" else []
            return type(op).build(x, *fill, **op.attrs)

    def _of_dot(self, op: DotGeneral) -> _Term | None:
        operands = [op.lhs, op.rhs]
        if any(self._is_fixed(v) for v in operands):
            return None

        def build(stacks: dict[ir.Value, ir.Value]) -> ir.Value:
            pair = [self._stack(v, stacks) for v in operands]
            if pair[0][1] != pair[1][1]:  # one order for both; the rhs is copied in any case if it is packed
                pair[1] = _reversed(pair[1][0]), pair[0][1]
            attrs = dict(op.attrs)
            for name in ("lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"):
                attrs[name] = tuple(axis + 1 for axis in attrs[name])
            for name in ("lhs_contract", "rhs_contract"):
                attrs[name] = (0, *attrs[name])
            with op.operation.location:
                return ops.dot_general(pair[0][0], pair[1][0], **attrs)

        return _Term(operands, build)

    def _of_reduce(self, op: Reduce) -> _Term | None:
        x, axes = op.x, (0, *(axis % type_of(op.x).rank + 1 for axis in op.axes))
        if self._is_fixed(x):
            return None

        def build(stacks: dict[ir.Value, ir.Value]) -> ir.Value:
            with op.operation.location:
                total = ops.reduce(self._stack(x, stacks)[0], kind="sum", axes=axes)
                return reshape(total, type_of(op.operation.results[0]).shape)

        return _Term([x], build)

    def _is_fixed(self, value: ir.Value) -> bool:
        """True for a value from outside of the loop."""
        owner = value.owner
        return (owner if isinstance(owner, ir.Block) else owner.operation.block) != self.block

    def _slices(self) -> Dim:
        """The elements of all slices that an iteration reads from stacks or writes to them."""
        read: dict[ir.Value, ir.Value] = {}
        for operation in self.block.operations:
            for result in operation.operation.results:
                if (found := self._source(result)) is not None:
                    read[found[0]] = result
        return _elements([*self.stacked, *read.values()])

    def _fits(self, term: _Term) -> bool:
        """Counts the operands of a term as stacked if there is memory for them."""
        more = [v for v in term.operands if not self._is_stacked(v)]
        wanted = dict.fromkeys([*self.more, *more])
        if more and not at_most(_elements(wanted), self.most):
            return False
        self.more |= wanted
        return True

    def _is_stacked(self, value: ir.Value) -> bool:
        return value in self.stacked or self._source(value) is not None

    def _source(self, value: ir.Value) -> tuple[ir.Value, bool] | None:
        """The stack that an iteration reads a value from, and True if it does so from the last slice to the first."""
        op = op_of(value)
        if not isinstance(op, Gather) or op.axis != 0 or type_of(op.indices).rank or not self._is_fixed(op.x):
            return None
        found = linear(op.indices, self.counter)
        if found is None or found[0] == 0 or type_of(op.x).shape[0] != self.length:
            return None
        if found == (1, 0):
            return op.x, False
        return (op.x, True) if found == (-1, self.length - 1) else None

    # ---- building ----------------------------------------------------------------------------------------------------
    def _stack(self, value: ir.Value, stacks: dict[ir.Value, ir.Value]) -> tuple[ir.Value, bool]:
        """The stack of a value of the body, and True if it begins with the last iteration. The value may be an argument of the
        loop that was replaced: it is a key, and nothing else of it is read."""
        if value in stacks:
            return stacks[value], False
        found = self._source(value)
        assert found is not None
        return found

    def _replace(self, found: dict[int, tuple[list[_Term], list[ir.Value]]]) -> int:
        count, results = len(self.arguments), len(list(self.loop.operation.results))
        more = list(self.more)
        terminator = list(self.block.operations)[-1].operation
        for number, (_, rest) in found.items():
            total = self.arguments[number]
            with terminator.location, ir.InsertionPoint(terminator):
                for value in rest:
                    total = ops.add(total, value)
            terminator.operands[1 + number] = total
        made = with_results(self.loop, range(count), range(count, results), more)
        stacks = {value: made[number] for value, number in self.stacked.items()}
        stacks |= dict(zip(more, made[results:], strict=True))
        loop = op_of(made[0])
        assert isinstance(loop, Loop)
        self.block = body(loop)
        self.counter = self.block.arguments[0]
        for number, (terms, _) in found.items():
            with loop.operation.location, ir.InsertionPoint.after(loop.operation):
                total = terms[0].build(stacks)
                for term in terms[1:]:
                    total = ops.add(total, term.build(stacks))
                total = ops.add(made[number], total)
            made[number].replace_all_uses_except(total, total.owner.operation)
        prune(loop)
        return sum(len(terms) for terms, _ in found.values())


def _reversed(stack: ir.Value) -> ir.Value:
    return part(stack, 0, type_of(stack).shape[0] - 1, type_of(stack).shape[0], -1)


def _elements(values: Iterable[ir.Value]) -> Dim:
    total: Dim = 0
    for value in values:
        total = type_of(value).elements + total
    return total
