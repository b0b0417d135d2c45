"""Split-K: a matmul whose depth is split into parts that accumulate in parallel.

A weight's gradient has few rows and columns and a depth of all pixels of a batch; a convolution of a small image has
few rows. Tiles alone would leave most of the device idle. Such a matmul becomes two kernels: partial sums over parts of
the depth, and a loop that adds them and applies the epilogue. The order of the additions is fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from math import prod

from burn.dialect.dims import Dim, Expr, LoopVar, ceildiv, product, substitute
from burn.kernels.body import (
    Accumulator,
    Buffer,
    Const,
    ContractionKernel,
    Load,
    LoopKernel,
    Reduced,
    Reduction,
    Rewriter,
    Scalar,
    Stage,
    Where,
    Write,
)
from burn.kernels.builders.builder import Call, loop_index, with_used_buffers
from burn.kernels.lower import linear
from burn.kernels.preferences import Preferences
from burn.kernels.rewrite import collapse

EVEN = 64
"""Parts of a contiguous depth have a multiple of this many elements, so that tiles are full."""

FEW = 128
"""The most results of one index of the batch that are few."""

PIECES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of pieces for a loop of unknown extent, or without a suitable divisor."""


UNEVEN = (3, 5)
"""Numbers of pieces for a loop that they do not divide: two parts are often too few, and four too many."""


@dataclass(frozen=True)
class Cut:
    """One of the depth's loops in `pieces` of `length` iterations. `guarded`: the last piece may be shorter."""

    loop: LoopVar
    pieces: int = 1
    length: Dim = 0
    guarded: bool = False


def split_k(call: Call, preferences: Preferences) -> list[Call]:
    """The kernels of a matmul, split as the target prefers."""
    shares = any(binding is not None and binding[0] == "shared" for binding in call.bindings)
    if preferences.split_depth is None or shares or not isinstance(call.kernel, ContractionKernel):
        return [call]
    if not call.kernel.is_plain:
        return [call]
    kernel = collapse(call.kernel)
    assert isinstance(kernel, ContractionKernel)
    if preferences.depth_shares is not None and (divided := preferences.depth_shares(kernel)):
        return [call] if divided == 1 else _in_shares(replace(call, kernel=kernel), kernel, divided)
    choices = _best_choices(kernel.depth, preferences.likely, preferences.split_parts)
    count = preferences.split_depth(kernel, sorted(choices))
    return [call] if count == 1 else _calls(replace(call, kernel=kernel), kernel, choices[count], count)


def _best_choices(depth: Sequence[LoopVar], likely: Callable[[Dim], Dim], most: int) -> dict[int, tuple[Cut, ...]]:
    """For each number of parts up to `most` the split with the shortest parts. Of equal ones it is that with the fewest
    conditions. likely: the likely value of a size with a name."""
    found: dict[int, tuple[int, int, tuple[Cut, ...]]] = {}
    for cuts in _choices(depth, likely, most):
        count = prod(c.pieces for c in cuts)
        length = likely(_part(cuts))
        conditions = sum((c.pieces > 1) + 2 * c.guarded for c in cuts)
        known = length if isinstance(length, int) else 0
        if count not in found or (known, conditions) < found[count][:2]:
            found[count] = known, conditions, cuts
    return {count: cuts for count, (_, _, cuts) in found.items()}


def _part(cuts: Sequence[Cut]) -> Dim:
    """The depth of one part."""
    return product([c.length if c.pieces > 1 else c.loop.extent for c in cuts])


def _choices(depth: Sequence[LoopVar], likely: Callable[[Dim], Dim], most: int) -> Iterator[tuple[Cut, ...]]:
    """Splits of the loops in which no part is empty, nor likely to be: 128 parts of 32 images, for example."""
    for cuts in combinations(*(_cuts(v, v == depth[-1], likely, most) for v in depth)):
        if 1 < prod(c.pieces for c in cuts) <= most:
            left = _part(cuts)
            if not isinstance(left, int) or left >= EVEN:
                yield cuts
    for number, loop in enumerate(depth[:-1]):
        extent = loop.extent
        if isinstance(extent, int):
            others = [Cut(v) for v in depth]
            for n in UNEVEN:
                cuts = (*others[:number], Cut(loop, n, -(-extent // n), True), *others[number + 1 :])
                left = _part(cuts)
                if extent % n and extent > n * n and (not isinstance(left, int) or left >= EVEN):
                    yield cuts


def _cuts(loop: LoopVar, innermost: bool, likely: Callable[[Dim], Dim], most: int) -> Iterator[Cut]:
    extent = loop.extent
    yield Cut(loop)
    if not innermost and isinstance(extent, int):
        yield from (Cut(loop, n, extent // n) for n in range(2, min(extent, most) + 1) if extent % n == 0)
        return
    for pieces in PIECES:
        length = ceildiv(extent, pieces)
        length = ceildiv(length, EVEN) * EVEN if innermost else length
        size, part = likely(extent), likely(length)
        known = isinstance(size, int) and isinstance(part, int)
        if not known or ceildiv(size, part or 1) == pieces:
            whole = isinstance(extent, int) and isinstance(length, int) and length * pieces == extent
            yield Cut(loop, pieces, length, not whole)


def _calls(call: Call, kernel: ContractionKernel, cuts: Sequence[Cut], count: int) -> list[Call]:
    parts, depth, at, guards = [], [], {}, []
    for cut in cuts:
        if cut.pieces == 1:
            depth.append(cut.loop)
            continue
        part, within = LoopVar(f"{cut.loop.name}p", cut.pieces), LoopVar(cut.loop.name, cut.length)
        parts.append(part)
        if cut.length != 1:
            depth.append(within)
        (inside,) = loop_index((within,))
        at[cut.loop] = Expr.of(part) * cut.length + inside
        guards += [(at[cut.loop], cut.loop.extent)] if cut.guarded else []
    moved = Rewriter(lambda d: substitute(d, at))
    sums = replace(
        kernel,
        batch=(*parts, *kernel.batch),
        depth=tuple(depth),
        lhs=_guarded(moved(kernel.lhs), guards),
        rhs=_guarded(moved(kernel.rhs), guards),
    )
    return _summed(call, kernel, sums, tuple(parts), count)


def _in_shares(call: Call, kernel: ContractionKernel, count: int) -> list[Call]:
    """The kernels of a matmul whose printer chooses the shares of the depth."""
    share = LoopVar("share", count)
    return _summed(call, kernel, replace(kernel, shares=(share,)), (share,), count)


def _summed(
    call: Call, kernel: ContractionKernel, sums: ContractionKernel, parts: tuple[LoopVar, ...], count: int
) -> list[Call]:
    """A kernel that stores partial sums, and one that adds them and has the epilogue. sums: the first kernel but for what it
    writes; parts: its loops over the parts, `count` in total."""
    results = (*kernel.rows, kernel.column)
    few = product([v.extent for v in results])
    # With a few results for each index of the batch (the taps of a depthwise kernel), neighbours in the batch are adjacent.
    batch = (*results, *kernel.batch) if isinstance(few, int) and few <= FEW else (*kernel.batch, *results)
    here, elements = linear(loop_index(batch), [v.extent for v in batch]), product([v.extent for v in batch])
    number = linear(loop_index(parts), [v.extent for v in parts])
    partial = len(kernel.buffers)
    bindings = (*call.bindings, ("shared", 0))
    memory = Buffer(kernel.dtype, "write", elements * count)
    stored = replace(
        sums,
        epilogue=(Write(partial, number * elements + here, Accumulator(kernel.dtype)),),
        buffers=(*kernel.buffers, memory),
    )
    part, total = LoopVar("part", count), Reduced(kernel.dtype, "acc")
    known = Rewriter(lambda d: d, lambda node: total if isinstance(node, Accumulator) else node)
    added = Reduction("acc", "sum", kernel.dtype, Load(kernel.dtype, partial, Expr.of(part) * elements + here))
    epilogue = tuple(replace(w, value=known(w.value)) for w in kernel.epilogue)
    joined = LoopKernel(
        batch,
        (Stage((part,), (added,)), Stage((), (), epilogue)),
        (*kernel.buffers, replace(memory, access="read")),
    )
    return [with_used_buffers(stored, bindings), with_used_buffers(joined, bindings)]


def _guarded(operand: Scalar, guards: Sequence[tuple[Dim, Dim]]) -> Scalar:
    """An operand that is zero beyond the last index. The condition merges with an existing zero padding."""
    if not guards:
        return operand
    if isinstance(operand, Where) and isinstance(operand.otherwise, Const) and operand.otherwise.value == 0:
        return replace(operand, ranges=(*guards, *operand.ranges))
    return Where(operand.dtype, tuple(guards), operand, Const(operand.dtype, 0))
