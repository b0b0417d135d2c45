"""What is asked of ops and values in every stage: the op behind a value, the numbers written in the IR, what nothing uses."""

from __future__ import annotations

import math

from burn.dialect.control import defined_symbols
from burn.dialect.mentions import used_symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.types import DTYPES, TensorType, type_of

LEAVES = frozenset(("weight", "constant", "full", "iota", "dim_values"))
VIEWS = frozenset(("reshape", "broadcast_to", "transpose", "slice", "windows"))
"""Ops whose elements are all elements of their operand."""


def op_of(value: ir.Value) -> Op | None:
    """The burn op that a value is the result of; None for a block's argument."""
    if isinstance(value.owner, ir.Block):
        return None
    view = value.owner.opview
    return view if isinstance(view, Op) else None


def is_named(value: ir.Value, *names: str) -> Op | None:
    """The op that made a value, if it is one of these."""
    op = op_of(value)
    return op if op is not None and op.OP_NAME in names else None


def result_type(op: Op) -> TensorType:
    return type_of(op.operation.results[0])


def used_once(value: ir.Value) -> bool:
    uses = iter(value.uses)
    return next(uses, None) is not None and next(uses, None) is None


def splat(value: ir.Value) -> float | int | bool | None:
    """The number that every element of a value is, when the IR says so; seen through views."""
    op = op_of(value)
    while op is not None and op.OP_NAME in VIEWS:
        op = op_of(op.x)
    if op is None or op.OP_NAME not in ("full", "constant"):
        return None
    kind = DTYPES[op.dtype].kind
    if kind not in ("float", "small", "int", "uint", "bool"):
        return None
    if op.OP_NAME == "full":
        number = op.bits if op.bits is not None else op.value
    else:
        numbers = op.bits if op.bits is not None else op.values
        if not numbers or not all(same_number(n, numbers[0]) for n in numbers):
            return None
        number = numbers[0]
    if kind == "bool":
        return bool(number)
    if kind in ("int", "uint"):
        return unsigned(int(number)) if op.dtype == "uint64" else int(number)
    return float(number)


def same_number(a: float | int | bool, b: float | int | bool) -> bool:
    """Equality that tells 0.0 from -0.0, as division does."""
    return a == b and (a != 0 or math.copysign(1, a) == math.copysign(1, b))


def unsigned(bits: int) -> int:
    return bits % 2**64


def integers(value: ir.Value) -> list[int] | None:
    """The elements of a small integer constant in memory order, seen through reshapes."""
    op = op_of(value)
    while op is not None and op.OP_NAME == "reshape":
        op = op_of(op.x)
    if op is None or op.OP_NAME not in ("full", "constant") or DTYPES[op.dtype].kind not in ("int", "uint"):
        return None
    if op.OP_NAME == "constant":
        return [int(n) for n in (op.bits if op.bits is not None else op.values)]
    elements = type_of(value).elements
    number = splat(value)
    return [int(number)] * elements if isinstance(elements, int) and elements <= 16 and number is not None else None


def blocks(block: ir.Block) -> list[ir.Block]:
    """A block and the blocks of all regions in it, outer ones first; groups are left out."""
    found = [block]
    for operation in block.operations:
        if operation.operation.name == "burn.group":
            continue
        for region in operation.operation.regions:
            for inner in region.blocks:
                found += blocks(inner)
    return found


def erase_dead(block: ir.Block) -> int:
    """Erases pure ops that nothing uses, in nested regions too; returns how many. A size is used where it is mentioned."""
    erased = 0
    for operation in reversed(list(block.operations)):
        op = operation.opview
        unread = isinstance(op, Op) and op.PURE and not any(any(True for _ in r.uses) for r in op.operation.results)
        if unread and not _mentioned(defined_symbols(op), block, op):
            op.operation.erase()
            erased += 1
            continue
        for region in operation.operation.regions:
            for inner in region.blocks:
                erased += erase_dead(inner)
    return erased


def _mentioned(names: set[str], block: ir.Block, definer: Op) -> bool:
    """Whether anything in a block but their definer mentions one of these sizes. Few ops define any."""
    if not names:
        return False
    others = (o.opview for o in block.operations if o.operation != definer.operation)
    return any(isinstance(other, Op) and names & used_symbols(other) for other in others)
