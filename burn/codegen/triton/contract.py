"""Prints contraction kernels: a tile of rows and columns for each program, its sum formed by block products.

Both sides are computed at their places and multiplied by `tl.dot`, halves as they are and summed in float32. What Triton's
products do not take (integers wider than a byte, float64, tiny sizes) is printed as plain sums instead. `emit` is the entry
point.
"""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.triton import heuristics
from burn.codegen.triton.code import NONE, Axis
from burn.codegen.triton.functions import triton_type
from burn.codegen.triton.printed import Printed, closed, opened
from burn.dialect.dims import Dim, ceildiv, product
from burn.kernels.body import ContractionKernel, Convert, Load, Scalar

DOTS = ("float32",)
"""Types that block products are summed in."""


def emit(kernel: ContractionKernel, values: Mapping[str, Dim], sizes: ContractionKernel, sites: list[str]) -> Printed:
    """values: what the kernel's sizes stand for; sizes: the kernel with them in place, from which tiles are chosen."""
    return _Contraction(kernel, values, sizes, sites).print()


class _Contraction:
    def __init__(
        self, kernel: ContractionKernel, values: Mapping[str, Dim], sizes: ContractionKernel, sites: list[str]
    ) -> None:
        self.kernel, self.values, self.sizes = kernel, values, sizes
        self.rows = product([v.extent for v in sizes.rows])
        self.depth = product([v.extent for v in sizes.depth])
        self.tile = heuristics.product_tile(self.rows, sizes.column.extent, self.depth)
        self.printer = opened(kernel.buffers, sites)
        self.code = self.printer.code

    def print(self) -> Printed:
        kernel, printer, code = self.kernel, self.printer, self.code
        rows, columns = (printer.dim(d) for d in (product([v.extent for v in kernel.rows]), kernel.column.extent))
        code.line("program = tl.program_id(0).to(INT)")
        code.line(f"across = tl.cdiv({columns}, COLUMNS)")
        code.line(f"down = tl.cdiv({rows}, ROWS)")
        code.line("x = (program // across % down) * ROWS + tl.arange(0, ROWS)[:, None]")
        code.line("y = (program % across) * COLUMNS + tl.arange(0, COLUMNS)[None, :]")
        code.line(f"inside_x = x < {rows}")
        code.line(f"inside_y = y < {columns}")
        printer.walk_flat(kernel.batch, code.let("program // across // down", "batch"), NONE)
        self._sum()
        printer.axes |= {"x": Axis("x", "inside_x"), "y": Axis("y", "inside_y")}
        printer.walk_flat(kernel.rows, "x", frozenset("x"))
        printer.put(kernel.column, "y", frozenset("y"))
        printer.accumulator = ("total", frozenset("xy"))
        for write in kernel.epilogue:
            printer.value(write.value)
        for write in kernel.epilogue:
            printer.store(write)
        tile: dict[str, int] = dict(zip(("ROWS", "COLUMNS", "DEPTH"), self.tile, strict=True))
        batch = product([v.extent for v in self.sizes.batch])
        programs = batch * ceildiv(self.rows, self.tile[0]) * ceildiv(self.sizes.column.extent, self.tile[1])
        iterations = batch * self.rows * self.sizes.column.extent
        about = "A tile of rows and columns each, summed along the depth."
        return closed(printer, kernel, about, tile, programs, self.values, iterations, heuristics.WARPS)

    def _sum(self) -> None:
        kernel, printer, code = self.kernel, self.printer, self.code
        depth = printer.dim(product([v.extent for v in kernel.depth]))
        code.line(f"total = tl.full([ROWS, COLUMNS], 0.0, {triton_type(kernel.dtype)})")
        with code.block(f"for start in range(0, {depth}, DEPTH):"), printer.scope():
            code.line("k = (start + tl.arange(0, DEPTH)).to(INT)")
            narrow = self._narrow()
            left = self._side(kernel.lhs, "x", narrow)
            right = self._side(kernel.rhs, "y", narrow)
            code.line(f'total = tl.dot({left}, {right}, total, input_precision="ieee")')

    def _narrow(self) -> bool:
        """Whether both sides are halves that were widened for the sum: their products are exact all the same."""
        kernel = self.kernel
        kinds = {s.arg.dtype if isinstance(s, Convert) else s.dtype for s in (kernel.lhs, kernel.rhs)}
        return len(kinds) == 1 and kinds <= {"float16", "bfloat16"}

    def _side(self, side: Scalar, axis: str, narrow: bool) -> str:
        """A block of one side, zero outside: [ROWS, DEPTH] or [DEPTH, COLUMNS]."""
        kernel, printer, code = self.kernel, self.printer, self.code
        depth = code.let("k[None, :]" if axis == "x" else "k[:, None]", "k")
        within = code.let(f"{depth} < {printer.dim(product([v.extent for v in kernel.depth]))}", "within")
        with printer.scope():
            printer.axes = {axis: Axis(axis, f"inside_{axis}"), "k": Axis(depth, within)}
            printer.walk_flat(kernel.depth, depth, frozenset("k"))
            if axis == "x":
                printer.walk_flat(kernel.rows, "x", frozenset("x"))
            else:
                printer.put(kernel.column, "y", frozenset("y"))
            node = side.arg if narrow and isinstance(side, Convert) else side
            value = printer.value(node)
            if not isinstance(node, Load) or "k" not in printer.span(node.offset):
                value = f"tl.where({within}, {value}, 0.0).to({triton_type(node.dtype)})"
            shape = "[ROWS, DEPTH]" if axis == "x" else "[DEPTH, COLUMNS]"
            return code.let(f"tl.broadcast_to({value}, {shape})", "left" if axis == "x" else "right")
