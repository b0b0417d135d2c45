"""Rewrites of whole kernels: mapping every index expression, merging loops, a contraction as plain loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from burn.dialect.dims import Atom, Call, Dim, Expr, LoopVar, atoms, coefficient, floordiv, mod, substitute, terms
from burn.errors import unreachable
from burn.kernels.body import (
    Accumulator,
    Apply,
    AttentionGradientKernel,
    AttentionKernel,
    Buffer,
    ContractionKernel,
    Fetched,
    Fold,
    Kernel,
    Load,
    LoopKernel,
    Reduced,
    Reduction,
    Rewriter,
    Scalar,
    Stage,
    Write,
    own_dims,
    walk,
)

MapLoops = Callable[[tuple[LoopVar, ...]], tuple[LoopVar, ...]]

GRADIENT_PARTS = ("query", "keys", "values", "score", "steepness", "owed", "norm", "dot")
GRADIENT_BOUNDS = ("first", "stop", "begin", "end")
"""The scalars and the bounds of an AttentionGradientKernel."""


def _content(kernel: Kernel) -> tuple[Sequence[Write], list[Scalar], list[Dim]]:
    """A kernel's writes, its other scalars, and the index expressions in neither."""
    match kernel:
        case ContractionKernel():
            return kernel.epilogue, [kernel.lhs, kernel.rhs], []
        case AttentionKernel():
            parts = [kernel.query, kernel.keys, kernel.values, kernel.score]
            return [*kernel.epilogue, *kernel.norms], parts, [kernel.first, kernel.stop]
        case AttentionGradientKernel():
            parts = [getattr(kernel, name) for name in GRADIENT_PARTS]
            bounds = [getattr(kernel, name) for name in GRADIENT_BOUNDS]
            return [*kernel.row_writes, *kernel.key_writes, *kernel.value_writes], parts, bounds
        case LoopKernel():
            reductions = [r for s in kernel.stages for r in s.reductions] + [f.reduction for f in kernel.folds]
            writes = [w for s in kernel.stages for w in s.writes]
            return writes, [r.body for r in reductions], [*(r.index for r in reductions), kernel.block]
        case _:
            raise unreachable(kernel)


def kernel_dims(kernel: Kernel) -> list[Dim]:
    """Every index expression of a kernel, without the loops' extents."""
    writes, bodies, dims = _content(kernel)
    nodes = walk(*bodies, *(w.value for w in writes))
    return _with_fetched([*dims, *(w.offset for w in writes), *(d for node in nodes for d in own_dims(node))])


def fetches(kernel: Kernel) -> bool:
    """True if any index is read from data."""
    return any(isinstance(atom, Fetched) for dim in kernel_dims(kernel) for atom in atoms(dim))


def used_buffers(kernel: Kernel) -> set[int]:
    """The numbers of the buffers that a kernel reads or writes."""
    writes, bodies, _ = _content(kernel)
    nodes = walk(*bodies, *(w.value for w in writes))
    folds = kernel.folds if isinstance(kernel, LoopKernel) else ()
    return {n.buffer for n in nodes if isinstance(n, Load)} | {x.buffer for x in (*writes, *folds)}


def _with_fetched(dims: list[Dim]) -> list[Dim]:
    """Index expressions with those of the indices that they read from data."""
    return dims + [
        own
        for dim in dims
        for atom in atoms(dim)
        if isinstance(atom, Fetched)
        for node in walk(atom.source)
        for own in own_dims(node)
    ]


def kernel_loops(kernel: Kernel) -> list[LoopVar]:
    match kernel:
        case ContractionKernel():
            return [*kernel.batch, *kernel.rows, kernel.column, *kernel.depth]
        case AttentionKernel():
            return [*kernel.batch, *kernel.rows, kernel.key, kernel.depth, kernel.column]
        case AttentionGradientKernel():
            return [*kernel.batch, *kernel.heads, kernel.row, kernel.key, kernel.depth, kernel.column]
        case LoopKernel():
            return [*kernel.parallel, *(v for s in (*kernel.stages, *kernel.folds) for v in s.loops)]
        case _:
            raise unreachable(kernel)


def map_kernel(
    kernel: Kernel, dim: Callable[[Dim], Dim], loops: MapLoops, number: Callable[[int], int] = lambda number: number
) -> Kernel:
    """The kernel with every index expression, loop tuple and buffer number mapped."""
    rewrite = Rewriter(dim, buffer=number)

    def writes(old: tuple[Write, ...]) -> tuple[Write, ...]:
        return tuple(Write(number(w.buffer), rewrite.index(w.offset), rewrite(w.value)) for w in old)

    def reduction(r: Reduction) -> Reduction:
        return replace(r, body=rewrite(r.body), index=rewrite.index(r.index))

    def stage(s: Stage) -> Stage:
        return Stage(loops(s.loops), tuple(map(reduction, s.reductions)), writes(s.writes), s.order)

    def fold(f: Fold) -> Fold:
        return Fold(loops(f.loops), reduction(f.reduction), number(f.buffer))

    def buffer(b: Buffer) -> Buffer:
        return replace(b, elements=dim(b.elements))

    buffers = tuple(map(buffer, kernel.buffers))
    match kernel:
        case ContractionKernel():
            return ContractionKernel(
                kernel.dtype,
                loops(kernel.batch),
                loops(kernel.rows),
                loops((kernel.column,))[0],
                loops(kernel.depth),
                rewrite(kernel.lhs),
                rewrite(kernel.rhs),
                writes(kernel.epilogue),
                buffers,
                kernel.fast,
            )
        case AttentionKernel():
            (key,), (depth,), (column,) = (loops((v,)) for v in (kernel.key, kernel.depth, kernel.column))
            return AttentionKernel(
                kernel.dtype,
                loops(kernel.batch),
                loops(kernel.rows),
                key,
                depth,
                column,
                rewrite(kernel.query),
                rewrite(kernel.keys),
                rewrite(kernel.values),
                rewrite(kernel.score),
                rewrite.index(kernel.first),
                rewrite.index(kernel.stop),
                writes(kernel.epilogue),
                writes(kernel.norms),
                buffers,
            )
        case AttentionGradientKernel():
            single = {name: loops((getattr(kernel, name),))[0] for name in ("row", "key", "depth", "column")}
            parts = {name: rewrite(getattr(kernel, name)) for name in GRADIENT_PARTS}
            bounds = {name: rewrite.index(getattr(kernel, name)) for name in GRADIENT_BOUNDS}
            return replace(
                kernel,
                batch=loops(kernel.batch),
                heads=loops(kernel.heads),
                row_writes=writes(kernel.row_writes),
                key_writes=writes(kernel.key_writes),
                value_writes=writes(kernel.value_writes),
                buffers=buffers,
                **single,
                **parts,
                **bounds,
            )
        case LoopKernel():
            stages, folds = tuple(map(stage, kernel.stages)), tuple(map(fold, kernel.folds))
            return LoopKernel(loops(kernel.parallel), stages, buffers, folds, dim(kernel.block))
        case _:
            raise unreachable(kernel)


def as_loops(kernel: ContractionKernel) -> LoopKernel:
    """The contraction as a reduction for every element, for a back end that does not tile it."""
    total = Reduced(kernel.dtype, "acc")
    summed = Rewriter(lambda d: d, lambda node: total if isinstance(node, Accumulator) else node)
    multiplied = Apply(kernel.dtype, "mul", (kernel.lhs, kernel.rhs))
    epilogue = tuple(replace(w, value=summed(w.value)) for w in kernel.epilogue)
    stages = (Stage(kernel.depth, (Reduction("acc", "sum", kernel.dtype, multiplied),)), Stage((), (), epilogue))
    return LoopKernel((*kernel.batch, *kernel.rows, kernel.column), stages, kernel.buffers)


def collapse(kernel: Kernel) -> Kernel:
    """Merges neighbouring parallel (batch, row) or depth loops that every index map walks as one."""
    while (pair := _mergeable(kernel)) is not None:
        outer, inner = pair
        merged = LoopVar(inner.name, outer.extent * inner.extent)
        at: dict[Atom, Dim] = {outer: 0, inner: Expr.of(merged)}
        kernel = map_kernel(
            kernel,
            lambda d, at=at: substitute(d, at),
            lambda old, o=outer, i=inner, m=merged: tuple(m if v == i else v for v in old if v != o),
        )
    return kernel


def copied(kernel: LoopKernel) -> tuple[int, int] | None:
    """The source and destination of a kernel that only copies each element to the same index; otherwise None."""
    match kernel.stages:
        case (Stage(reductions=(), writes=(Write(value=Load() as load) as write,), order="parallel"),):
            return (load.buffer, write.buffer) if load.offset == write.offset else None
    return None


def lengthen(kernel: LoopKernel, least: int) -> LoopKernel:
    """Merges the last parallel loops if the innermost is shorter than `least` and every write walks them as one. Reads
    in another order divide the merged index."""
    while (
        len(kernel.parallel) > 1
        and not any(s.loops or s.reductions or s.order != "parallel" for s in kernel.stages)
        and isinstance(kernel.parallel[-1].extent, int)
        and 1 < kernel.parallel[-1].extent < least
        and all(_walks_as_one(w.offset, *kernel.parallel[-2:]) for s in kernel.stages for w in s.writes)
    ):
        outer, inner = kernel.parallel[-2:]
        merged = LoopVar(inner.name, outer.extent * inner.extent)
        flat = Expr.of(merged)
        together: dict[Atom, Dim] = {outer: 0, inner: flat}
        apart: dict[Atom, Dim] = {outer: floordiv(flat, inner.extent), inner: mod(flat, inner.extent)}
        longer = map_kernel(
            kernel,
            lambda d, o=outer, i=inner, t=together, a=apart: substitute(d, t if _walks_as_one(d, o, i) else a),
            lambda old, o=outer, i=inner, m=merged: tuple(m if v == i else v for v in old if v != o),
        )
        assert isinstance(longer, LoopKernel)
        kernel = longer
    return kernel


def divided(kernel: LoopKernel) -> LoopKernel:
    """The converse of `lengthen`: splits the last parallel loop into quotient and remainder loops if indices divide it
    by a number."""
    last = kernel.parallel[-1] if kernel.parallel else None
    if last is None or not isinstance(last.extent, int):
        return kernel
    divisors = {d for dim in kernel_dims(kernel) for d in _divisors(dim, last)}
    divisor = divisors.pop() if len(divisors) == 1 else None
    if not isinstance(divisor, int) or last.extent % divisor or divisor in (1, last.extent):
        return kernel
    quotient, remainder = LoopVar(f"{last.name}q", last.extent // divisor), LoopVar(f"{last.name}r", divisor)
    apart: dict[Atom, Dim] = {last: Expr.of(quotient) * divisor + Expr.of(remainder)}
    made = map_kernel(
        kernel,
        lambda d: substitute(d, apart),
        lambda old: tuple(part for v in old for part in ((quotient, remainder) if v == last else (v,))),
    )
    assert isinstance(made, LoopKernel)
    return made


def _divisors(dim: Dim, loop: LoopVar) -> list[Dim]:
    """The divisors of a loop in an expression."""
    calls = [atom for monomial, _ in terms(dim) for atom in monomial if isinstance(atom, Call)]
    return [a.args[1] for a in calls if a.op in ("floordiv", "mod") and a.args[0] == Expr.of(loop)]


def _mergeable(kernel: Kernel) -> tuple[LoopVar, LoopVar] | None:
    dims = kernel_dims(kernel)
    match kernel:
        case ContractionKernel():
            runs = (kernel.rows, kernel.batch, kernel.depth)
        case AttentionKernel():
            runs = (kernel.rows, kernel.batch)
        case AttentionGradientKernel():
            runs = (kernel.batch, kernel.heads)
        case LoopKernel():
            runs = (kernel.parallel,)
        case _:
            raise unreachable(kernel)
    for loops in runs:
        for outer, inner in pairwise(loops):
            if all(_walks_as_one(d, outer, inner) for d in dims):
                return outer, inner
    return None


def _walks_as_one(dim: Dim, outer: LoopVar, inner: LoopVar) -> bool:
    """True if an expression advances by outer exactly when inner wraps around."""
    a, b = coefficient(dim, outer), coefficient(dim, inner)
    return a is not None and b is not None and a == b * inner.extent
