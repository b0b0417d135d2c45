"""Rewrites of whole kernels: mapping every index expression, merging loops, a contraction as plain loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from burn.dialect.dims import Atom, Call, Dim, Expr, LoopVar, atoms, coefficient, floordiv, mod, substitute, terms
from burn.kernels.body import (
    Accumulator,
    Apply,
    AttentionKernel,
    Buffer,
    ColumnReduction,
    ContractionKernel,
    Fetched,
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
from burn.kernels.fields import FieldKind, field_kinds, parts

K = TypeVar("K", bound=Kernel)
MapLoops = Callable[[tuple[LoopVar, ...]], tuple[LoopVar, ...]]


def _content(kernel: Kernel) -> tuple[list[Write], list[Scalar], list[Dim]]:
    """A kernel's writes, its other scalars, and the index expressions in neither."""
    writes: list[Write] = []
    scalars: list[Scalar] = []
    dims: list[Dim] = []
    for kind, value in parts(kernel):
        match kind:
            case FieldKind.WRITES:
                writes += value
            case FieldKind.SCALAR:
                scalars.append(value)
            case FieldKind.SCALARS:
                scalars += value
            case FieldKind.INDEX:
                dims.append(value)
            case FieldKind.STAGES | FieldKind.COLUMN_REDUCTIONS:
                reductions = [r for each in value for r in _reductions(each)]
                scalars += [r.body for r in reductions]
                dims += [r.index for r in reductions]
                writes += [w for each in value if isinstance(each, Stage) for w in each.writes]
    return writes, scalars, dims


def _reductions(part: Stage | ColumnReduction) -> tuple[Reduction, ...]:
    return part.reductions if isinstance(part, Stage) else (part.reduction,)


def kernel_nodes(kernel: Kernel) -> list[Scalar]:
    """Every scalar of a kernel, operands first."""
    writes, bodies, _ = _content(kernel)
    return list(walk(*bodies, *(w.value for w in writes)))


def kernel_dims(kernel: Kernel) -> list[Dim]:
    """Every index expression of a kernel once, without the loops' extents."""
    writes, _, dims = _content(kernel)
    nodes = kernel_nodes(kernel)
    own = [*dims, *(w.offset for w in writes), *(d for node in nodes for d in own_dims(node))]
    return list(dict.fromkeys(_with_fetched(list(dict.fromkeys(own)))))


def fetches(kernel: Kernel) -> bool:
    """True if any index is read from data."""
    return any(isinstance(atom, Fetched) for dim in kernel_dims(kernel) for atom in atoms(dim))


def used_buffers(kernel: Kernel) -> set[int]:
    """The numbers of the buffers that a kernel reads or writes."""
    writes, bodies, _ = _content(kernel)
    nodes = walk(*bodies, *(w.value for w in writes))
    column_reductions = kernel.column_reductions if isinstance(kernel, LoopKernel) else ()
    return {n.buffer for n in nodes if isinstance(n, Load)} | {x.buffer for x in (*writes, *column_reductions)}


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
    """Every loop of a kernel, outer loops first."""
    found: list[LoopVar] = []
    for kind, value in parts(kernel):
        match kind:
            case FieldKind.LOOP:
                found.append(value)
            case FieldKind.LOOPS:
                found += value
            case FieldKind.STAGES | FieldKind.COLUMN_REDUCTIONS:
                found += [v for each in value for v in each.loops]
    return found


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

    def reduced(f: ColumnReduction) -> ColumnReduction:
        return ColumnReduction(loops(f.loops), reduction(f.reduction), number(f.buffer))

    def buffer(b: Buffer) -> Buffer:
        return replace(b, elements=dim(b.elements))

    mapped: dict[FieldKind, Callable[[Any], Any]] = {
        FieldKind.LOOP: lambda v: loops((v,))[0],
        FieldKind.LOOPS: loops,
        FieldKind.SCALAR: rewrite,
        FieldKind.SCALARS: lambda scalars: tuple(map(rewrite, scalars)),
        FieldKind.INDEX: rewrite.index,
        FieldKind.WRITES: writes,
        FieldKind.STAGES: lambda stages: tuple(map(stage, stages)),
        FieldKind.COLUMN_REDUCTIONS: lambda column_reductions: tuple(map(reduced, column_reductions)),
        FieldKind.BUFFERS: lambda buffers: tuple(map(buffer, buffers)),
    }
    order = sorted(
        field_kinds(type(kernel)), key=lambda field: field[1] is not FieldKind.BUFFERS
    )  # `dim` may number expressions in the order in which it is called
    changed = {name: mapped[kind](getattr(kernel, name)) for name, kind in order if kind in mapped}
    return replace(kernel, **changed)


def map_values(
    kernel: Kernel, written: Callable[[Scalar], Scalar], reduced: Callable[[Scalar], Scalar] | None = None
) -> Kernel:
    """The kernel with other values in the writes of its stages or epilogue and, if `reduced` is given, other bodies of its
    stages' reductions. Operands of contractions, column reductions and attention's gradients stay."""

    def writes(old: tuple[Write, ...]) -> tuple[Write, ...]:
        return tuple(replace(write, value=written(write.value)) for write in old)

    def stage(old: Stage) -> Stage:
        reductions = old.reductions
        if reduced is not None:
            reductions = tuple(replace(each, body=reduced(each.body)) for each in reductions)
        return replace(old, reductions=reductions, writes=writes(old.writes))

    match kernel:
        case LoopKernel():
            return replace(kernel, stages=tuple(map(stage, kernel.stages)))
        case ContractionKernel() | AttentionKernel():
            return replace(kernel, epilogue=writes(kernel.epilogue))
    return kernel


def as_loops(kernel: ContractionKernel) -> LoopKernel:
    """The contraction as a reduction for every element, for a back end that does not tile it."""
    assert not kernel.shares, "the back end that divides the depth prints the kernel"
    totals = [Reduced(kernel.dtype, f"acc{number or ''}") for number in range(len(kernel.weights))]
    summed = Rewriter(lambda d: d, lambda node: totals[node.number] if isinstance(node, Accumulator) else node)
    sums = tuple(
        Reduction(total.name, "sum", kernel.dtype, Apply(kernel.dtype, "mul", (kernel.lhs, rhs)))
        for total, rhs in zip(totals, kernel.weights, strict=True)
    )
    epilogue = tuple(replace(w, value=summed(w.value)) for w in kernel.epilogue)
    stages = (*kernel.stages, Stage(kernel.depth, sums), Stage((), (), epilogue))
    return LoopKernel((*kernel.batch, *kernel.rows, kernel.column), stages, kernel.buffers)


def collapse(kernel: Kernel) -> Kernel:
    """Merges neighbouring parallel (batch, row) or depth loops if every index map advances through them as through one. Parallel
    loops of one iteration are left out."""
    if isinstance(kernel, LoopKernel):
        kernel = _without_units(kernel)
    while (pair := _mergeable(kernel, [getattr(kernel, name) for name in kernel.MERGED])) is not None:
        kernel = _merged(kernel, *pair)
    return kernel


def collapse_reduced(kernel: LoopKernel) -> LoopKernel:
    """The same for the loops of the stages, which are the same in each stage that has any."""
    made = map_kernel(kernel, lambda d: d, lambda old: tuple(v for v in old if v.extent != 1))
    assert isinstance(made, LoopKernel)
    kernel = replace(made, parallel=kernel.parallel)
    while (pair := _mergeable(kernel, [stage.loops for stage in kernel.stages])) is not None:
        kernel = _merged(kernel, *pair)
    return kernel


def _merged(kernel: K, outer: LoopVar, inner: LoopVar) -> K:
    merged = LoopVar(inner.name, outer.extent * inner.extent)
    at: dict[Atom, Dim] = {outer: 0, inner: Expr.of(merged)}
    made = map_kernel(
        kernel,
        lambda d: substitute(d, at),
        lambda old: tuple(merged if v == inner else v for v in old if v != outer),
    )
    assert isinstance(made, type(kernel))
    return made


def _without_units(kernel: LoopKernel) -> LoopKernel:
    """The kernel without parallel loops of one iteration: as the last loop, one would hide the loop to vectorise. Of units
    alone, the last one stays."""
    units = [v for v in kernel.parallel if v.extent == 1]
    units = units[:-1] if len(units) == len(kernel.parallel) else units
    if not units:
        return kernel
    first: dict[Atom, Dim] = dict.fromkeys(units, 0)
    made = map_kernel(kernel, lambda d: substitute(d, first), lambda old: tuple(v for v in old if v not in units))
    assert isinstance(made, LoopKernel)
    return made


def copied(kernel: LoopKernel) -> tuple[int, int] | None:
    """The source and destination of a kernel that only copies each element to the same index; otherwise None."""
    match kernel.stages:
        case (Stage(reductions=(), writes=(Write(value=Load() as load) as write,), order="parallel"),):
            return (load.buffer, write.buffer) if load.offset == write.offset else None
    return None


def lengthen(kernel: LoopKernel, least: int) -> LoopKernel:
    """Merges the last parallel loops if the innermost is shorter than `least` and every write advances through them as
    through one loop. Reads in another order divide the merged index."""
    while (
        len(kernel.parallel) > 1
        and not any(s.loops or s.reductions or s.order != "parallel" for s in kernel.stages)
        and isinstance(kernel.parallel[-1].extent, int)
        and 1 < kernel.parallel[-1].extent < least
        and all(_advances_as_one(w.offset, *kernel.parallel[-2:]) for s in kernel.stages for w in s.writes)
    ):
        outer, inner = kernel.parallel[-2:]
        merged = LoopVar(inner.name, outer.extent * inner.extent)
        flat = Expr.of(merged)
        together: dict[Atom, Dim] = {outer: 0, inner: flat}
        apart: dict[Atom, Dim] = {outer: floordiv(flat, inner.extent), inner: mod(flat, inner.extent)}
        longer = map_kernel(
            kernel,
            lambda d, o=outer, i=inner, t=together, a=apart: substitute(d, t if _advances_as_one(d, o, i) else a),
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


def _mergeable(kernel: Kernel, nests: Iterable[Sequence[LoopVar]]) -> tuple[LoopVar, LoopVar] | None:
    dims = kernel_dims(kernel)
    for nest in nests:
        for outer, inner in pairwise(nest):
            if all(_advances_as_one(d, outer, inner) for d in dims):
                return outer, inner
    return None


def _advances_as_one(dim: Dim, outer: LoopVar, inner: LoopVar) -> bool:
    """True if an expression advances by outer exactly when inner wraps around."""
    a, b = coefficient(dim, outer), coefficient(dim, inner)
    return a is not None and b is not None and a == b * inner.extent
