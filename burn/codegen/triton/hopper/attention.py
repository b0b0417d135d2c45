"""Prints warp-specialised attention over many keys. `emit` is the entry point; it returns None for kernels that
burn/codegen/triton/attention.py prints.
"""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.triton.attention_base import padded
from burn.codegen.triton.heuristics.attention import WARP_SPECIALISED, warp_specialised
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
from burn.kernels.body import AttentionKernel, has_dropout
from burn.kernels.rewrite import fetches


def emit(
    kernel: AttentionKernel, values: Mapping[str, Dim], sizes: AttentionKernel, sites: list[str]
) -> Printed | None:
    """values: the values of the kernel's sizes; sizes: the kernel with these values. None for attention of another kind,
    or too small to gain."""
    made = _Attention(kernel, values, sizes, sites) if kernel.rows else None
    return made.print() if made and made.fits() else None


class _Attention(WarpSpecialisedPrinter):
    def __init__(
        self, kernel: AttentionKernel, values: Mapping[str, Dim], sizes: AttentionKernel, sites: list[str]
    ) -> None:
        batch, row = (*kernel.batch, *kernel.rows[:-1]), kernel.rows[-1]
        super().__init__(kernel, values, sites, (kernel.query, kernel.keys, kernel.values), batch, row)
        self.kernel, self.sizes = kernel, sizes
        self.query, key_operand, mixed = self.operands
        self.keys = matrix(key_operand, kernel.key, kernel.depth, values)
        self.mixed = matrix(mixed, kernel.key, kernel.column, values)
        self.depth, self.columns = padded(sizes.depth, "queries"), padded(sizes.column, "values")
        extents = (sizes.rows[-1].extent, sizes.key.extent)
        self.shape = warp_specialised(WARP_SPECIALISED, *extents, self.depth, self.columns)

    def fits(self) -> bool:
        kernel = self.kernel
        return bool(
            self.narrow
            and self.shape
            and is_block(self.query, self.mine, kernel.depth)
            and self.keys
            and self.mixed
            and kernel.first == 0
            and rises(kernel.stop, self.mine)
            and self.masks_by_index()
            and all(is_rounding(write.value, self.operands[0].dtype) for write in kernel.epilogue)
            and all(printable(write.value) for write in kernel.norms)
            and not fetches(kernel)
            and not has_dropout(kernel)
        )

    def print(self) -> Printed:
        sizes, shape = self.sizes, self.shape
        assert shape is not None
        parts = [
            self._main(),
            self._queries(),
            self.seen(self.kernel.key, shape.walked, f"The mask of a block of keys for {GROUP} rows."),
            self._write(),
        ]
        constants = {"DEPTH": self.depth, "COLUMNS": self.columns, "AHEAD": int(shape.ahead)}
        batch = product([v.extent for v in (*sizes.batch, *sizes.rows[:-1])])
        return self.launched(parts, shape, constants, sizes.rows[-1].extent, batch)

    def _main(self) -> str:
        """The kernel's function. If masks depend on the row, later rows see more keys and start first."""
        about = "A block of rows each, over the keys with an online softmax: consumer groups, and a producer warp."
        printer, head = self.main([*SIZES, "AHEAD"], about, late=self.sizes.stop != self.sizes.key.extent)
        full, stop = self.bounds(printer, self.kernel.stop, self.kernel.key)
        assert self.keys is not None and self.mixed is not None
        keys, values = (matrix_text(printer, operand) for operand in (self.keys, self.mixed))
        functions = f"KERNEL_query, KERNEL_seen, KERNEL_write, {self.scale()}"
        sizes = f"{', '.join(SIZES)}, AHEAD"
        printer.code.line(f"attend({keys}, {values}, own, x.to(tl.int32), {stop}, {full}, {functions}, {sizes})")
        return text(head, printer)

    def _queries(self) -> str:
        printer, head = self.inner("query", ["x"], f"The queries of {GROUP} rows.")
        self.along(printer)
        self.across(printer, "d", self.kernel.depth, self.depth)
        printer.code.line(f"return {printer.value(self.query)}")
        return text(head, printer)

    def _write(self) -> str:
        printer, head = self.inner("write", ["x", "norm", "total"], f"Stores the results of {GROUP} rows.")
        with printer.scope():
            self.along(printer, across="")
            printer.accumulator = (f"norm.to({self.type})", frozenset("x"))
            for write in self.kernel.norms:
                printer.store(write)
        self.along(printer)
        self.across(printer, "y", self.kernel.column, self.columns)
        printer.accumulator = (f"total.to({self.type})", frozenset("xy"))
        for write in self.kernel.epilogue:
            printer.store(write)
        return text(head, printer)
