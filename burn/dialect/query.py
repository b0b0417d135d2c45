"""Queries about ops and values for every stage: a value's defining op, constants in the IR, unused ops."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from burn.dialect.control import defined_symbols
from burn.dialect.mentions import used_symbols
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.traits import Trait
from burn.dialect.types import DTYPES, TensorType, type_of


class _Settled:
    """Cached facts about values."""

    def __init__(self) -> None:
        self.ops: dict[ir.Value, Op | None] = {}
        self.numbers: dict[ir.Value, float | int | bool | None] = {}


_settled: ContextVar[_Settled | None] = ContextVar("settled", default=None)


@contextmanager
def settled() -> Iterator[None]:
    """Inside, `op_of` and `splat` remember their results: the bindings make an object of an op each time. Ops may be added and
    operands replaced by equal values inside, but nothing may be erased: MLIR would give its address to another op."""
    token = _settled.set(_Settled())
    try:
        yield
    finally:
        _settled.reset(token)


def op_of(value: ir.Value) -> Op | None:
    """The burn op that defines a value; None for a block's argument."""
    known = _settled.get()
    if known is None:
        owner = value.owner  # an op comes as what the dialect has registered for its name
        return owner if isinstance(owner, Op) else None
    try:
        return known.ops[value]
    except KeyError:
        owner = value.owner
        op = known.ops[value] = owner if isinstance(owner, Op) else None
        return op


def is_named(value: ir.Value, *names: str) -> Op | None:
    """The defining op of a value if it is one of these."""
    op = op_of(value)
    return op if op is not None and op.OP_NAME in names else None


def result_type(op: Op) -> TensorType:
    return type_of(op.operation.results[0])


def used_once(value: ir.Value) -> bool:
    uses = iter(value.uses)
    return next(uses, None) is not None and next(uses, None) is None


def is_used(operation: ir.Operation) -> bool:
    """True if any result has a use."""
    for result in operation.results:
        for _ in result.uses:
            return True
    return False


def splat(value: ir.Value) -> float | int | bool | None:
    """The number that all elements of a value equal, if the IR says so; looks through views."""
    known = _settled.get()
    if known is not None and value in known.numbers:
        return known.numbers[value]
    op = source = op_of(value)
    while op is not None and op.has(Trait.VIEW):
        op = op_of(op.x)
    number = None if op is None else _number_of(op)
    # a view's operand may later be replaced by an equal one with a known number
    if known is not None and (number is not None or op is source):
        known.numbers[value] = number
    return number


def _number_of(op: Op) -> float | int | bool | None:
    """The number that all elements of a `full` or a `constant` equal; None for other ops."""
    if op.OP_NAME not in ("full", "constant"):
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
    """Equality that distinguishes 0.0 from -0.0, as division does."""
    return a == b and (a != 0 or math.copysign(1, a) == math.copysign(1, b))


def unsigned(bits: int) -> int:
    return bits % 2**64


def integers(value: ir.Value) -> list[int] | None:
    """The elements of a small integer constant in memory order; looks through reshapes."""
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


def has_regions(operation: ir.OpView) -> bool:
    """True if an op has regions. The class of a burn op says it, without a call of the bindings."""
    return bool(operation.REGIONS) if isinstance(operation, Op) else len(operation.regions) > 0


def blocks(block: ir.Block) -> list[ir.Block]:
    """A block and the blocks of all nested regions, outer ones first, without those of groups."""
    found = [block]
    for operation in block.operations:
        if not has_regions(operation) or operation.operation.name == "burn.group":
            continue
        for region in operation.operation.regions:
            for inner in region.blocks:
                found += blocks(inner)
    return found


def erase_dead(block: ir.Block, besides: tuple[type[Op], ...] = ()) -> int:
    """Erases unused pure ops, and unused ones of the classes `besides`, in nested regions as well; returns how many. A size
    counts as used if any op mentions it."""
    erased = 0
    mentions: Counter[str] | None = None  # how many ops need a size; counted on demand, as few ops define any
    for view in reversed(list(block.operations)):
        operation = view.operation
        if isinstance(view, Op) and (view.PURE or isinstance(view, besides)) and not is_used(operation):
            if view.IS_DEFINER and mentions is None:
                mentions = _mentions(block)
            if mentions is None or not any(mentions[name] for name in defined_symbols(view)):
                if mentions is not None:
                    mentions.subtract(used_symbols(view))
                operation.erase()
                erased += 1
                continue
        if has_regions(view):
            inside = 0
            for region in operation.regions:
                for inner in region.blocks:
                    inside += erase_dead(inner, besides)
            mentions = None if inside else mentions
            erased += inside
    return erased


def _mentions(block: ir.Block) -> Counter[str]:
    """How many ops of a block need each size."""
    return Counter(name for op in block.operations if isinstance(op, Op) for name in used_symbols(op))
