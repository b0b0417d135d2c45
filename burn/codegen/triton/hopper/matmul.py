"""Prints persistent, warp-specialised matmuls in half precision. One program per processor iterates over tiles, and
loads the next blocks while accumulators are stored. `emit` is the entry point; it returns None for kernels that contract.py
prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from burn.codegen.triton.code import NONE, Axis
from burn.codegen.triton.functions import narrowed, triton_type
from burn.codegen.triton.heuristics.matmul import GROUP, Shared, columns_at_once, shared_tile
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints
from burn.codegen.triton.hopper.warp_specialised import GROUP as ROWS
from burn.codegen.triton.hopper.warp_specialised import function_head, in_gluon, matrix_text, printable, rounds, text
from burn.codegen.triton.printed import Printed, given, opened
from burn.codegen.triton.tensor_maps import BYTES, Matrix, matrix
from burn.dialect.dims import (
    Atom,
    Dim,
    Expr,
    LoopVar,
    Symbol,
    ceildiv,
    coefficient,
    dim_min,
    exact_div,
    product,
    substitute,
)
from burn.dialect.types import HALF_DTYPES
from burn.kernels.body import ContractionKernel, Load, Scalar, Where, walk
from burn.kernels.rewrite import fetches

BLOCK = 64
"""The depth of a block; split-K parts are multiples of it."""

CONSTANTS = ("GROUP_SIZE", "DEPTH", "BLOCK_COLUMNS", "ACROSS", "STAGES", "GROUPS", "REGISTERS", "PIECE")


def emit(
    kernel: ContractionKernel,
    values: Mapping[str, Dim],
    sizes: ContractionKernel,
    sites: list[str],
    processors: int,
    hints: SizeHints = UNKNOWN,
) -> Printed | None:
    """values: the values of the kernel's sizes; sizes: the kernel with these values; processors: of the GPU; hints:
    size hints. None for matmuls of another kind, or without a gain."""
    made = _Matmul(kernel, values, sizes, sites, processors, hints)
    return made.print() if made.fits() else None


class _Matmul:
    """`part`: the loop over parts of the depth, if it is cut; `deep`: the whole depth."""

    def __init__(
        self,
        kernel: ContractionKernel,
        values: Mapping[str, Dim],
        sizes: ContractionKernel,
        sites: list[str],
        processors: int,
        hints: SizeHints,
    ) -> None:
        self.kernel, self.values, self.sizes, self.sites = kernel, values, sizes, sites
        self.processors, self.hints = processors, hints
        self.known: dict[Atom, Dim] = {Symbol(name): value for name, value in values.items()}
        self.narrow_operands = narrowed((kernel.lhs, kernel.rhs), kernel.dtype, HALF_DTYPES)
        self.rows = LoopVar("rows", product([v.extent for v in kernel.rows]))
        self.batch, self.depth = ([v for v in loops if v.extent != 1] for loops in (kernel.batch, kernel.depth))
        self.part = self.batch[0] if self.batch else None
        self.lhs: Matrix | None = None
        self.rhs: Matrix | None = None
        self.transposed = {"lhs": False, "rhs": False}
        self.given, self.arguments = given(kernel, values)

    def fits(self) -> bool:
        kernel, sizes = self.kernel, self.sizes
        if not self.narrow_operands or len(self.depth) != 1 or len(self.batch) > 1 or fetches(kernel):
            return False
        m, n, k, times = (
            product([v.extent for v in loops]) for loops in (sizes.rows, [sizes.column], sizes.depth, sizes.batch)
        )
        self.shape = shared_tile(m, n, k, times, self.processors, self.hints)
        if self.shape is None or not all(printable(write.value) for write in kernel.epilogue):
            return False
        left, right = (self._whole(operand) for operand in self.narrow_operands)
        if left is None or right is None:
            return False
        (left, deep), (right, other) = left, right
        if substitute(deep.extent - other.extent, self.known) != 0:
            return False
        flat = self._flat(left)
        self.lhs, self.transposed["lhs"] = self._matrix(flat, self.rows, deep)
        self.rhs, self.transposed["rhs"] = self._matrix(right, deep if other == deep else other, kernel.column)
        return bool(self.lhs and self.rhs)

    def _matrix(self, operand: Load, rows: LoopVar, columns: LoopVar) -> tuple[Matrix | None, bool]:
        """(The matrix of an operand, True if it is transposed)."""
        found = matrix(operand, rows, columns, self.values)
        return (found, False) if found else (matrix(operand, columns, rows, self.values), True)

    def _whole(self, operand: Scalar) -> tuple[Load, LoopVar] | None:
        """An operand as a load over one depth loop, and that loop. Parts of the depth are contiguous and consist of whole
        blocks; elements past the end are zero. None if that is not possible."""
        (deep,) = self.depth
        extent: Dim = deep.extent
        if self.part is not None:
            extent = deep.extent * self.part.extent
            if isinstance(operand, Where) and len(operand.ranges) == 1:
                index, total = operand.ranges[0]
                at = Expr.of(self.part) * deep.extent + Expr.of(deep)
                if substitute(index - at, self.known) != 0:
                    return None
                operand, extent = operand.then, total
        if not isinstance(operand, Load):
            return None
        ones: dict[Atom, Dim] = {
            v: 0 for v in (*self.kernel.batch, *self.kernel.rows, *self.kernel.depth) if v.extent == 1
        }
        offset = substitute(operand.offset, ones)
        if self.part is not None:
            apart, step = coefficient(offset, self.part), coefficient(offset, deep)
            even = exact_div(substitute(deep.extent, self.known), BLOCK) is not None
            if apart is None or step is None or not even or substitute(apart - deep.extent * step, self.known) != 0:
                return None
            offset = substitute(offset, {self.part: 0})
        whole = LoopVar("deep", extent)
        return replace(operand, offset=substitute(offset, {deep: Expr.of(whole)})), whole

    def _flat(self, operand: Load) -> Load:
        """An operand with its rows as one loop, if they have one stride."""
        loops = [v for v in self.kernel.rows if v.extent != 1]
        if not loops:
            return operand
        steps = [coefficient(operand.offset, v) for v in loops]
        apart = steps[-1]
        for step, inner in reversed(list(zip(steps[:-1], loops[1:], strict=True))):
            apart = apart * inner.extent if apart is not None else None
            if step is None or apart is None or substitute(step - apart, self.known) != 0:
                return operand
        indices: dict[Atom, Dim] = dict.fromkeys(loops[:-1], 0)
        return replace(operand, offset=substitute(substitute(operand.offset, indices), {loops[-1]: Expr.of(self.rows)}))

    def print(self) -> Printed:
        assert self.shape is not None
        functions = [self._main(), self._write(self.shape)]
        shape, sizes = self.shape, self.sizes
        m, n, parts = (product([v.extent for v in loops]) for loops in (sizes.rows, [sizes.column], sizes.batch))
        tiles = parts * ceildiv(m, shape.groups * ROWS) * ceildiv(n, shape.across * shape.block_columns)
        constants = {
            "GROUP_SIZE": GROUP, "DEPTH": shape.depth, "BLOCK_COLUMNS": shape.block_columns, "ACROSS": shape.across,
            "STAGES": shape.stages, "GROUPS": shape.groups, "REGISTERS": shape.registers,
            "PIECE": self._piece(shape),
        }  # fmt: skip
        return Printed(
            "KERNEL", in_gluon(functions), tuple(self.arguments), constants, dim_min(tiles, self.processors), 4, 1,
            scratch=2 * BYTES, registers=shape.entering,
        )  # fmt: skip

    def _piece(self, shape: Shared) -> int:
        """The columns of a block that the epilogue stores at once."""
        values = [write.value for write in self.kernel.epilogue]
        if all(rounds(value, self._type()) for value in values):
            return shape.block_columns
        return columns_at_once(shape, len({node for value in values for node in walk(value) if isinstance(node, Load)}))

    def _main(self) -> str:
        about = "Tiles of rows and columns, summed along the depth: warps that multiply, and one that copies."
        printer = opened(self.kernel.buffers, self.sites)
        assert self.lhs is not None and self.rhs is not None
        printer.code.line(f"own = ({', '.join(self.given)}, tl.program_id(0).to(INT))")
        operands = ", ".join(matrix_text(printer, operand) for operand in (self.lhs, self.rhs))
        parts = f"gl.to_tensor({printer.dim(self.part.extent if self.part else 1)})"
        sizes = (self.rows.extent, self.kernel.column.extent, self.depth[0].extent)
        extents = f"({', '.join(map(printer.dim, sizes))}, {parts})"
        rounded = all(rounds(write.value, self._type()) for write in self.kernel.epilogue)
        transposed = f"{self.transposed['lhs']}, {self.transposed['rhs']}"
        printer.code.line(
            f"multiply({operands}, own, {extents}, KERNEL_write, {transposed}, {rounded}, {', '.join(CONSTANTS)})"
        )
        names = [*self.given, *(f"{name}: gl.constexpr" for name in ("INT", *CONSTANTS))]
        return text(function_head("KERNEL", names, about), printer)

    def _type(self) -> str:
        assert self.narrow_operands is not None
        return self.narrow_operands[0].dtype

    def _write(self, shape: Shared) -> str:
        kernel, printer = self.kernel, opened(self.kernel.buffers, self.sites)
        code = printer.code
        code.line(f"{', '.join(self.given)}, program = own")
        code.line("INT: tl.constexpr = program.dtype")
        rows, columns = printer.dim(self.rows.extent), printer.dim(kernel.column.extent)
        x = code.let(f"(row + tl.arange(0, {ROWS})[:, None]).to(INT)", "x")
        y = code.let(f"(column + tl.arange(0, {self._piece(shape)})[None, :]).to(INT)", "y")
        for name, index, extent, size, block in (
            ("x", x, rows, product([v.extent for v in self.sizes.rows]), shape.groups * ROWS),
            ("y", y, columns, self.sizes.column.extent, shape.across * shape.block_columns),
        ):
            even = isinstance(size, int) and size % block == 0
            printer.axes[name] = Axis(index, "" if even else code.let(f"{index} < {extent}", "inside"))
        for loop in kernel.batch:
            printer.put(loop, "part" if loop == self.part else "0", NONE)
        printer.walk_flat(kernel.rows, x, frozenset("x"))
        printer.put(kernel.column, y, frozenset("y"))
        printer.accumulator = (f"total.to({triton_type(kernel.dtype)})", frozenset("xy"))
        for write in kernel.epilogue:
            printer.value(write.value)
        for write in kernel.epilogue:
            printer.store(write)
        return text(
            function_head("KERNEL_write", ["part", "row", "column", "total", "own"], "Stores a block of sums."), printer
        )
