"""Sums down long columns, formed in blocks of rows side by side.

A reduction over leading axes keeps few places (the channels of a batch of images, the features of a batch of tokens), of which
each would be one long loop on one thread. Here every stage that reduces becomes two kernels: blocks of rows, in parallel, and
what joins their results and writes what is made of them alone; stages that write elsewhere become kernels of their own, over all
places. The result does not depend on the number of threads. Few long rows are cut in the same way, where a device wants it.
"""

from __future__ import annotations

from dataclasses import replace

from burn.dialect.dims import Atom, Dim, Expr, LoopVar, ceildiv, exact_div, product, substitute
from burn.kernels.body import (
    Buffer,
    Const,
    Load,
    LoopKernel,
    Reduced,
    Reduction,
    Rewriter,
    Scalar,
    Stage,
    Where,
    Write,
    identity,
    walk,
)
from burn.kernels.builders.builder import Call, place
from burn.kernels.lower import linear
from burn.kernels.wants import Wants

MOST_KEPT = 16384
"""Kept places above which there is enough to do side by side."""

FEW_KEPT = 64
"""The same where each is a long row that lies in one piece."""


def spread(call: Call, wants: Wants, downwards: bool) -> list[Call]:
    """The kernels that compute what a reduction's kernel does, in blocks of about `wants.reduce_block` elements; the kernel
    itself where that would win nothing, or where its stages hand rows on. downwards: what is reduced are the leading axes."""
    kernel = call.kernel
    if not isinstance(kernel, LoopKernel):
        return [call]
    places = product([v.extent for v in kernel.parallel])
    if not isinstance(places, int) or not _pays(kernel, places, wants, downwards):
        return [call]
    return _Spread(call, kernel, places, wants, downwards).calls()


def _block(kept: int, wants: Wants, downwards: bool) -> int:
    """Elements of a block."""
    return max(wants.reduce_block, kept * wants.reduce_rows) if downwards else kept * (wants.long_rows // 16)


def _pays(kernel: LoopKernel, kept: int, wants: Wants, downwards: bool) -> bool:
    inner, block = kernel.stages[0].loops, _block(kept, wants, downwards)
    rows = product([v.extent for v in inner])
    if not inner or not (1 < kept <= MOST_KEPT if downwards else 0 < kept <= FEW_KEPT):
        return False
    if not downwards and not (isinstance(rows, int) and rows >= wants.long_rows > 0):
        return False
    if any(b.role == "scratch" for b in kernel.buffers) or any(s.reductions and s.writes for s in kernel.stages):
        return False
    kinds = {r.kind for s in kernel.stages for r in s.reductions}
    return not any(k.startswith("arg") for k in kinds) and not (isinstance(rows, int) and rows * kept < 4 * block)


class _Spread:
    """One kernel being taken apart. `found` are the reductions made so far: by name the buffer, in the buffers of all, that holds
    their results."""

    def __init__(self, call: Call, kernel: LoopKernel, places: int, wants: Wants, downwards: bool) -> None:
        self.call, self.kernel = call, kernel
        self.kept = kernel.parallel
        self.places = places
        self.buffers: list[Buffer] = list(kernel.buffers)
        self.bindings = list(call.bindings)
        self.found: dict[str, int] = {}
        self.numbers = 0
        self.downwards = downwards
        block = _block(places, wants, downwards)
        self.outer, self.within, self.at, self.guard = _blocks(kernel.stages[0].loops, self.places, block)

    def calls(self) -> list[Call]:
        made: list[Call] = []
        stages = list(self.kernel.stages)
        while stages:
            stage = stages.pop(0)
            if stage.reductions:
                last = stages if len(stages) == 1 and not stages[0].loops else []
                made += self._reduce(stage, tuple(w for s in last for w in s.writes))
                stages = [] if last else stages
            else:
                read = self._reader()
                writes = tuple(Write(w.buffer, w.offset, read(w.value)) for w in stage.writes)
                over = (*stage.loops, *self.kept) if self.downwards else (*self.kept, *stage.loops)
                made.append(self._call(over, (Stage((), (), writes),)))
        return made

    def _reduce(self, stage: Stage, last: tuple[Write, ...]) -> list[Call]:
        """Partial results of each block, then the results, or what alone is made of them."""
        count = product([v.extent for v in self.outer])
        here = linear((*place(self.outer), *place(self.kept)), [v.extent for v in (*self.outer, *self.kept)])
        flat = LoopVar("block", count)
        read = self._reader(self.at)
        reductions, parts, joined, results = [], [], [], []
        for r in stage.reductions:
            partial = self._shared(r.dtype, count * self.places)
            reductions.append(replace(r, body=self._guarded(read(r.body), r)))
            parts.append(Write(partial, here, Reduced(r.dtype, r.name)))
            there = linear((Expr.of(flat), *place(self.kept)), [count, *(v.extent for v in self.kept)])
            joined.append(Reduction(r.name, r.kind, r.dtype, Load(r.dtype, partial, there)))
            if not last:
                total = self.found[r.name] = self._shared(r.dtype, self.places)
                results.append(Write(total, self._mine(), Reduced(r.dtype, r.name)))
        here_too = self._reader()
        results += [Write(w.buffer, w.offset, here_too(w.value)) for w in last]
        blocks = (Stage(self.within, tuple(reductions)), Stage((), (), tuple(parts)))
        return [
            self._call((*self.outer, *self.kept), blocks),
            self._call(self.kept, (Stage((flat,), tuple(joined)), Stage((), (), tuple(results)))),
        ]

    def _mine(self) -> Dim:
        return linear(place(self.kept), [v.extent for v in self.kept])

    def _reader(self, at: dict[Atom, Dim] | None = None) -> Rewriter:
        """With the results of earlier reductions read from memory, at the places of a block."""
        return Rewriter(lambda d: substitute(d, at) if at else d, self._leaf)

    def _leaf(self, node: Scalar) -> Scalar:
        """The result of an earlier kernel's reduction is read; that of the kernel's own is at hand."""
        if isinstance(node, Reduced) and node.name in self.found:
            return Load(node.dtype, self.found[node.name], self._mine())
        return node

    def _guarded(self, body: Scalar, reduction: Reduction) -> Scalar:
        """A body that past the last row is what changes nothing."""
        if not self.guard:
            return body
        return Where(body.dtype, self.guard, body, Const(body.dtype, identity(reduction.kind, reduction.dtype)))

    def _shared(self, dtype: str, elements: Dim) -> int:
        self.buffers.append(Buffer(dtype, "read", elements))
        self.bindings.append(("shared", self.numbers))
        self.numbers += 1
        return len(self.buffers) - 1

    def _call(self, parallel: tuple[LoopVar, ...], stages: tuple[Stage, ...]) -> Call:
        """A kernel with the buffers that it uses, in their order."""
        written = {w.buffer for s in stages for w in s.writes}
        read = {n.buffer for n in walk(*(x for s in stages for x in s.scalars)) if isinstance(n, Load)}
        used = sorted(written | read)
        number = {buffer: i for i, buffer in enumerate(used)}
        scalar = Rewriter(lambda d: d, buffer=number.__getitem__)
        buffers = tuple(replace(self.buffers[b], role="write" if b in written else "read") for b in used)
        made = tuple(
            Stage(
                s.loops,
                tuple(replace(r, body=scalar(r.body)) for r in s.reductions),
                tuple(Write(number[w.buffer], w.offset, scalar(w.value)) for w in s.writes),
                s.order,
            )
            for s in stages
        )
        return Call(LoopKernel(parallel, made, buffers), tuple(self.bindings[b] for b in used))


def _blocks(
    loops: tuple[LoopVar, ...], places: int, block: int
) -> tuple[tuple[LoopVar, ...], tuple[LoopVar, ...], dict[Atom, Dim], tuple[tuple[Dim, Dim], ...]]:
    """(loops over blocks, loops within one, what the places of a loop that is cut are, the range of those that exist)."""
    taken, size = len(loops), places
    while taken and isinstance(extent := loops[taken - 1].extent, int) and size * extent <= block:
        taken, size = taken - 1, size * extent
    if taken < len(loops):
        return loops[:taken], loops[taken:], {}, ()
    *outer, last = loops
    rows = max(1, block // places)
    if isinstance(last.extent, int):  # blocks of one length, if there is one that is long enough
        even = [n for n in range(rows // 4 + 1, rows + 1) if last.extent % n == 0]
        rows = even[-1] if even else rows
    cut, within = LoopVar(f"{last.name}b", ceildiv(last.extent, rows)), LoopVar(last.name, rows)
    at = Expr.of(cut) * rows + Expr.of(within)
    guard = () if exact_div(last.extent, rows) is not None else ((at, last.extent),)
    return (*outer, cut), (within,), {last: at}, guard
