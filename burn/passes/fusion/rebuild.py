"""Creates the groups."""

from __future__ import annotations

from burn.dialect import ops
from burn.dialect.control import Group, captured
from burn.dialect.mentions import used_symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.pointwise import Pointwise
from burn.dialect.query import is_used, op_of
from burn.dialect.shape import Pad, Reshape
from burn.dialect.types import type_of
from burn.errors import CompileError
from burn.kernels.lower import has_rule
from burn.passes.fusion.choice import FREE, Choice
from burn.passes.fusion.cluster import Cluster
from burn.passes.fusion.inlining import inlines, is_in_memory
from burn.passes.fusion.separate import stores


class Rebuild:
    """Orders clusters and unfused ops topologically, and creates the groups."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.values: dict[ir.Value, ir.Value] = {}  # a value inside a cluster -> the group's result
        self.done: set[object] = set()
        self.terminator = list(choice.block.operations)[-1].operation

    def run(self) -> None:
        for op in self.choice.ops[:-1]:
            if self._is_materialised(op):
                self._emit(self._unit(op))
        # An operation's Python hash changes with its operands, so all lookups precede the replacement of uses.
        replaced = [
            op.operation for op in self.choice.ops[:-1] if op.operation in self.choice.cluster or self._is_inlined(op)
        ]
        for old, new in self.values.items():
            old.replace_all_uses_with(new)
        for operation in reversed(replaced):
            if not is_used(operation):
                operation.erase()

    def _is_inlined(self, op: Op) -> bool:
        return op.operation not in self.choice.cluster and op.has(FREE) and has_rule(op)

    def _unit(self, op: Op) -> object:
        return self.choice.cluster.get(op.operation, op)

    def _is_materialised(self, op: Op) -> bool:
        return op.operation in self.choice.cluster or not op.has(FREE) or isinstance(op, Reshape) or not has_rule(op)

    def _emit(self, unit: object) -> None:
        """Emits the unit's dependences, then the unit. Uses an explicit stack, because programs are deep."""
        stack: list[tuple[object, bool]] = [(unit, False)]
        waiting: set[object] = set()
        while stack:
            current, ready = stack.pop()
            if current in self.done:
                continue
            if ready:
                self.done.add(current)
                self._write(current)
                continue
            if current in waiting:
                raise CompileError("internal: fusion made groups that need each other")
            waiting.add(current)
            stack.append((current, True))
            for needed in self._needs(current):
                if needed not in self.done:
                    stack.append((needed, False))

    def _needs(self, unit: object) -> list[object]:
        assert isinstance(unit, Cluster | Op)
        members = unit.members if isinstance(unit, Cluster) else [unit]
        found: list[object] = []
        seen: set[ir.Value] = set()
        for op in members:
            for value in (*op.operation.operands, *captured(op)):
                self._value_needs(unit, op, value, seen, found)
            self._symbol_needs(op, found)
            if (before := self.choice.before.get(op.operation)) is not None:
                found.append(before)
        return [u for u in found if u is not unit]

    def _value_needs(self, unit: object, user: Op, value: ir.Value, seen: set[ir.Value], found: list[object]) -> None:
        op = op_of(value)
        if op is None or value in seen or op.operation not in self.choice.position:
            return
        seen.add(value)
        inlined = isinstance(unit, Cluster) and inlines(self.choice, unit, user, value)
        if not inlined or (isinstance(unit, Cluster) and is_in_memory(self.choice, unit, op)):
            found.append(self._unit(op))
            return
        self._symbol_needs(op, found)
        for operand in op.operation.operands:
            self._value_needs(unit, op, operand, seen, found)

    def _read_outside(self, result: ir.Value, cluster: Cluster, members: set[ir.Operation]) -> bool:
        """True if anything but the cluster itself reads a value, directly or through views."""
        for use in result.uses:
            operation = use.owner.operation
            if operation in members:
                continue
            op = operation.opview
            if not (operation in self.choice.position and isinstance(op, Op) and self._is_inlined(op)):
                return True
            inner = op.operation.results[0]
            for reader in inner.uses:
                user = reader.owner.operation
                if user in members and inlines(self.choice, cluster, user.opview, inner):
                    continue
                if user in members or self._read_outside(inner, cluster, members):
                    return True
        return False

    def _symbol_needs(self, op: Op, found: list[object]) -> None:
        """The ops that define the sizes of an op."""
        if not self.choice.definers:
            return
        for name in used_symbols(op):
            definer = self.choice.definers.get(name)
            if definer is not None:
                found.append(self._unit(definer))

    def _write(self, unit: object) -> None:
        if isinstance(unit, Op):
            unit.operation.move_before(self.terminator)
            return
        assert isinstance(unit, Cluster)
        cluster = unit
        inside: dict[ir.Value, ir.Value] = {}
        members = {m.operation for m in cluster.members}
        outputs = []
        for m in cluster.members:
            for result in m.operation.results:
                if self._read_outside(result, cluster, members):
                    outputs.append(result)
        if not outputs:
            return  # unused: it is erased with the fused ops
        if not all(stores(cluster, v) for v in outputs if isinstance(op_of(v), Pointwise | Pad)):
            raise CompileError(f"internal: fusion made a group of kind {cluster.kind} that cannot store its results")
        used = self._used(cluster, outputs)
        inputs: dict[ir.Value, None] = {}
        for m in used:
            for operand in m.operation.operands:
                self._collect(cluster, m, operand, members, inputs)
        types_ = [type_of(v) for v in outputs]
        mapped = [self.values.get(v, v) for v in inputs]
        with cluster.members[0].operation.location, ir.InsertionPoint(self.terminator):
            group = Group.create(mapped, kind=cluster.kind, result_types=types_)
            block = group.regions[0].blocks.append(*[v.type for v in inputs])
        inside.update(zip(inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for m in used:
                self._clone(m.operation, inside, set(inputs))
            with cluster.members[-1].operation.location:
                ops.yield_([inside[v] for v in outputs])
        self.values.update(zip(outputs, group.results, strict=True))

    def _used(self, cluster: Cluster, outputs: list[ir.Value]) -> list[Op]:
        """Members without those that recomputation left unused."""
        used, dropped = [], set()
        for m in reversed(cluster.members):
            readers = [use.owner.operation for r in m.operation.results for use in r.uses]
            if all(reader in dropped for reader in readers) and not any(r in outputs for r in m.operation.results):
                dropped.add(m.operation)
            else:
                used.append(m)
        return used[::-1]

    def _collect(self, cluster: Cluster, user: Op, value: ir.Value, members: set, inputs: dict[ir.Value, None]) -> None:
        """Finds the values that the cluster reads from memory; views in between are computed inside."""
        op = op_of(value)
        if op is not None and op.operation in members:
            return
        outside = op is None or is_in_memory(self.choice, cluster, op) or not inlines(self.choice, cluster, user, value)
        if outside:
            inputs[value] = None
            return
        assert op is not None
        for operand in op.operation.operands:
            # once the whole chain of views is known to be affine, each part of it is
            self._collect(cluster, op, operand, members, inputs)

    def _clone(self, operation: ir.Operation, inside: dict[ir.Value, ir.Value], inputs: set[ir.Value]) -> None:
        operands = []
        for operand in operation.operands:
            if operand not in inside:
                assert operand not in inputs
                self._clone(operand.owner, inside, inputs)
            operands.append(inside[operand])
        copy = operation.clone()
        for i, operand in enumerate(operands):
            copy.operands[i] = operand
        inside.update(zip(operation.results, copy.operation.results, strict=True))
