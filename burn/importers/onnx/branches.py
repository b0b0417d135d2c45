"""A value that is one of two, by a condition that the program finds: `choose` builds both branches as `burn.if`.

A branch that cannot be imported is left out; a run that takes it ends with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from burn.dialect import ops
from burn.dialect.compose import check_size
from burn.dialect.control import If, escapes, region_symbols, yielded_types
from burn.dialect.mlir import ir
from burn.dialect.types import Container, TensorType
from burn.errors import ModelError, Problem
from burn.importers.core import SHOWN
from burn.importers.onnx.conditions import Symbols
from burn.importers.onnx.lists import RunList, flatten, is_container, merged, run_list
from burn.importers.onnx.node import Node


def choose(
    node: Node,
    condition: ir.Value,
    then: Callable[[], list[Any]],
    otherwise: Callable[[], list[Any]],
    wanted: Sequence[Container | None] = (),
) -> list[Any]:
    """Builds `then` and `otherwise` under a runtime condition and returns their common results. `wanted`: the declared types of
    results that are sequences or optionals."""
    drafts, given, reasons = [], [], []
    for branch in (then, otherwise):
        draft, values, problems = _branch(node, condition, branch)
        drafts.append(draft)
        given.append(values)
        reasons.append(problems)
    if any(reasons):
        return _other(node, condition, (then, otherwise), drafts, reasons)
    blocks = [draft.regions[0].blocks[0] for draft in drafts]
    for index, pair in enumerate(zip(*given, strict=True)):
        if flatten(pair[0])[2] != flatten(pair[1])[2]:
            lists = _alike(node, blocks, pair, wanted[index] if index < len(wanted) else None)
            given[0][index], given[1][index] = lists
    rebuild = []
    for block, values in zip(blocks, given, strict=True):
        with ir.InsertionPoint(block):
            flat = [flatten(value) for value in values]
            ops.yield_([leaf for leaves, _, _ in flat for leaf in leaves])
            rebuild = [(build, len(leaves)) for leaves, build, _ in flat]
    symbols = Symbols(node)
    regions = [draft.regions[0] for draft in drafts]
    inner = region_symbols(regions[0]) | region_symbols(regions[1])
    pairs = list(zip(*(yielded_types(region) for region in regions), strict=True))
    if any(a.dtype == b.dtype and a.rank != b.rank for a, b in pairs):
        for draft in drafts:
            node.discard(draft)
        return (then if _insist(node, condition, pairs) else otherwise)()
    types = [_either(node, a, b, inner, symbols) for a, b in pairs]
    final = If.create(condition, result_types=types, symbols=tuple(symbols.names))
    for block, region in zip(blocks, final.regions, strict=True):
        block.append_to(region)
    for draft in drafts:
        draft.erase()
    values, results = list(final.results), []
    for build, count in rebuild:
        results.append(build(values[:count]))
        values = values[count:]
    return results


def _branch(node: Node, condition: ir.Value, build: Callable[[], list[Any]]) -> tuple[Any, list[Any], list[Problem]]:
    """A branch in the first region of an op that is given up later, what it gives, and the problems that it met. It is built
    again, in another op, while a search changes what was chosen in it."""
    drafts = []

    def attempt() -> list[Any]:
        for draft in drafts:
            node.discard(draft)
        drafts[:] = [If.create(condition, result_types=[])]
        with ir.InsertionPoint(drafts[0].regions[0].blocks.append()):
            return build()

    values, problems = node.attempt(attempt)
    return drafts[0], values, problems


def _other(
    node: Node,
    condition: ir.Value,
    branches: Sequence[Callable[[], list[Any]]],
    drafts: Sequence[ir.Operation],
    reasons: Sequence[Sequence[Problem]],
) -> list[Any]:
    """The fallback for branches that cannot be built: the other branch, guarded by a check of the condition. Fails if there is
    none."""
    for draft in drafts:
        node.discard(draft)
    if all(reasons):
        node.importer.problems.found += [problem for found in reasons for problem in found]
        raise ModelError("neither branch can be imported", [node.problem("neither of its branches can be imported")])
    taken = 1 if reasons[0] else 0
    why = "; ".join(str(problem) for problem in reasons[1 - taken][:SHOWN])
    more = len(reasons[1 - taken]) - SHOWN
    why += f", and {more} more" if more > 0 else ""
    name = ("else", "then")[taken]
    _only(node, condition, taken == 0, f"the {name} branch of this If cannot be imported: {why}")
    return branches[taken]()


def _only(node: Node, condition: ir.Value, taken: bool, says: str) -> None:
    """Ends every run that finds the condition otherwise."""
    found = node.read_dim(ops.cast(condition, dtype="int64"), hint="branch")
    check_size(found, "==", int(taken), says)


def _alike(node: Node, blocks: Sequence[ir.Block], pair: tuple[Any, Any], wanted: Container | None) -> list[RunList]:
    """The results of two branches as lists of one kind."""
    if not all(map(is_container, pair)) and wanted is None:
        node.fail("one branch gives a tensor and the other a sequence or an optional; the condition must be a constant")
    lists = []
    for block, value in zip(blocks, pair, strict=True):
        with ir.InsertionPoint(block):
            lists.append(run_list(value, wanted))
    known = [items for items in lists if items is not None]
    for i, (block, value) in enumerate(zip(blocks, pair, strict=True)):
        if lists[i] is None and known:  # an empty list whose type only the other branch gives
            with ir.InsertionPoint(block):
                lists[i] = run_list(value, known[0].container)
    first, second = lists
    if first is None or second is None:
        node.fail("the branches give sequences or optionals of different elements; the condition must be a constant")
    container = second.container if first.empty else first.container if second.empty else None
    container = container or merged(first.container, second.container)
    if container is None:
        node.fail(f"one branch gives a {first.container} and the other a {second.container}")
    return [replace(items, container=container, empty=first.empty and second.empty) for items in (first, second)]


def _insist(node: Node, condition: ir.Value, pairs: Sequence[tuple[TensorType, TensorType]]) -> bool:
    """Chooses the branch to build if both give values of different ranks, which no program can represent.

    It is the one that the model declares. Otherwise it is the one of more axes (`squeeze if the size is 1`), or the one that
    later nodes accept. A run with the other condition fails."""
    ranks = [(a.rank, b.rank, said) for (a, b), said in zip(pairs, node.declared_ranks(), strict=False)]
    decided = [said == one for one, other, said in ranks if one != other and said in (one, other)]
    likely = decided[0] if decided else all(one >= other for one, other, _ in ranks)
    taken = likely != bool(node.pick(2))
    says = "the branches of this If give values of different ranks: a program is for one of them. Fix the sizes that decide"
    _only(node, condition, taken, says)
    return taken


def _either(node: Node, a: TensorType, b: TensorType, inner: set[str], symbols: Symbols) -> TensorType:
    """The type of a value that is one of two."""
    if a.dtype != b.dtype or a.rank != b.rank:
        node.fail(f"one branch gives {a} and the other {b}; only sizes may differ, unless the condition is a constant")
    pairs = zip(a.shape, b.shape, strict=True)
    return a.with_shape(tuple(x if x == y and not escapes(x, inner) else symbols.new("if_size") for x, y in pairs))
