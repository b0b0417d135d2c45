"""Loads and stores of GPU loop kernels that are contiguous along no long axis of a program's block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from burn.codegen.triton.heuristics.loops import NEAR
from burn.codegen.triton.loops import Loops
from burn.dialect.dims import Atom, Dim, LoopVar, atoms, estimate, product, substitute
from burn.dialect.types import DTYPES
from burn.kernels.body import Fetched, Load, LoopKernel, Stage, loop_atoms, walk

SECTOR = 32
"""Bytes that a GPU reads or writes at least."""


RUN = 8
"""Elements along a loop. An even number, because pixels of a shuffle alternate."""


@dataclass(frozen=True)
class Strided:
    """A kernel with such accesses. bytes: of these; all: of all its accesses; offsets: of these, with their loops."""

    bytes: int
    all: int
    kernel: str
    offsets: tuple[str, ...]

    def __str__(self) -> str:
        offsets = "; ".join(self.offsets)
        return f"{self.bytes / 2**20:.0f} of {self.all / 2**20:.0f} MB, {self.kernel}: {offsets}"


@contextmanager
def recorded(least: int) -> Iterator[list[Strided]]:
    """Collects the kernels with at least so many bytes of such accesses that are printed inside."""
    found: list[Strided] = []
    begin = Loops.__init__

    def noting(self: Loops, kernel: LoopKernel, values: Any, sizes: LoopKernel, *args: Any, **kwargs: Any) -> None:
        begin(self, kernel, values, sizes, *args, **kwargs)
        if not sizes.column_reductions:
            each = strided(self, sizes)
            if each.bytes >= least:
                found.append(each)

    Loops.__init__ = noting  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Loops.__init__ = begin  # type: ignore[method-assign]


def strided(loops: Loops, kernel: LoopKernel) -> Strided:
    """The accesses of a kernel whose sizes are numbers, or have their typical values."""
    all_ = bytes_ = 0
    offsets: list[str] = []
    for stage in kernel.stages:
        accesses = {(node.offset, node.dtype) for node in walk(*stage.scalars) if isinstance(node, Load)}
        accesses |= {(write.offset, write.value.dtype) for write in stage.writes}
        for offset, dtype in accesses:
            own = [v for v in (*kernel.parallel, *stage.loops) if v in loop_atoms(offset)]
            size = estimate(product([v.extent for v in own])) * DTYPES[dtype].size
            all_ += size
            axes = _axes(loops, kernel, stage, DTYPES[dtype].size)
            fetched = any(isinstance(atom, Fetched) for atom in atoms(offset))  # known at run time
            if own and not fetched and not any(v not in own or _is_contiguous(offset, v) for v in axes):
                bytes_ += size
                offsets.append(f"{offset} ({', '.join(f'{v.name}: {v.extent}' for v in own)})")
    shape = " ".join(str([v.extent for v in vs]) for vs in (kernel.parallel, *(s.loops for s in kernel.stages)))
    return Strided(bytes_, all_, shape, tuple(offsets))


def _axes(loops: Loops, kernel: LoopKernel, stage: Stage, bytes_: int) -> list[LoopVar]:
    """The loops along axes of a block that have at least a sector's elements of this size."""
    layout = loops.layout
    rows = [kernel.parallel[layout.order[-1]]] if layout.order and loops.block.rows * bytes_ >= SECTOR else []
    if layout.across is not None:
        return [*rows, kernel.parallel[layout.across]]
    columns = [v for v in stage.loops if v.extent != 1][-1:] if loops.wide and stage.order == "parallel" else []
    return [*rows, *columns]


def _is_contiguous(offset: Dim, loop: LoopVar) -> bool:
    """True if a run of elements along a loop is in a few sectors."""
    first: dict[Atom, Dim] = {atom: 0 for atom in atoms(offset) if isinstance(atom, LoopVar)}
    length = substitute(offset, {**first, loop: RUN}) - substitute(offset, first)
    return isinstance(length, int) and 0 < abs(length) <= NEAR * RUN
