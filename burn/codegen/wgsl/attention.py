"""Prints attention kernels: a workgroup has a block of rows and walks over the keys with an online softmax (arXiv 1805.02867,
2205.14135). `emit` is the entry point. A few rows, and long heads, have a workgroup for each row (attention_row.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.printing.code import Unprintable
from burn.codegen.wgsl import attention_row
from burn.codegen.wgsl.attention_base import (
    BLOCK,
    DEEPEST,
    LANES,
    MINUS_INFINITY,
    PARTS,
    STAGED,
    VECTORS,
    Attended,
    Sums,
)
from burn.codegen.wgsl.elements import f32
from burn.codegen.wgsl.heuristics import has_row_attention
from burn.codegen.wgsl.printed import Printed, opened
from burn.dialect.dims import Dim, ceildiv, product
from burn.kernels.body import AttentionKernel, has_dropout

LOG2E = 1.4426950408889634


def emit(kernel: AttentionKernel, values: Mapping[str, Dim], sizes: AttentionKernel, sites: list[str]) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values. Raises Unprintable for heads of a
    symbolic size, for long heads, for other types than float32, and for dropout."""
    if has_dropout(kernel):
        raise Unprintable("WGSL kernels of attention have no dropout")
    if kernel.dtype != "float32":
        raise Unprintable(f"WGSL kernels of attention accumulate in float32, not {kernel.dtype}")
    heads = (sizes.depth.extent, sizes.column.extent)
    if has_row_attention(sizes) or not all(isinstance(each, int) and 0 < each <= DEEPEST for each in heads):
        return attention_row.emit(kernel, values, sizes, sites)
    return _Attention(kernel, values, sizes, sites).print()


class _Attention(Attended):
    def __init__(
        self, kernel: AttentionKernel, values: Mapping[str, Dim], sizes: AttentionKernel, sites: list[str]
    ) -> None:
        super().__init__(opened(kernel, values, sizes, sites), kernel.rows, sizes.rows, kernel.key)
        self.kernel, self.sizes = kernel, sizes

    def print(self) -> Printed:
        kernel, sizes, code = self.kernel, self.sizes, self.code
        self.begin(kernel.batch, last_first=sizes.stop != sizes.key.extent)
        code.line(f"var top = vec4<f32>({MINUS_INFINITY});")
        code.line("var weight = vec4<f32>();")
        mixed = self.sums("mixed", int(kernel.column.extent))  # type: ignore[arg-type]
        bounds = self._bounds_of_keys()
        self.walk(bounds, lambda: self._keys(mixed))
        self._finish(mixed)
        groups = product([v.extent for v in sizes.batch]) * ceildiv(product([v.extent for v in sizes.rows]), BLOCK)
        about = f"{BLOCK} rows for each workgroup, over the keys with an online softmax."
        shared = (*STAGED, f"var<workgroup> fades: array<vec4<f32>, {VECTORS}>;", *self.bounds_memory(bounds))
        return self.opened.closed(about, groups, LANES, shared)

    def _bounds_of_keys(self) -> tuple[Dim, Dim]:
        """Those of the kernel; those of all keys if the sizes say that no row masks any."""
        first = 0 if self.sizes.first == 0 else self.kernel.first
        stop = self.kernel.key.extent if self.sizes.stop == self.sizes.key.extent else self.kernel.stop
        return first, stop

    def _keys(self, mixed: Sums) -> None:
        """A block of keys: scores, the softmax so far, and the accumulators."""
        kernel, printer, code = self.kernel, self.printer, self.code
        self.dots("dots", kernel.query, kernel.keys, kernel.depth)
        self.each("score", "dots", lambda: printer.value(kernel.score), MINUS_INFINITY)
        code.line(f"weights[other * {VECTORS} + vector] = score;")
        code.line("workgroupBarrier();")
        code.line("var higher = top;")
        with code.block("for (var j = 0; j < count; j = j + 1)"):
            code.line(f"higher = max(higher, weights[j * {VECTORS} + vector]);")
        code.line("let lowest_bits = vec4<u32>(0xff800000u);")
        code.line("let shift = select(higher, vec4<f32>(), bitcast<vec4<u32>>(higher) == lowest_bits);")
        fade, p = (
            f"vec4<f32>({', '.join(f'exp_f32({x}.{part} - shift.{part})' for part in 'xyzw')})"
            for x in ("top", "score")
        )
        code.line(f"let fade = {fade};")
        code.line("workgroupBarrier();")
        code.line(f"weights[other * {VECTORS} + vector] = {p};")
        code.line("if (other == 0) { fades[vector] = fade; }")
        code.line("workgroupBarrier();")
        code.line("top = higher;")
        # eight invocations have a part of each row's weight
        with code.block("if (other < 8)"):
            parts = " + ".join(f"weights[(other * 4 + {part}) * {VECTORS} + vector]" for part in PARTS)
            code.line(f"weight = weight * fade + ({parts});")
        mixed.scale(lambda vector: f"fades[{vector}]")
        self.accumulate((mixed, "weights", kernel.values, kernel.column))

    def _finish(self, mixed: Sums) -> None:
        kernel, printer, code = self.kernel, self.printer, self.code
        code.line("workgroupBarrier();")
        code.line("if (other < 8) { weights[lane] = weight; }")
        code.line("workgroupBarrier();")
        total = " + ".join(f"weights[{part * VECTORS} + vector]" for part in range(8))
        code.line(f"let whole = {total};")
        # a row without an unmasked key has no weight: its result is zero
        inverse = [f"select(0.0, 1.0 / whole.{part}, is_nan(whole.{part}) || whole.{part} > 0.0)" for part in "xyzw"]
        code.line(f"if (other == 0) {{ fades[vector] = vec4<f32>({', '.join(inverse)}); }}")
        code.line("workgroupBarrier();")
        mixed.scale(lambda vector: f"fades[{vector}]")
        mixed.write(kernel.column, kernel.epilogue)
        if not kernel.norms:
            return
        with code.block("if (other == 0)"):
            for number, (part, bindings) in enumerate(zip("xyzw", self.here, strict=True)):
                with code.block(f"if (first + vector + {number * VECTORS} < own)"), printer.scope():
                    self.bind(bindings)
                    code.line(f"var norm = {MINUS_INFINITY};")
                    code.line(
                        f"if (is_nan(whole.{part}) || whole.{part} > 0.0) "
                        f"{{ norm = top.{part} * {f32(LOG2E)} + log2_f32(whole.{part}); }}"
                    )
                    printer.accumulator = "norm"
                    for write in kernel.norms:
                        printer.store(write)
