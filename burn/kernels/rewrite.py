"""Kernels rewritten as a whole: every index expression mapped, loops merged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from burn.dialect.dims import Atom, Dim, Expr, LoopVar, atoms, coefficient, substitute
from burn.kernels.body import (
    ContractionKernel,
    Fetched,
    Kernel,
    LoopKernel,
    Reduction,
    Rewriter,
    Stage,
    Write,
    own_dims,
    walk,
)

MapLoops = Callable[[tuple[LoopVar, ...]], tuple[LoopVar, ...]]


def kernel_dims(kernel: Kernel) -> list[Dim]:
    """Every index expression of a kernel, without the loops' extents."""
    if isinstance(kernel, ContractionKernel):
        dims = [kernel.lhs.offset, kernel.rhs.offset, *(d for pair in kernel.valid for d in pair)]
        writes, bodies = kernel.epilogue, [w.value for w in kernel.epilogue]
    else:
        writes = [w for s in kernel.stages for w in s.writes]
        bodies = [node for s in kernel.stages for node in s.scalars]
        dims = [r.index for s in kernel.stages for r in s.reductions]
    dims += [w.offset for w in writes]
    for node in walk(*bodies):
        dims += own_dims(node)
    for dim in list(dims):  # indices read from data have expressions of their own
        for atom in atoms(dim):
            if isinstance(atom, Fetched):
                for node in walk(atom.source):
                    dims += own_dims(node)
    return dims


def kernel_loops(kernel: Kernel) -> list[LoopVar]:
    if isinstance(kernel, ContractionKernel):
        return [*kernel.batch, *kernel.rows, kernel.column, kernel.panel, *kernel.outer, kernel.inner]
    return [*kernel.parallel, *(v for s in kernel.stages for v in s.loops)]


def map_kernel(kernel: Kernel, dim: Callable[[Dim], Dim], loops: MapLoops) -> Kernel:
    """The kernel with every expression and every tuple of loops mapped."""
    rewrite = Rewriter(dim)

    def writes(old: tuple[Write, ...]) -> tuple[Write, ...]:
        return tuple(Write(w.buffer, rewrite.index(w.offset), rewrite(w.value)) for w in old)

    if isinstance(kernel, ContractionKernel):
        (column,), (panel,), (inner,) = (loops((v,)) for v in (kernel.column, kernel.panel, kernel.inner))
        return replace(
            kernel,
            batch=loops(kernel.batch),
            rows=loops(kernel.rows),
            column=column,
            panel=panel,
            outer=loops(kernel.outer),
            inner=inner,
            lhs=replace(kernel.lhs, offset=rewrite.index(kernel.lhs.offset)),
            rhs=replace(kernel.rhs, offset=rewrite.index(kernel.rhs.offset)),
            valid=tuple((rewrite.index(e), rewrite.index(n)) for e, n in kernel.valid),
            epilogue=writes(kernel.epilogue),
            buffers=tuple(replace(b, elements=dim(b.elements)) for b in kernel.buffers),
        )
    stages = [
        Stage(
            loops(s.loops),
            tuple(
                Reduction(r.name, r.kind, r.dtype, rewrite(r.body), rewrite.index(r.index), r.last)
                for r in s.reductions
            ),
            writes(s.writes),
        )
        for s in kernel.stages
    ]
    buffers = tuple(replace(b, elements=dim(b.elements)) for b in kernel.buffers)
    return LoopKernel(loops(kernel.parallel), tuple(stages), buffers)


def collapse(kernel: Kernel) -> Kernel:
    """Merges neighbouring parallel (batch, row) loops that every index map walks as one."""
    while (pair := _mergeable(kernel)) is not None:
        outer, inner = pair
        merged = LoopVar(inner.name, outer.extent * inner.extent)
        places: dict[Atom, Dim] = {outer: 0, inner: Expr.of(merged)}
        kernel = map_kernel(
            kernel,
            lambda d, places=places: substitute(d, places),
            lambda old, o=outer, i=inner, m=merged: tuple(m if v == i else v for v in old if v != o),
        )
    return kernel


def _mergeable(kernel: Kernel) -> tuple[LoopVar, LoopVar] | None:
    dims = kernel_dims(kernel)
    runs = (kernel.rows, kernel.batch) if isinstance(kernel, ContractionKernel) else (kernel.parallel,)
    for loops in runs:
        for outer, inner in pairwise(loops):
            if all(_walks_as_one(d, outer, inner) for d in dims):
                return outer, inner
    return None


def _walks_as_one(dim: Dim, outer: LoopVar, inner: LoopVar) -> bool:
    """Whether an expression advances by outer exactly where inner wraps around."""
    a, b = coefficient(dim, outer), coefficient(dim, inner)
    return a is not None and b is not None and a == b * inner.extent
