"""Copies of ops, and the copies of values that Python functions see.

Derivatives build regions again (`adjoint/control.py`, `adjoint/sections.py`). A Python function that is called there, such as the
backward function of `burn.custom_vjp`, may hold tensors of the region that was copied. `seeing` maps their values to the copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from burn.dialect.mlir import ir
from burn.dialect.traits import Trait

Copies: TypeAlias = Mapping[Any, Any]
"""Values and what stands for them in the copy."""

_seen: ContextVar[tuple[Copies, ...]] = ContextVar("seen", default=())


def copy_ops(operations: Iterable[ir.Operation], copies: dict[Any, ir.Value], observers: bool = False) -> None:
    """Builds ops again, with their regions, at the insertion point. copies: what stands for the values they use; the values they
    define, in regions too, are added to it. observers: with the ops of `burn.debug`, which run once."""
    clones = []
    for operation in operations:
        clone = operation.clone()
        rename(clone, copies)
        _pair(operation, clone, copies)
        clones.append(clone)
    for clone in () if observers else clones:
        erase_observers(clone)


def erase_observers(operation: ir.Operation) -> None:
    """Erases an op that only looks at values, and those in an op's regions."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in list(block.operations):
                erase_observers(inner.operation)
    if Trait.OBSERVES in getattr(operation.opview, "TRAITS", Trait.NONE):
        operation.erase()


def rename(operation: ir.Operation, names: Copies) -> None:
    """Replaces the operands of an op, and of the ops in its regions."""
    for i, operand in enumerate(operation.operands):
        if operand in names:
            operation.operands[i] = names[operand]
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                rename(inner.operation, names)


def _pair(operation: ir.Operation, clone: ir.Operation, copies: dict[Any, ir.Value]) -> None:
    copies.update(zip(operation.results, clone.results, strict=True))
    for mine, theirs in zip(operation.regions, clone.regions, strict=True):
        for block, copied in zip(mine.blocks, theirs.blocks, strict=True):
            copies.update(zip(block.arguments, copied.arguments, strict=True))
            for inner, other in zip(block.operations, copied.operations, strict=True):
                _pair(inner.operation, other.operation, copies)


# ---- what Python functions see -----------------------------------------------------------------------------------------
@contextmanager
def seeing(chain: tuple[Copies, ...]) -> Iterator[None]:
    """Tensors that are used inside have the copies' values. chain: copies, copies of copies, and so on."""
    token = _seen.set(chain)
    try:
        yield
    finally:
        _seen.reset(token)


def seen_now() -> tuple[Copies, ...]:
    """The chain of the innermost `seeing`."""
    return _seen.get()


def seen(value: Any) -> Any:
    """The current copy of a value; the value itself outside of `seeing`."""
    for copies in _seen.get():
        value = copies.get(value, value)
    return value
