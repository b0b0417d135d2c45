"""Prints contractions: a workgroup computes a tile of the result, and stages blocks of both operands in its memory.

Each of 256 invocations has a square or a row of accumulators. `emit` is the entry point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from burn.codegen.wgsl.elements import constant, register
from burn.codegen.wgsl.functions import apply
from burn.codegen.wgsl.printed import Printed, opened
from burn.dialect.dims import Dim, LoopVar, ceildiv, coefficient, product
from burn.kernels.body import ContractionKernel, Load, Scalar, walk

SIDE = 16
"""The invocations of a workgroup are a square of this side."""

DEPTH = 16
"""Depth of a staged block."""

TILED = ("float32", "int32", "uint32")
"""Types of accumulators."""


def emit(
    kernel: ContractionKernel,
    values: Mapping[str, Dim],
    sizes: ContractionKernel,
    tile: tuple[int, int],
    sites: list[str],
) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values; tile: rows and columns, multiples of 16."""
    return _Contract(kernel, values, sizes, tile, sites).print()


class _Contract:
    def __init__(
        self,
        kernel: ContractionKernel,
        values: Mapping[str, Dim],
        sizes: ContractionKernel,
        tile: tuple[int, int],
        sites: list[str],
    ) -> None:
        self.kernel, self.sizes = kernel, sizes
        self.rows, self.columns = tile
        self.opened = opened(kernel, values, sites)
        self.printer, self.code = self.opened.printer, self.opened.printer.code
        self.type = register(kernel.dtype)

    def print(self) -> Printed:
        kernel, printer, code = self.kernel, self.printer, self.code
        rows = code.let(printer.dim(product([v.extent for v in kernel.rows])), "rows")
        columns = code.let(printer.dim(kernel.column.extent), "columns")
        depth = code.let(printer.dim(product([v.extent for v in kernel.depth])), "depth")
        down = code.let(f"({rows} + {self.rows - 1}) / {self.rows}", "down")
        across = code.let(f"({columns} + {self.columns - 1}) / {self.columns}", "across")
        column = code.let(f"(program % {across}) * {self.columns}", "column")
        row = code.let(f"((program / {across}) % {down}) * {self.rows}", "row")
        printer.walk_flat(kernel.batch, code.let(f"program / ({across} * {down})", "batch"))
        high, wide = self.rows // SIDE, self.columns // SIDE
        code.line(f"var sums: array<{self.type}, {high * wide}>;")
        code.line(f"let tile_row = lane / {SIDE};")
        code.line(f"let tile_column = lane % {SIDE};")
        with code.block(f"for (var start = 0; start < {depth}; start = start + {DEPTH})"):
            self._stage("lhs", kernel.lhs, kernel.rows, row, rows, self.rows, depth)
            self._stage("rhs", kernel.rhs, (kernel.column,), column, columns, self.columns, depth)
            code.line("workgroupBarrier();")
            with code.block(f"for (var k = 0; k < {DEPTH}; k = k + 1)"):
                for j in range(wide):
                    code.line(f"let right{j} = rhs[k * {self.columns} + tile_column + {j * SIDE}];")
                for i in range(high):
                    code.line(f"let left{i} = lhs[k * {self.rows} + tile_row + {i * SIDE}];")
                    for j in range(wide):
                        total = f"sums[{i * wide + j}]"
                        code.line(f"{total} = {apply('fma', kernel.dtype, f'left{i}', f'right{j}', total)};")
            code.line("workgroupBarrier();")
        for i in range(high):
            for j in range(wide):
                self._finish(
                    f"{row} + tile_row + {i * SIDE}",
                    f"{column} + tile_column + {j * SIDE}",
                    rows,
                    columns,
                    i * wide + j,
                )
        shared = [
            f"var<workgroup> {name}: array<{self.type}, {size * DEPTH}>;"
            for name, size in (("lhs", self.rows), ("rhs", self.columns))
        ]
        counts = [product([v.extent for v in loops]) for loops in (self.sizes.batch, self.sizes.rows)]
        groups = counts[0] * ceildiv(counts[1], self.rows) * ceildiv(self.sizes.column.extent, self.columns)
        return self.opened.closed("A tile of the result for each workgroup.", groups, SIDE * SIDE, shared)

    def _stage(
        self, name: str, operand: Scalar, loops: Sequence[LoopVar], first: str, count: str, size: int, depth: str
    ) -> None:
        """Loads a block [DEPTH, size] of an operand, zero outside. Neighbouring lanes read neighbouring elements if any do."""
        printer, code, kernel = self.printer, self.code, self.kernel
        with code.block(f"for (var e = lane; e < {size * DEPTH}; e = e + {SIDE * SIDE})"), printer.scope():
            if _along_depth(operand, kernel.depth[-1] if kernel.depth else None):
                inner, outer = code.let(f"e % {DEPTH}", "k"), code.let(f"e / {DEPTH}", "o")
            else:
                inner, outer = code.let(f"e / {size}", "k"), code.let(f"e % {size}", "o")
            at, k = code.let(f"{first} + {outer}", "x"), code.let(f"start + {inner}", "k")
            value = code.variable(self.type, constant(kernel.dtype, 0))
            with code.block(f"if ({at} < {count} && {k} < {depth})"), printer.scope():
                printer.walk_flat(loops, at)
                printer.walk_flat(kernel.depth, k)
                code.line(f"{value} = {printer.value(operand)};")
            code.line(f"{name}[{inner} * {size} + {outer}] = {value};")

    def _finish(self, row: str, column: str, rows: str, columns: str, number: int) -> None:
        """The epilogue of one element."""
        kernel, printer, code = self.kernel, self.printer, self.code
        at, right = code.let(row, "y"), code.let(column, "x")
        with code.block(f"if ({at} < {rows} && {right} < {columns})"), printer.scope():
            printer.walk_flat(kernel.rows, at)
            printer.put(kernel.column, right)
            printer.accumulator = code.let(f"sums[{number}]", "acc")
            for write in kernel.epilogue:
                printer.value(write.value)
            for write in kernel.epilogue:
                printer.store(write)


def _along_depth(operand: Scalar, depth: LoopVar | None) -> bool:
    """True if an operand's elements are contiguous along the depth."""
    loads = [node.offset for node in walk(operand) if isinstance(node, Load)]
    return depth is not None and any(coefficient(offset, depth) == 1 for offset in loads)
