"""A block of ops as steps: segments, which become one module each, and ops that the host runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from burn.codegen.stablehlo.emitter import EMITTERS, refused
from burn.codegen.stablehlo.lowering import load_emitters
from burn.codegen.stablehlo.ops.library import COUNTED
from burn.dialect.control import If, Loop, captured
from burn.dialect.mentions import used_symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Op

HOST = frozenset({
    "read_dim", "if", "loop", "debug_print", "debug_call", "custom", "image_decode", "list_empty", "list_insert", "list_erase",
    "list_length", "list_at", "list_concat", "list_split", "yield", "return",
})  # fmt: skip
"""The ops that the host can run (`host.py`): control flow only where sizes or lists depend on data."""


@dataclass
class Segment:
    """Ops that become one module. The last may be one of `COUNTED`: its results are in their largest size, and its count, which
    the host reads, is one more result."""

    ops: list[Op]
    number: int = 0

    @property
    def counted(self) -> Op | None:
        return self.ops[-1] if self.ops[-1].OP_NAME in COUNTED else None

    @cached_property
    def inputs(self) -> list[ir.Value]:
        """The values from outside, but for weights, each once."""
        inside = {result for op in self.ops for result in op.operation.results}
        used: dict[ir.Value, None] = {}
        for op in self.ops:
            used.update(dict.fromkeys((*op.operation.operands, *captured(op))))
        return [value for value in used if value not in inside]

    @cached_property
    def outputs(self) -> list[ir.Value]:
        """The values that ops outside use, and all results of a counted op."""
        block = self.ops[0].operation.block
        inside = {op.operation for op in self.ops}
        found = []
        for op in self.ops:
            for result in op.operation.results:
                if op is self.counted or any(_within(use.owner, block) not in inside for use in result.uses):
                    found.append(result)
        return found

    @cached_property
    def symbols(self) -> list[str]:
        """The sizes that the module depends on."""
        return sorted({name for op in self.ops for name in used_symbols(op)})


def _within(operation: ir.Operation | ir.OpView, block: ir.Block) -> ir.Operation:
    """The op of a block that holds an operation."""
    operation = operation.operation
    while operation.block != block:
        operation = operation.parent.operation
    return operation


Step = Segment | Op


def steps(block: ir.Block) -> list[Step]:
    """The steps of a block; those of the regions of ops that the host runs are not among them."""
    load_emitters()
    found: list[Step] = []
    pending: list[Op] = []

    def close() -> None:
        if pending:
            found.append(Segment(list(pending)))
            pending.clear()

    for operation in block.operations:
        op = operation.opview
        assert isinstance(op, Op)
        if op.OP_NAME in COUNTED:
            pending.append(op)
            close()
        elif is_pure(op):
            pending.append(op)
        else:
            close()
            found.append(op)
    close()
    return found


def is_pure(op: Op) -> bool:
    """True if an op, with all ops in its regions, can be part of a module."""
    if op.OP_NAME not in EMITTERS or op.OP_NAME == "custom" or (isinstance(op, (If, Loop)) and op.symbols):
        return False
    inner = (o.opview for region in op.operation.regions for block in region.blocks for o in block.operations)
    return all(o.OP_NAME == "yield" or is_pure(o) for o in inner)


@dataclass
class Plan:
    """The steps of all blocks that the host walks."""

    blocks: dict[ir.Block, list[Step]] = field(default_factory=dict)
    launches: list[Step] = field(default_factory=list)

    @staticmethod
    def of(block: ir.Block) -> Plan:
        plan = Plan()
        plan._add(block)
        return plan

    def _add(self, block: ir.Block) -> None:
        self.blocks[block] = found = steps(block)
        for step in found:
            if isinstance(step, Segment):
                step.number = len(self.launches)
                self.launches.append(step)
                continue
            for region in step.operation.regions:
                for inner in region.blocks:
                    self._add(inner)

    def unsupported(self) -> Iterator[tuple[Op, str]]:
        """The ops that neither a module nor the host can run, with the reasons."""
        for steps_ in self.blocks.values():
            for step in steps_:
                for op in step.ops if isinstance(step, Segment) else [step]:
                    if reason := _refused(op):
                        yield op, reason


def _refused(op: Op) -> str:
    if op.OP_NAME in HOST and not is_pure(op):
        return ""
    if op.OP_NAME in COUNTED:
        return "" if (reason := refused(op)).endswith("no form in StableHLO") else reason
    return refused(op) or next((r for inner in _inner(op) if (r := _refused(inner))), "")


def _inner(op: Op) -> Sequence[Op]:
    return [
        o.opview
        for region in op.operation.regions
        for block in region.blocks
        for o in block.operations
        if o.opview.OP_NAME != "yield"
    ]
