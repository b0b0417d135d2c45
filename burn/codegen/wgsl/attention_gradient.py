"""Prints the gradients of attention (arXiv 2307.08691): a workgroup has a block of rows and walks over the keys, or has a block
of keys and walks over the rows. `emit` is the entry point."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from burn.codegen.printing.code import Unprintable
from burn.codegen.wgsl.attention_base import BLOCK, DEEPEST, LANES, MINUS_INFINITY, STAGED, VECTORS, Attended, Sums
from burn.codegen.wgsl.elements import f32
from burn.codegen.wgsl.printed import Printed, opened
from burn.dialect.dims import Dim, LoopVar, ceildiv, product
from burn.kernels.body import AttentionGradientKernel, Scalar, has_dropout

LN2 = 0.6931471805599453


def emit(
    kernel: AttentionGradientKernel, values: Mapping[str, Dim], sizes: AttentionGradientKernel, sites: list[str]
) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values. Raises Unprintable for heads that are long
    or of a symbolic size, and for other types than float32. It also raises for gradients of rows and keys in one kernel, for
    dropout, and for the gradient of a mask."""
    if kernel.dtype != "float32":
        raise Unprintable(f"WGSL kernels of attention's gradients accumulate in float32, not {kernel.dtype}")
    if has_dropout(kernel) or kernel.score_writes:
        raise Unprintable("WGSL kernels of attention's gradients have neither dropout nor the gradient of a mask")
    if kernel.of_rows and kernel.of_keys:
        raise Unprintable("WGSL kernels have the gradients of attention's rows, or of its keys, but not both")
    for loop in (sizes.depth, sizes.column):
        if not isinstance(loop.extent, int) or not 0 < loop.extent <= DEEPEST:
            raise Unprintable(
                f"WGSL kernels of attention's gradients have heads of a known size up to {DEEPEST}, not {loop.extent}"
            )
    return _Gradient(kernel, values, sizes, sites).print()


class _Gradient(Attended):
    def __init__(
        self,
        kernel: AttentionGradientKernel,
        values: Mapping[str, Dim],
        sizes: AttentionGradientKernel,
        sites: list[str],
    ) -> None:
        own, other = (kernel.row, kernel.key) if kernel.of_rows else (kernel.key, kernel.row)
        known = sizes.row if kernel.of_rows else sizes.key
        super().__init__(opened(kernel, values, sizes, sites), (own,), (known,), other)
        self.kernel, self.sizes = kernel, sizes
        if kernel.of_rows:
            self.apart, self.bounds = (*kernel.batch, *kernel.heads), self._bounds_of_keys()
            self.of_own, self.of_other = (kernel.query, kernel.output_gradient), (kernel.keys, kernel.values)
        else:
            self.apart, self.bounds = kernel.batch, self._bounds_of_rows()
            self.of_own, self.of_other = (kernel.keys, kernel.values), (kernel.query, kernel.output_gradient)

    def _bounds_of_keys(self) -> tuple[Dim, Dim]:
        kernel, sizes = self.kernel, self.sizes
        first = 0 if sizes.first == 0 else kernel.first
        return first, kernel.key.extent if sizes.stop == sizes.key.extent else kernel.stop

    def _bounds_of_rows(self) -> tuple[Dim, Dim]:
        kernel, sizes = self.kernel, self.sizes
        begin = 0 if sizes.begin == 0 else kernel.begin
        return begin, kernel.row.extent if sizes.end == sizes.row.extent else kernel.end

    def print(self) -> Printed:
        kernel, printer, code = self.kernel, self.printer, self.code
        self.begin(self.apart, last_first=kernel.of_rows and self.bounds[1] != kernel.key.extent)
        total = self.sums("total", int(kernel.depth.extent))  # type: ignore[arg-type]
        mixed = None if kernel.of_rows else self.sums("mixed", int(kernel.column.extent))  # type: ignore[arg-type]
        with ExitStack() as stack:
            for head in () if kernel.of_rows else kernel.heads:
                index = code.fresh("head")
                loop = f"for (var {index} = 0; {index} < {printer.dim(head.extent)}; {index} = {index} + 1)"
                stack.enter_context(code.block(loop))
                stack.enter_context(printer.scope())
                printer.put(head, index)
            self.walk(self.bounds, lambda: self._others(total, mixed))
        total.write(kernel.depth, kernel.row_writes or kernel.key_writes)
        if mixed is not None:
            mixed.write(kernel.column, kernel.value_writes)
        own = self.sizes.row if kernel.of_rows else self.sizes.key
        apart = (*self.sizes.batch, *self.sizes.heads) if kernel.of_rows else self.sizes.batch
        groups = product([v.extent for v in apart]) * ceildiv(own.extent, BLOCK)
        about = f"The gradients of {BLOCK} {'rows' if kernel.of_rows else 'keys and values'} for each workgroup."
        slopes = f"var<workgroup> slopes: array<vec4<f32>, {BLOCK * VECTORS}>;"
        return self.opened.closed(about, groups, LANES, (*STAGED, slopes, *self.bounds_memory(self.bounds)))

    def _others(self, total: Sums, mixed: Sums | None) -> None:
        """A block of the others: probabilities and slopes, and what they add to the gradients."""
        kernel, printer, code = self.kernel, self.printer, self.code
        loops: tuple[LoopVar, LoopVar] = (kernel.depth, kernel.column)
        self.dots("dots", self.of_own[0], self.of_other[0], loops[0])
        self.dots("along", self.of_own[1], self.of_other[1], loops[1])
        self.each("score", "dots", lambda: printer.value(kernel.score), MINUS_INFINITY)
        self.each("norm", "dots", lambda: printer.value(kernel.norm), "0.0")
        self.each("slope", "dots", self._slope, "0.0")
        seen = "bitcast<vec4<u32>>(score) != vec4<u32>(0xff800000u)"
        code.line(f"let seen = {seen};")
        powers = [f"exp_f32(score.{part} - norm.{part} * {f32(LN2)})" for part in "xyzw"]
        code.line(f"let p = select(vec4<f32>(), vec4<f32>({', '.join(powers)}), seen);")
        code.line(f"slopes[other * {VECTORS} + vector] = select(vec4<f32>(), p * slope, seen);")
        code.line(f"weights[other * {VECTORS} + vector] = p;")
        code.line("workgroupBarrier();")
        steps: list[tuple[Sums, str, Scalar, LoopVar]] = [(total, "slopes", self.of_other[0], loops[0])]
        if mixed is not None:
            steps.append((mixed, "weights", kernel.output_gradient, kernel.column))
        self.accumulate(*steps)

    def _slope(self) -> str:
        """The slope without the probability."""
        printer = self.printer
        part = printer.accumulator.rsplit(".", 1)[1]
        dot, derivative = printer.value(self.kernel.dot), printer.value(self.kernel.score_derivative)
        return f"(along.{part} - {dot}) * {derivative}"
