"""Applies batching rules to a block of ops. Enter at `Walk`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeAlias

from burn.dialect import ops
from burn.dialect.adjoint.reverse import Custom, Customs
from burn.dialect.batching import control
from burn.dialect.batching.custom import of_custom
from burn.dialect.batching.rules import Call, Item
from burn.dialect.compose import as_list, convert, disconnect, reshape
from burn.dialect.control import captured
from burn.dialect.copies import Copies, copy_ops, seeing
from burn.dialect.deferred import Value
from burn.dialect.dims import Dim
from burn.dialect.mlir import ir
from burn.dialect.op import REGISTRY, Op, site
from burn.dialect.random import FOLD, derived, element
from burn.dialect.types import type_of
from burn.errors import Problem, TypeMismatch

RULES = {**control.RULES, "custom": of_custom}
"""Rules that take the walk: of ops with regions, and of those that stand for others."""

RANDOMNESS = ("error", "different", "same")
"""Behaviours of draws without a key: they raise an error, give each example numbers of its own, or give all the same."""

Again: TypeAlias = Callable[[Callable[[Sequence[Any], Copies], Sequence[Any]], Sequence[Item], "Walk"], "list[Item]"]
"""again(function, operands, walk): the results, of all examples, of function(values of one example, copies). copies: what stands
for the values of one example that an earlier walk batched."""


def kind(name: str) -> str:
    """How an op is batched: "rule", "composite" (through its decomposition) or "none" (its class has the reason). An op without
    operands is "shared"; terminators and groups are "structure"."""
    cls = REGISTRY[name]
    if isinstance(cls.BATCHING, str):
        return "none"
    if cls.BATCHING is not None or name in RULES:
        return "rule"
    if not cls.OPERANDS:
        return "shared"
    return "composite" if cls.decompose is not None else "structure"


class Walk:
    """Batches blocks of ops of one example at the insertion point.

    mapped: batched values by the value of one example. copies: what stands for the values that all examples share. size: the
    number of examples. randomness: one of `RANDOMNESS`. customs: values with backward functions; their counterparts get batched
    ones, which `again` maps.
    """

    def __init__(self, size: Dim, randomness: str, customs: Customs | None, again: Again) -> None:
        self.size, self.randomness, self.customs, self.again = size, randomness, customs, again
        self.mapped: dict[Any, ir.Value] = {}
        self.copies: dict[Any, ir.Value] = {}
        self.kept: list[object] = []  # owners of values that are keys: values do not keep their ops alive

    def item(self, value: ir.Value) -> Item:
        found = self.mapped.get(value)
        return Item(self.copies.get(value, value), False) if found is None else Item(found, True)

    def define(self, value: ir.Value, item: Item) -> None:
        """Sets what stands for a value of one example."""
        if item.mapped:
            self.mapped[value] = item.value
        else:
            self.copies[value] = item.value

    def is_mapped(self, op: Op) -> bool:
        """True if the op, or an op of its regions, has a mapped operand or draws numbers that examples do not share."""
        if any(v in self.mapped for v in (*op.operation.operands, *captured(op))):
            return True
        return bool(op.REGIONS) and self.randomness != "same" and control.draws(op.operation)

    def block(self, block: ir.Block) -> list[Item]:
        """Batches a block's ops, and returns what its terminator takes."""
        operations = list(block.operations)
        self.ops(op.operation for op in operations[:-1])
        if self.customs:
            self._move_customs(self.customs)
        return [self.item(v) for v in operations[-1].operation.operands]

    def ops(self, operations: Iterable[ir.Operation]) -> None:
        for operation in operations:
            op = operation.opview
            assert isinstance(op, Op)
            with operation.location:
                self._op(op)

    def _op(self, op: Op) -> None:
        if not self.is_mapped(op):
            copy_ops([op.operation], self.copies, observers=True)
            if op.OP_NAME == "random_key":
                self._draw(op)
        elif op.OP_NAME in RULES:
            self._set(op, RULES[op.OP_NAME](self, op))
        else:
            self._set(op, self._by_rule(op))

    def _set(self, op: Op, results: Sequence[Any]) -> None:
        """Sets the results, in the shapes of one example behind the mapped axis."""
        for old, new in zip(op.operation.results, results, strict=True):
            item = new if isinstance(new, Item) else Item(new, True)
            if item.mapped:
                item = Item(reshape(item.value, (self.size, *type_of(old).shape)), True)
            self.define(old, item)

    def _by_rule(self, op: Op) -> Sequence[Any]:
        rule: Any = type(op).BATCHING
        if isinstance(rule, str):
            self.refuse(op, rule)
        given: Any = NotImplemented
        if rule is not None:
            operands = [self._operand(operand) for operand in op.args]
            call = Call(type(op), operands, op.attrs, [type_of(r) for r in op.operation.results], self.size)
            given = rule(call)
        if given is not NotImplemented:
            return as_list(given) if not isinstance(given, Item) else [given]
        if op.decompose is None:
            names = ", ".join(name for (name, _), v in zip(op.OPERANDS, op.args, strict=True) if self._has(v))
            self.refuse(op, f"it has no rule if these operands are mapped: {names}")
        return self._decomposed(op)

    def _operand(self, operand: Any) -> Any:
        if isinstance(operand, list):
            return [self.item(v) for v in operand]
        return None if operand is None else self.item(operand)

    def _has(self, operand: Any) -> bool:
        return any(v in self.mapped for v in (operand if isinstance(operand, list) else [operand]))

    def _decomposed(self, op: Op) -> list[Item]:
        """Batches the ops that a composite stands for."""
        decompose = op.decompose
        assert decompose is not None
        return self.inline(lambda: as_list(decompose(*op.args, **op.attrs)))

    def inline(self, build: Callable[[], Sequence[ir.Value]]) -> list[Item]:
        """Batches the ops that `build` builds on values of one example, and returns what stands for its results."""
        holder = ir.Module.create()
        self.kept.append(holder)
        with ir.InsertionPoint(holder.body):
            parts = build()
        try:
            self.ops([operation.operation for operation in holder.body.operations])
            return [self.item(part) for part in parts]
        finally:
            disconnect(holder.operation)

    def refuse(self, op: Op, why: str) -> NoReturn:
        """Raises TypeMismatch naming the op and the user's line."""
        problem = Problem(f"burn.{op.OP_NAME}: {why}", op=op.OP_NAME, node=site(op))
        raise TypeMismatch("burn.vmap cannot map this", [problem])

    # ---- random draws --------------------------------------------------------------------------------------------------
    def _draw(self, op: Op) -> None:
        """The key of a draw from the run's random state, which all examples share."""
        (result,) = op.operation.results
        if self.randomness == "error":
            self.refuse(op, "a draw without a key; map over burn.random.split(key, n), or choose vmap(.., randomness=)")
        if self.randomness == "different":
            key, numbers = self.copies.pop(result), ops.iota(shape=(self.size,), axis=0)
            words = derived((element(key, 0), element(key, 1)), convert(numbers, "uint32"), FOLD)
            self.mapped[result] = ops.concat([reshape(w, (self.size, 1)) for w in words], axis=1)

    # ---- values with backward functions -----------------------------------------------------------------------------------
    def _move_customs(self, customs: Customs) -> None:
        """Counterparts of values with backward functions get backward functions."""
        here = [c for v, c in customs.items() if v in self.mapped or v in self.copies]
        for custom in {id(c): c for c in here}.values():
            results = [self.item(v) for v in custom.results]
            if any(item.value in customs for item in results):
                continue  # moved with an inner block
            operands, residuals = ([self.item(v) for v in values] for values in (custom.operands, custom.residuals))
            names = {"results": results, "operands": operands, "residuals": residuals}
            moved: Any = {name: tuple(item.value for item in items) for name, items in names.items()}
            if any(item.mapped for items in names.values() for item in items):
                backward = _Batched(self, custom, operands, residuals, results)
                made = Custom(**moved, backward=backward)
            else:
                made = replace(custom, **moved, copies=(*custom.copies, dict(self.copies)))
            customs.update(dict.fromkeys(made.results, made))


class _Batched:
    """The backward function of all examples."""

    def __init__(
        self, walk: Walk, custom: Custom, operands: list[Item], residuals: list[Item], results: list[Item]
    ) -> None:
        self.walk, self.custom = walk, custom
        self.operands, self.residuals, self.results = (
            [i.mapped for i in items] for items in (operands, residuals, results)
        )

    def __call__(
        self,
        values: Sequence[Value],
        residuals: Sequence[Value],
        cotangents: Sequence[Value | None],
        wanted: Sequence[bool],
    ) -> list[Value | None]:
        given = [Item(v, mapped) for v, mapped in zip(values, self.operands, strict=True)]
        kept = [Item(v, mapped) for v, mapped in zip(residuals, self.residuals, strict=True)]
        present = [i for i, g in enumerate(cotangents) if g is not None]
        seeds = [Item(cotangents[i], self.results[i]) for i in present]  # type: ignore[arg-type]  # those are not None
        found: list[int] = []

        def one(inner: Sequence[Any], copies: Copies) -> list[Any]:
            first, second = len(given), len(given) + len(kept)
            own: list[Any] = [None] * len(cotangents)
            for i, g in zip(present, inner[second:], strict=True):
                own[i] = g
            with seeing((*self.custom.copies, copies)):
                parts = self.custom.backward(inner[:first], inner[first:second], own, wanted)
            found[:] = [i for i, part in enumerate(parts) if part is not None and wanted[i]]
            return [parts[i] for i in found]

        parts = self.walk.again(one, [*given, *kept, *seeds], self.walk)
        results: list[Value | None] = [None] * len(values)
        for i, part in zip(found, parts, strict=True):
            results[i] = self._of(part, given[i])
        return results

    def _of(self, part: Item, operand: Item) -> Value:
        """The cotangent of an operand: a shared one sums those of all examples."""
        if operand.mapped:
            return part.all(self.walk.size)
        return ops.reduce(part.all(self.walk.size), kind="sum", axes=(0,))
