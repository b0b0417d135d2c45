"""Prints warp-specialised kernels for the gradients of keys and values. `emit` is the entry point; it returns None for kernels
that burn/codegen/triton/attention_gradient.py prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from burn.codegen.triton.attention_base import padded
from burn.codegen.triton.heuristics.attention import WARP_SPECIALISED_GRADIENT, warp_specialised
from burn.codegen.triton.hopper.warp_specialised import (
    GROUP,
    SIZES,
    WarpSpecialisedPrinter,
    is_block,
    is_rounding,
    matrix_text,
    printable,
    rises,
    text,
)
from burn.codegen.triton.printed import Printed
from burn.codegen.triton.tensor_maps import matrix
from burn.dialect.dims import Dim, product
from burn.kernels.body import AttentionGradientKernel, Const, has_dropout
from burn.kernels.rewrite import fetches


def emit(
    kernel: AttentionGradientKernel, values: Mapping[str, Dim], sizes: AttentionGradientKernel, sites: list[str]
) -> Printed | None:
    """values: the values of the kernel's sizes; sizes: the kernel with these values. None for a backward pass of
    another kind, or one too small to gain."""
    made = None if kernel.of_rows or kernel.heads else _Gradient(kernel, values, sizes, sites)
    return made.print() if made and made.fits() else None


class _Gradient(WarpSpecialisedPrinter):
    def __init__(
        self,
        kernel: AttentionGradientKernel,
        values: Mapping[str, Dim],
        sizes: AttentionGradientKernel,
        sites: list[str],
    ) -> None:
        operands = (kernel.query, kernel.output_gradient, kernel.keys, kernel.values)
        super().__init__(kernel, values, sites, operands, kernel.batch, kernel.key)
        self.kernel, self.sizes = kernel, sizes
        query, output_gradient, self.keys, self.mixed = self.operands
        self.queries = matrix(query, kernel.row, kernel.depth, values)
        self.output_gradient = matrix(output_gradient, kernel.row, kernel.column, values)
        self.depth, self.columns = padded(sizes.depth, "queries"), padded(sizes.column, "values")
        extents = (sizes.row.extent, sizes.key.extent)
        self.shape = warp_specialised(WARP_SPECIALISED_GRADIENT, *extents, self.depth, self.columns)

    def fits(self) -> bool:
        kernel, narrow = self.kernel, self.operands[0].dtype
        return bool(
            self.narrow
            and self.shape
            and is_block(self.keys, self.mine, kernel.depth)
            and is_block(self.mixed, self.mine, kernel.column)
            and self.queries
            and self.output_gradient
            and isinstance(kernel.score_derivative, Const)
            and self.sizes.end == self.sizes.row.extent
            and rises(kernel.begin, self.mine)
            and self.masks_by_index()
            and all(is_rounding(write.value, narrow) for write in (*kernel.key_writes, *kernel.value_writes))
            and all(printable(node) for node in (kernel.norm, kernel.dot))
            and not fetches(kernel)
            and not has_dropout(kernel)
        )

    def print(self) -> Printed:
        sizes, shape = self.sizes, self.shape
        assert shape is not None
        parts = [
            self._main(),
            self._own(),
            self.seen(self.kernel.row, shape.walked, f"The mask of a block of rows for {GROUP} keys."),
            *self._kept(shape.walked),
            self._write(),
        ]
        constants = {"DEPTH": self.depth, "COLUMNS": self.columns}
        return self.launched(parts, shape, constants, sizes.key.extent, product([v.extent for v in sizes.batch]))

    def _main(self) -> str:
        about = "The gradients of a block of keys and values each, over the rows: consumer groups, and a producer warp."
        printer, head = self.main(SIZES, about, late=False)
        begin, full = self.bounds(printer, self.kernel.begin, self.kernel.row)
        assert (
            self.queries is not None
            and self.output_gradient is not None
            and isinstance(self.kernel.score_derivative, Const)
        )
        queries, output_gradient = (matrix_text(printer, operand) for operand in (self.queries, self.output_gradient))
        functions = "KERNEL_own, KERNEL_seen, KERNEL_norm, KERNEL_dot, KERNEL_write"
        factors = f"{self.scale()}, {float(self.kernel.score_derivative.value)!r}"
        end, sizes = f"{printer.dim(self.kernel.row.extent)}.to(tl.int32)", ", ".join(SIZES)
        printer.code.line(f"bounds = (x.to(tl.int32), {begin}, {full}, {end})")
        printer.code.line(
            f"attend_gradient({queries}, {output_gradient}, own, bounds, {functions}, {factors}, {sizes})"
        )
        return text(head, printer)

    def _own(self) -> str:
        printer, head = self.inner("own", ["x"], f"{GROUP} keys and their values.")
        found = []
        for axis, loop, size, operand in (
            ("d", self.kernel.depth, self.depth, self.keys),
            ("y", self.kernel.column, self.columns, self.mixed),
        ):
            with printer.scope():
                self.along(printer)
                self.across(printer, axis, loop, size)
                found.append(printer.value(operand))
        printer.code.line(f"return {', '.join(found)}")
        return text(head, printer)

    def _kept(self, rows: int) -> Iterator[str]:
        """Functions that load per-row values; zero past the last row, where all terms are zero."""
        for name, node in (("norm", self.kernel.norm), ("dot", self.kernel.dot)):
            printer, head = self.inner(name, ["start"], f"The {name} of each row of a block.")
            index = printer.code.let(f"(start + tl.arange(0, {rows})).to(INT)", "k")
            self.put(printer, "k", self.kernel.row, index)
            printer.code.line(f"return {printer.value(node)}.to({self.sum})")
            yield text(head, printer)

    def _write(self) -> str:
        printer, head = self.inner(
            "write", ["x", "total", "mixed"], f"Stores the gradients of {GROUP} keys and values."
        )
        kernel = self.kernel
        results = (
            ("total", "d", kernel.depth, self.depth, kernel.key_writes),
            ("mixed", "y", kernel.column, self.columns, kernel.value_writes),
        )
        for total, axis, loop, size, writes in results:
            with printer.scope():
                self.along(printer)
                self.across(printer, axis, loop, size)
                printer.accumulator = (f"{total}.to({self.type})", frozenset({"x", axis}))
                for write in writes:
                    printer.store(write)
        return text(head, printer)
