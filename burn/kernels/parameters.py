"""Kernels that differ only in their sizes become one kernel that takes the sizes as arguments.

`parametrize` replaces every factor and extent that is not a small number by an argument. `fingerprint` is equal for
kernels that then print alike. A network of a hundred convolutions thus compiles a handful of kernels. Numbers that good
code needs as constants (tile sizes, whether tiles are full) are decided before and belong to the fingerprint.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from burn.dialect.dims import Atom, Dim, Expr, LoopVar, Symbol, atoms, substitute, symbol, symbols
from burn.kernels.body import Kernel, loop_atoms
from burn.kernels.rewrite import kernel_dims, kernel_loops, map_kernel
from burn.kernels.text import kernel_text

SMALL = 16
"""Numbers up to this remain constants: windows, strides, padding; loops over them are unrolled."""


K = TypeVar("K", bound=Kernel)


def parametrize(
    kernel: K, tiles: Mapping[LoopVar, int] | None = None, kept: Collection[int] = (), largest_constant: int = SMALL
) -> tuple[K, dict[str, Dim]]:
    """(the kernel over arguments, the value of each argument). Arguments are named `_0`, `_1`, ...

    `tiles` gives the tile size of a loop. Tile sizes remain constants, and an extent that they divide stays visibly
    divisible. Numbers in `kept` and numbers up to `largest_constant` also remain constants.
    """
    general, values = _Parameters(kernel, tiles or {}, kept, largest_constant).result()
    assert isinstance(general, type(kernel))
    return general, values


class _Parameters:
    def __init__(self, kernel: Kernel, tiles: Mapping[LoopVar, int], kept: Collection[int], largest: int) -> None:
        self.kernel, self.tiles, self.largest = kernel, tiles, largest
        self.values: dict[str, Dim] = {}
        self.dims: dict[Dim, Dim] = {}
        self.keep = {*tiles.values(), *kept}
        self.loops: dict[Atom, Dim] = {}
        self.renamed: dict[LoopVar, LoopVar] = {}

    def result(self) -> tuple[Kernel, dict[str, Dim]]:
        kernel = self.kernel
        for loop in kernel_loops(kernel):
            if loop not in self.renamed:
                tile = self.tiles.get(loop, 1)
                even = tile > 1 and isinstance(loop.extent, int) and loop.extent % tile == 0
                extent = self._value(loop.extent // tile) * tile if even else self._value(loop.extent)
                self._loop(loop, LoopVar(loop.name, extent))
        mapped = map_kernel(kernel, self._dim, lambda loops: tuple(self.renamed[v] for v in loops))
        return mapped, self.values

    def _loop(self, old: LoopVar, new: LoopVar) -> None:
        self.renamed[old] = new
        self.loops[old] = Expr.of(new)

    def _value(self, value: Dim) -> Dim:
        """The argument for a value, or the value itself if it is a small number."""
        if isinstance(value, int) and (abs(value) <= self.largest or value in self.keep):
            return value
        name = f"_{len(self.values)}"
        self.values[name] = value
        return symbol(name)

    def _dim(self, dim: Dim) -> Dim:
        """An expression whose constant and whose factors of each monomial of loop variables are arguments."""
        if dim not in self.dims:
            factors: dict[tuple[Atom, ...], Dim] = {}
            for monomial, count in () if isinstance(dim, int) else dim.terms:
                varying = tuple(a for a in monomial if _varies(a))
                fixed: Dim = count
                for a in monomial:
                    if not _varies(a):
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


def _varies(atom: Atom) -> bool:
    """True if an atom depends on loop variables; others are uniform within a launch."""
    return not isinstance(atom, Symbol) and any(isinstance(a, LoopVar) for a in atoms(Expr.of(atom)))


def argument_names(kernel: Kernel) -> tuple[str, ...]:
    """The sizes that a kernel's code takes as arguments after its buffers."""
    names: set[str] = set()
    given = (*(v.extent for v in kernel_loops(kernel)), *(b.elements for b in kernel.buffers))
    for dim in {*kernel_dims(kernel), *given}:
        names |= symbols(dim)
        for atom in loop_atoms(dim):
            if isinstance(atom, LoopVar):
                names |= symbols(atom.extent)
    return tuple(sorted(names))


def fingerprint(kernel: Kernel, schedule: object) -> str:
    """A text that is equal for two kernels only if they print alike."""
    return f"{schedule!r}\n{kernel_text(kernel)}"
