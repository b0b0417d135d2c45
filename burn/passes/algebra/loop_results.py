"""Loops without results that nothing uses: carried values, stacked slices, and slices that are stacked twice."""

from __future__ import annotations

from burn.dialect.control import If, Loop, Yield, captured, defined_symbols, yielded
from burn.dialect.dims import symbols
from burn.dialect.loops import body, with_results
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.query import op_of
from burn.dialect.types import type_of


def prune(loop: Loop) -> bool:
    """Leaves out what is not needed; True if the loop was replaced. Derivatives of loops stack more than they use in the
    end, and a sum that moves out of a loop is no longer carried."""
    results, count = list(loop.operation.results), len(loop.args[2])
    fixed = [not symbols_of(r) & set(loop.symbols) for r in results]
    for i, argument in enumerate(list(body(loop).arguments)[2:]):
        fixed[i] = fixed[i] and type_of(argument) == type_of(loop.args[2][i])
        if fixed[i]:
            _hold(loop, i, argument)
    _merge(loop)
    used = [bool(list(r.uses)) or not f for r, f in zip(results, fixed, strict=True)]
    if all(used):
        return False
    live = _live(loop, used)
    if all(live):
        return False
    for i, argument in enumerate(list(body(loop).arguments)[2:]):
        if not live[i]:  # only ops that are not needed use it
            argument.replace_all_uses_with(loop.args[2][i])
    numbers = [i for i, is_live in enumerate(live) if is_live]
    with_results(loop, [i for i in numbers if i < count], [i for i in numbers if i >= count])
    return True


def symbols_of(value: ir.Value) -> set[str]:
    return {name for dim in type_of(value).shape for name in symbols(dim)}


def _hold(loop: Loop, number: int, argument: ir.Value) -> None:
    """A carried value that no iteration changes is the initial one."""
    if yielded(loop.operation.regions[0])[1 + number] == argument:
        argument.replace_all_uses_with(loop.args[2][number])
        loop.operation.results[number].replace_all_uses_with(loop.args[2][number])


def _merge(loop: Loop) -> None:
    """Stacks of one value are one result."""
    count, first = len(loop.args[2]), dict[ir.Value, ir.Value]()
    slices = yielded(loop.operation.regions[0])[1 + count :]
    for value, result in zip(slices, list(loop.operation.results)[count:], strict=True):
        known = first.setdefault(value, result)
        if known != result and known.type == result.type:
            result.replace_all_uses_with(known)


def _live(loop: Loop, used: list[bool]) -> list[bool]:
    """By result: it is used, or another result, the condition, or an op with an effect depends on it."""
    block, live = body(loop), list(used)
    going, *given = yielded(loop.operation.regions[0])
    arguments = {value: i for i, value in enumerate(list(block.arguments)[2:])}
    effects = [o.opview for o in list(block.operations)[:-1] if _has_effects(o.opview)]
    stack = [going, *(value for op in effects for value in _operands(op))]
    stack += [value for value, is_live in zip(given, live, strict=True) if is_live]
    seen: set[ir.Value] = set()
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if (number := arguments.get(value)) is not None:
            if not live[number]:
                live[number] = True
                stack.append(given[number])
            continue
        op = op_of(value)
        if op is not None and op.operation.block == block:
            stack += _operands(op)
    return live


def _has_effects(op: ir.OpView) -> bool:
    """True unless an op is pure and defines no sizes. Control flow is pure if all ops in its regions are."""
    if isinstance(op, Op) and op.IS_DEFINER and defined_symbols(op):
        return True
    if isinstance(op, If | Loop):
        return any(
            _has_effects(o.opview) for region in op.operation.regions for b in region.blocks for o in b.operations
        )
    return not (isinstance(op, Op) and (op.PURE or isinstance(op, Yield)))


def _operands(op: ir.OpView) -> list[ir.Value]:
    inner = captured(op) if isinstance(op, Op) and op.REGIONS else []
    return [*op.operation.operands, *inner]
