"""Kernels that differ only in their sizes become one kernel that takes the sizes as arguments.

`parametrize` replaces every factor and extent that is not a small number by an argument; `fingerprint` is equal for kernels
that then print alike. A network of a hundred convolutions so has a handful of kernels to compile. What must be a number for
the code to be good (tile sizes, whether tiles come out even) is decided before, and is part of the fingerprint.
"""

from __future__ import annotations

from burn.dialect.dims import Atom, Dim, Expr, LoopVar, Symbol, atoms, substitute, symbol
from burn.kernels.body import (
    Accumulator,
    Apply,
    Const,
    ContractionKernel,
    Convert,
    Fetched,
    Index,
    Kernel,
    Load,
    Reduced,
    Reinterpret,
    Scalar,
    Where,
    walk,
)
from burn.kernels.rewrite import kernel_loops, map_kernel

SMALL = 16
"""Numbers up to this stay in the code: windows, strides, pads; loops over them unroll."""


def parametrize(kernel: Kernel) -> tuple[Kernel, dict[str, Dim]]:
    """(the kernel over arguments, what each argument is). Arguments are named `_0`, `_1`, ..."""
    return _Parameters(kernel).result()


class _Parameters:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.values: dict[str, Dim] = {}
        self.dims: dict[Dim, Dim] = {}
        self.keep = {kernel.width} if isinstance(kernel, ContractionKernel) else set()
        self.loops: dict[Atom, Dim] = {}
        self.renamed: dict[LoopVar, LoopVar] = {}

    def result(self) -> tuple[Kernel, dict[str, Dim]]:
        kernel = self.kernel
        for loop in kernel_loops(kernel):
            if loop not in self.renamed:
                self._loop(loop, LoopVar(loop.name, self._value(loop.extent)))
        if isinstance(kernel, ContractionKernel) and _divides(kernel.column.extent, kernel.width):
            panel = self.renamed[kernel.panel]  # that the panels come out even stays visible
            self._loop(kernel.column, LoopVar(kernel.column.name, panel.extent * kernel.width))
        mapped = map_kernel(kernel, self._dim, lambda loops: tuple(self.renamed[v] for v in loops))
        return mapped, self.values

    def _loop(self, old: LoopVar, new: LoopVar) -> None:
        self.renamed[old] = new
        self.loops[old] = Expr.of(new)

    def _value(self, value: Dim) -> Dim:
        """The argument that stands for a value, or the value itself if it is a small number."""
        if isinstance(value, int) and (abs(value) <= SMALL or value in self.keep):
            return value
        name = f"_{len(self.values)}"
        self.values[name] = value
        return symbol(name)

    def _dim(self, dim: Dim) -> Dim:
        """An expression with the factor of each product of loop variables, and the constant, as arguments."""
        if dim not in self.dims:
            factors: dict[tuple[Atom, ...], Dim] = {}
            for monomial, count in () if isinstance(dim, int) else dim.terms:
                varying = tuple(a for a in monomial if not isinstance(a, Symbol))
                fixed: Dim = count
                for a in monomial:
                    if isinstance(a, Symbol):
                        fixed = fixed * Expr.of(a)
                factors[varying] = factors.get(varying, 0) + fixed
            result: Dim = self._value(dim) if isinstance(dim, int) else 0
            for varying, factor in factors.items():
                term = self._value(factor)
                for a in varying:
                    term = term * substitute(Expr.of(a), self.loops)
                result = result + term
            self.dims[dim] = result
        return self.dims[dim]


def _divides(dim: Dim, divisor: int) -> bool:
    return isinstance(dim, int) and dim % divisor == 0


def fingerprint(kernel: Kernel, schedule: object) -> str:
    """A text that two kernels share only if they print alike."""
    names: dict[int, str] = {}
    lines = [type(kernel).__name__, repr(schedule), *(f"{b.dtype} {b.role} {b.elements}" for b in kernel.buffers)]

    def dim(d: Dim) -> str:
        parts = [str(d)]
        for atom in sorted(atoms(d), key=str):
            if isinstance(atom, Fetched):
                parts.append(f"{atom.name}<{atom.extent}, {scalar(atom.source)}, {atom.site}>")
        return " ".join(parts)

    def scalar(root: Scalar) -> str:
        for node in walk(root):
            if id(node) not in names:
                names[id(node)] = f"%{len(names)}"
                lines.append(f"{names[id(node)]} = {node.dtype} {describe(node)}")
        return names[id(root)]

    def describe(node: Scalar) -> str:
        match node:
            case Const(value=value):
                return f"const {value!r}"
            case Load(buffer=buffer, offset=offset):
                return f"load {buffer} {dim(offset)}"
            case Index(dim=d):
                return f"index {dim(d)}"
            case Apply(function=function, args=args):
                return f"{function} {' '.join(names[id(a)] for a in args)}"
            case Convert(arg=arg, saturate=saturate):
                return f"convert {names[id(arg)]} {arg.dtype} {saturate}"
            case Reinterpret(arg=arg):
                return f"reinterpret {names[id(arg)]}"
            case Where(ranges=ranges, then=then, otherwise=otherwise):
                tests = " ".join(f"{dim(e)} < {dim(n)}" for e, n in ranges)
                return f"where {tests} ? {names[id(then)]} : {names[id(otherwise)]}"
            case Reduced(name=name):
                return f"reduced {name}"
            case Accumulator():
                return "accumulator"
        raise TypeError(node)

    for loop in kernel_loops(kernel):
        lines.append(f"loop {loop.name} {loop.extent}")
    if isinstance(kernel, ContractionKernel):
        counts = (len(kernel.batch), len(kernel.rows), len(kernel.outer))
        lines.append(f"{counts} {kernel.width} {kernel.packed} {kernel.dtype} {kernel.lhs.dtype} {kernel.rhs.dtype}")
        lines += [
            f"lhs {kernel.lhs.buffer} {dim(kernel.lhs.offset)}",
            f"rhs {kernel.rhs.buffer} {dim(kernel.rhs.offset)}",
        ]
        lines += [f"valid {dim(e)} {dim(n)}" for e, n in kernel.valid]
        for write in kernel.epilogue:
            value = scalar(write.value)
            lines.append(f"write {write.buffer} {dim(write.offset)} {value}")
        return "\n".join(lines)
    lines.append(str(len(kernel.parallel)))
    for stage in kernel.stages:
        lines.append(f"stage {len(stage.loops)}")
        for r in stage.reductions:
            body = scalar(r.body)
            lines.append(f"{r.name} {r.kind} {r.dtype} {body} {dim(r.index)} {r.last}")
        for write in stage.writes:
            value = scalar(write.value)
            lines.append(f"write {write.buffer} {dim(write.offset)} {value}")
    return "\n".join(lines)
