"""Split reductions: long column reductions run in parallel blocks of rows.

A reduction over leading axes keeps few elements (the channels of a batch of images, the features of a batch of tokens).
Each of them would be one long loop on one thread. Here every reducing stage becomes two kernels: one reduces blocks of
rows in parallel; the other combines the partial results and computes the values that depend on them alone. Stages that
write full-size results become kernels of their own, over all elements. The result does not depend on the number of
threads. A few long rows are split in the same way if the target prefers that. A reduction of a whole tensor to one
element is split into blocks of consecutive elements.

If a target chooses the rows of a block, a variance does not wait for its mean (`variance.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from burn.dialect.dims import Atom, Dim, Expr, LoopVar, atoms, ceildiv, dim_min, exact_div, product, substitute
from burn.kernels.body import (
    EXPENSIVE,
    Apply,
    Buffer,
    Const,
    Fetched,
    Load,
    LoopKernel,
    Reduced,
    Rewriter,
    Scalar,
    Stage,
    Where,
    Write,
    children,
    identity,
    loop_atoms,
    own_dims,
    walk,
)
from burn.kernels.builders.builder import Call, loop_index
from burn.kernels.builders.variance import Near, Variances, identity_of, variances
from burn.kernels.lower import delinear, linear
from burn.kernels.preferences import Preferences
from burn.kernels.rewrite import collapse_reduced

MOST_KEPT = 16384
"""Kept elements above which there is enough parallelism."""

SHORT = 4
"""Blocks this many times smaller than wanted are short."""

FEW_KEPT = 64
"""The same limit if each kept element is a long contiguous row."""


def split_reduction(call: Call, preferences: Preferences, downwards: bool) -> list[Call]:
    """Splits a reduction kernel into blocks of about `preferences.reduce_block` elements. Returns the kernel itself if that
    gains nothing, or if its stages pass whole rows to later ones. `downwards`: the kernel reduces leading axes."""
    kernel = call.kernel
    if not isinstance(kernel, LoopKernel):
        return [call]
    kept_elements = product([v.extent for v in kernel.parallel])
    if kept_elements == 1 and downwards:
        kernel = collapse_reduced(kernel)
    if not isinstance(kept_elements, int) or not _pays(kernel, kept_elements, preferences, downwards):
        return [call]
    return SplitReduction(call, kernel, kept_elements, preferences, downwards).calls()


def _block(kept: int, rows: Dim, preferences: Preferences, downwards: bool) -> int:
    """Elements of a block."""
    if not downwards:
        return kept * (preferences.long_rows // 16)
    if kept == 1:
        return preferences.reduce_block
    return kept * preferences.reduce_rows(kept, rows) if preferences.reduce_rows else preferences.reduce_block


def _pays(kernel: LoopKernel, kept: int, preferences: Preferences, downwards: bool) -> bool:
    inner = kernel.stages[0].loops
    rows = product([v.extent for v in inner])
    if not inner or not 0 < kept <= (MOST_KEPT if downwards else FEW_KEPT):
        return False
    times = sum(bool(s.loops) for s in kernel.stages)  # a norm reads its row for the mean, the variance and the result
    if not downwards and not (isinstance(rows, int) and rows * times >= preferences.long_rows > 0):
        return False
    if any(b.access == "scratch" for b in kernel.buffers):
        return False
    kinds = {r.kind for s in kernel.stages for r in s.reductions}
    few = isinstance(rows, int) and rows * kept < 4 * _block(kept, rows, preferences, downwards)
    return not any(k.startswith("arg") for k in kinds) and not few


@dataclass(frozen=True)
class Partial:
    """The kernels that reduce blocks, and how their results are combined: the loop over blocks, the loads of a block's results by
    name, and the number of its rows. The value from which a block measures deviations is named for its sum, with `NEAR`."""

    calls: tuple[Call, ...]
    flat: LoopVar
    loads: dict[str, Scalar]
    rows: Dim


NEAR = "_near"


class SplitReduction:
    """One kernel being split. `made`: the reductions formed so far. `known`: per-row values that later kernels read, by
    the id of a scalar (the scalar and the load that replaces it). `stored`: the same for each element."""

    def __init__(
        self, call: Call, kernel: LoopKernel, kept_elements: int, preferences: Preferences, downwards: bool
    ) -> None:
        self.call, self.kernel = call, kernel
        self.kept = kernel.parallel
        self.kept_elements = kept_elements
        self.buffers: list[Buffer] = list(kernel.buffers)
        self.bindings = list(call.bindings)
        self.made: set[str] = set()
        self.known: dict[int, tuple[Scalar, Scalar]] = {}
        self.stored: dict[int, tuple[Scalar, Load]] = {}
        self.numbers = 0
        self.downwards = downwards
        loops = kernel.stages[0].loops
        self.rows = product([v.extent for v in loops])
        block = _block(kept_elements, self.rows, preferences, downwards)
        self.flat = downwards and kept_elements > 1 and preferences.reduce_rows is not None
        cut = _flat_blocks(loops, block // kept_elements) if self.flat else _blocks(loops, kept_elements, block)
        self.outer, self.within, self.at, self.guard = cut.outer, cut.within, cut.at, cut.guard

    def calls(self) -> list[Call]:
        made: list[Call] = []
        stages = list(self.kernel.stages)
        while stages:
            stage = stages.pop(0)
            if stage.reductions and stage.writes:  # the reduction reads the stored value
                made.append(self._written(stage))
                self.stored |= {id(w.value): (w.value, Load(w.value.dtype, w.buffer, w.offset)) for w in stage.writes}
                stage = replace(stage, writes=())
            if stage.reductions:
                around = variances(stage, stages[0]) if self.flat and stages else None
                stages = stages[1:] if around else stages
                more = any(s.reductions for s in stages)
                rows = [] if more else [s for s in stages if not s.loops]
                stages = [s for s in stages if s not in rows]
                made += self._reduce(stage, around, rows, stages)
            else:
                made.append(self._written(stage))
        return made

    def _written(self, stage: Stage) -> Call:
        """A kernel for a stage's writes, over all elements."""
        read = self._reader()
        writes = tuple(Write(w.buffer, w.offset, read(w.value)) for w in stage.writes)
        over = (*stage.loops, *self.kept) if self.downwards else (*self.kept, *stage.loops)
        return self._call(over, (Stage((), (), writes),))

    def _reduce(
        self, stage: Stage, around: Variances | None, rows: Sequence[Stage], later: Sequence[Stage]
    ) -> list[Call]:
        """Partial results of each block, then the per-row values that follow from them and that later stages read.
        `around`: a stage whose results are formed along with this one's."""
        parts = self.partial(stage, around)
        loads, flat = parts.loads, parts.flat
        if around:
            both = around.combined(stage.reductions, loads, lambda r: loads[r.name + NEAR], parts.rows, self._reader())
            joined = [Stage((flat,), tuple(each)) for each in both]
        else:
            joined = [Stage((flat,), tuple(replace(r, body=loads[r.name]) for r in stage.reductions))]
        self.made |= {r.name for s in joined for r in s.reductions}
        here_too = self._reader()
        results = self._forwarded(later, here_too)
        results += [Write(w.buffer, w.offset, here_too(w.value)) for s in rows for w in s.writes]
        return [*parts.calls, self._call(self.kept, (*joined, Stage((), (), tuple(results))))]

    def partial(self, stage: Stage, around: Variances | None) -> Partial:
        """The partial results of each block."""
        count = product([v.extent for v in self.outer])
        flat = LoopVar("block", count)
        read = self._reader(self.at)
        formed = [replace(r, body=read(r.body)) for r in stage.reductions]
        if around:
            near = self._near()
            shifted = [r for r in stage.reductions if r.name in around.names]
            formed, parts = around.in_block(formed, near, self._rows_of(self.outer), self._guarded)
            parts |= {r.name + NEAR: near(r) for r in shifted}
        else:
            formed = [replace(r, body=self._guarded(r.body, identity_of(r))) for r in formed]
            parts: dict[str, Scalar] = {r.name: Reduced(r.dtype, r.name) for r in stage.reductions}
        kernels: list[Write] = []
        loads: dict[str, Scalar] = {}
        for name, part in parts.items():
            partial = self.shared(part.dtype, count * self.kept_elements)
            kernels.append(Write(partial, self._part(self.outer), part))
            loads[name] = Load(part.dtype, partial, self._part((flat,)))
        blocks = (Stage(self.within, tuple(formed)), Stage((), (), tuple(kernels)))
        made = self._call((*self.outer, *self.kept), blocks)
        return Partial((made,), flat, loads, self._rows_of((flat,)))

    def _part(self, block: tuple[LoopVar, ...]) -> Dim:
        """The index of a block's partial results. Those of flat blocks are adjacent, and one program combines them."""
        order = (*self.kept, *block) if self.flat else (*block, *self.kept)
        return linear(loop_index(order), [v.extent for v in order])

    def _forwarded(self, later: Sequence[Stage], here: Rewriter) -> list[Write]:
        """Stores the per-row values that later kernels read: values derived from the reductions, not the reductions.
        Otherwise every element would repeat divisions and square roots."""
        writes: list[Write] = []
        for scalar in [x for s in later for x in s.scalars]:
            for node in of_rows(scalar, self.kernel.stages[0].loops, self.made):
                if id(node) not in self.known:
                    buffer = self.shared(node.dtype, self.kept_elements)
                    self.known[id(node)] = (node, Load(node.dtype, buffer, self._mine()))
                    writes.append(Write(buffer, self._mine(), here(node)))
        return writes

    def _near(self) -> Near:
        """The operand of a reduction at the first row of a flat block."""
        first: dict[Atom, Dim] = dict.fromkeys(self.within, 0)
        read = Rewriter(lambda d: substitute(substitute(d, self.at), first), memo=dict(self.known))
        return lambda r: read(r.body)

    def _rows_of(self, block: tuple[LoopVar, ...]) -> Dim:
        """The number of rows of a flat block."""
        length = product([v.extent for v in self.within])
        return dim_min(length, self.rows - linear(loop_index(block), [v.extent for v in block]) * length)

    def _mine(self) -> Dim:
        return linear(loop_index(self.kept), [v.extent for v in self.kept])

    def _reader(self, at: dict[Atom, Dim] | None = None) -> Rewriter:
        """A rewriter to the indices of a block that loads the results of earlier kernels from memory."""
        there = at or {}
        stored = {
            number: (node, replace(load, offset=substitute(load.offset, there)))
            for number, (node, load) in self.stored.items()
        }
        return Rewriter(lambda d: substitute(d, there), memo={**self.known, **stored})

    def _guarded(self, body: Scalar, otherwise: Scalar) -> Scalar:
        """A body that is `otherwise` beyond the last row. Only the row's own loads are guarded, so that loop invariants
        are hoisted."""
        if not self.guard:
            return body
        if any(isinstance(a, Fetched) for node in walk(body) for d in own_dims(node) for a in loop_atoms(d)):
            return Where(body.dtype, self.guard, body, otherwise)
        inside = Rewriter(lambda d: d)
        for node in walk(body):
            if isinstance(node, Load) and not loop_atoms(node.offset).isdisjoint(self.within):
                guarded = Where(node.dtype, self.guard, node, Const(node.dtype, identity("sum", node.dtype)))
                inside.memo[id(node)] = (node, guarded)
        here = Where("bool", self.guard, Const("bool", True), Const("bool", False))
        return Apply(body.dtype, "select", (here, inside(body), otherwise))

    def shared(self, dtype: str, elements: Dim) -> int:
        self.buffers.append(Buffer(dtype, "read", elements))
        self.bindings.append(("shared", self.numbers))
        self.numbers += 1
        return len(self.buffers) - 1

    def _call(self, parallel: tuple[LoopVar, ...], stages: tuple[Stage, ...]) -> Call:
        """A kernel restricted to the buffers that it uses, in their order."""
        written = {w.buffer for s in stages for w in s.writes}
        read = {n.buffer for n in walk(*(x for s in stages for x in s.scalars)) if isinstance(n, Load)}
        used = sorted(written | read)
        number = {buffer: i for i, buffer in enumerate(used)}
        scalar = Rewriter(lambda d: d, buffer=number.__getitem__)
        buffers = tuple(replace(self.buffers[b], access="write" if b in written else "read") for b in used)
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


DIVIDING = frozenset(("div", "sqrt", "reciprocal", "rsqrt", *EXPENSIVE))
"""Functions whose per-row result is stored rather than recomputed for each element."""


def of_rows(root: Scalar, loops: Sequence[LoopVar], made: Collection[str]) -> Iterator[Scalar]:
    """The largest subexpressions that are invariant within a row and depend on the reductions in `made` or on expensive
    functions."""
    same: dict[int, bool] = {}
    worth: dict[int, bool] = {}
    reads: dict[int, bool] = {}
    for node in walk(root):
        parts = [id(p) for p in (*children(node), *_sources(node))]
        moving = any(isinstance(a, Fetched) or a in loops for d in own_dims(node) for a in loop_atoms(d))
        ready = not isinstance(node, Reduced) or node.name in made
        same[id(node)] = ready and not moving and all(same[p] for p in parts)
        costly = isinstance(node, Apply) and node.function in DIVIDING
        worth[id(node)] = costly or isinstance(node, Reduced) or any(worth[p] for p in parts)
        reads[id(node)] = bool(own_dims(node)) or any(reads[p] for p in parts)
    todo, seen = [(root, False)], set()
    while todo:
        node, guarded = todo.pop()
        if (id(node), guarded) in seen or not worth[id(node)]:
            continue
        seen.add((id(node), guarded))
        if same[id(node)] and not (guarded and reads[id(node)]):  # a guarded value may have no valid address
            yield node
        else:
            todo += [(c, guarded or isinstance(node, Where)) for c in children(node)]
            todo += [(source, True) for source in _sources(node)]


def _sources(node: Scalar) -> list[Scalar]:
    """The scalars that a node's own indices read."""
    return [a.source for d in own_dims(node) for a in atoms(d) if isinstance(a, Fetched)]


@dataclass(frozen=True)
class _Cut:
    """`outer`: loops over blocks; `within`: loops inside one; `at`: the split loops' indices; `guard`: their valid
    range."""

    outer: tuple[LoopVar, ...]
    within: tuple[LoopVar, ...]
    at: dict[Atom, Dim]
    guard: tuple[tuple[Dim, Dim], ...]


def _flat_blocks(loops: tuple[LoopVar, ...], rows: int) -> _Cut:
    """Blocks of `rows` rows, counting all loops as one."""
    extents = [v.extent for v in loops]
    total = product(extents)
    cut, within = LoopVar("rows", ceildiv(total, rows)), LoopVar("row", rows)
    row = Expr.of(cut) * rows + Expr.of(within)
    guard = () if exact_div(total, rows) is not None else ((row, total),)
    return _Cut((cut,), (within,), dict(zip(loops, delinear(row, extents), strict=True)), guard)


def _blocks(loops: tuple[LoopVar, ...], kept_elements: int, block: int) -> _Cut:
    """Blocks of as many whole loops as fit, or of a part of one loop. If what fits is short, also of a part of the next loop."""
    taken, size = len(loops), kept_elements
    while taken and isinstance(extent := loops[taken - 1].extent, int) and size * extent <= block:
        taken, size = taken - 1, size * extent
    if taken < len(loops) and (kept_elements > 1 or not taken or size * SHORT > block):
        return _Cut(loops[:taken], loops[taken:], {}, ())
    *outer, last = loops[: max(1, taken)]
    rows = max(1, block // size)
    if isinstance(last.extent, int):  # blocks of equal length if a long enough divisor exists
        even = [n for n in range(rows // 4 + 1, rows + 1) if last.extent % n == 0]
        rows = even[-1] if even else rows
    cut, within = LoopVar(f"{last.name}b", ceildiv(last.extent, rows)), LoopVar(last.name, rows)
    at = Expr.of(cut) * rows + Expr.of(within)
    guard = () if exact_div(last.extent, rows) is not None else ((at, last.extent),)
    return _Cut((*outer, cut), (within, *loops[max(1, taken) :]), {last: at}, guard)
