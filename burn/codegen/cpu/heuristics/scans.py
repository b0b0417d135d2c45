"""Heuristics for cumulative reductions: which of them scan several rows together."""

from __future__ import annotations

from burn.codegen.cpu.heuristics.lanes import lanes_for
from burn.codegen.cpu.heuristics.transposes import TRANSPOSED_NODES
from burn.codegen.cpu.scans import Rows, Scan
from burn.codegen.cpu.target import Target
from burn.dialect.dims import LoopVar
from burn.kernels.body import Load, LoopKernel, walk


def rows_together(kernel: LoopKernel, target: Target) -> tuple[Rows, int] | None:
    """The rows of a scan along contiguous elements, and how many are scanned together; None if there are none."""
    scan = Scan.of(kernel)
    if scan is None or target.compact or scan.write.value.dtype == "bool":
        return None
    loops = [v for v in kernel.parallel if v.extent != 1 and scan.is_along(scan.write.offset, v)]
    if not loops or len(list(walk(scan.first, scan.rest))) > TRANSPOSED_NODES or not _reads_blocks(scan, loops[-1]):
        return None
    row, lanes = loops[-1], lanes_for(kernel, target)
    if isinstance(row.extent, int):
        lanes = min(lanes, 1 << (row.extent - 1).bit_length())
    if lanes < 2:
        return None
    multiple = (isinstance(n, int) and n % lanes == 0 for n in (row.extent, scan.step.extent))
    return Rows(row.name, *multiple), lanes


def _reads_blocks(scan: Scan, row: LoopVar) -> bool:
    """True if every load is one of elements along the rows, so that none is gathered."""
    loads = [n for n in walk(scan.first, scan.rest) if isinstance(n, Load) and n is not scan.previous]
    return len(loads) == len(scan.blocks(row))
