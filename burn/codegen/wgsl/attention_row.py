"""Prints attention kernels: a workgroup computes a row, over blocks of keys with an online softmax (arXiv 1805.02867).

Each lane has a key of a block: it forms the score. Then each lane has columns: it adds the block's weighted values. `emit` is
the entry point.
"""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.printing.code import Unprintable
from burn.codegen.wgsl.code import Code
from burn.codegen.wgsl.elements import f32
from burn.codegen.wgsl.heuristics import LANES
from burn.codegen.wgsl.printed import Printed, opened
from burn.codegen.wgsl.reductions import across_lanes
from burn.dialect.dims import Dim, LoopVar, product
from burn.kernels.body import AttentionKernel

MOST = 1024
"""The longest head: its query is in workgroup memory, its accumulators in registers."""

LOG2E = 1.4426950408889634


def emit(kernel: AttentionKernel, values: Mapping[str, Dim], sizes: AttentionKernel, sites: list[str]) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values. Raises Unprintable for heads of a
    symbolic size, for long heads, and for other types than float32."""
    if kernel.dtype != "float32":
        raise Unprintable(f"WGSL kernels of attention accumulate in float32, not {kernel.dtype}")
    printed = opened(kernel, values, sizes, sites)
    printer, code = printed.printer, printed.printer.code
    depth, columns = _known(sizes.depth), _known(sizes.column)
    printer.walk_flat((*kernel.batch, *kernel.rows), "program")
    infinity = f32(float("-inf"))
    held = -(-columns // LANES)
    with code.block(f"for (var d = lane; d < {depth}; d = d + {LANES})"), printer.scope():
        printer.put(kernel.depth, "d")
        code.line(f"query[d] = {printer.value(kernel.query)};")
    code.line("workgroupBarrier();")
    code.line(f"var top = {infinity};")
    code.line("var weight = 0.0;")
    code.line(f"var sums: array<f32, {held}>;")
    keys = code.let(printer.dim(kernel.key.extent), "keys")
    with code.block(f"for (var start = 0; start < {keys}; start = start + {LANES})"):
        code.line("let key = start + lane;")
        code.line(f"var score = {infinity};")
        with code.block(f"if (key < {keys})"), printer.scope():
            printer.put(kernel.key, "key")
            code.line("var dot = 0.0;")
            with code.block(f"for (var d = 0; d < {depth}; d = d + 1)"), printer.scope():
                printer.put(kernel.depth, "d")
                code.line(f"dot = fma(query[d], {printer.value(kernel.keys)}, dot);")
            printer.accumulator = "dot"
            code.line(f"score = {printer.value(kernel.score)};")
        _across("score", "greatest(parts[lane], parts[lane + half])", code)
        code.line("let higher = greatest(top, parts[0]);")
        code.line("let shift = select(higher, 0.0, bitcast<u32>(higher) == 0xff800000u);")
        code.line("let fade = exp_f32(top - shift);")
        code.line("let p = exp_f32(score - shift);")
        code.line("workgroupBarrier();")
        code.line("weights[lane] = p;")
        _across("p", "parts[lane] + parts[lane + half]", code)
        code.line("weight = weight * fade + parts[0];")
        code.line("top = higher;")
        code.line(f"let last = min({LANES}, {keys} - start);")
        with code.block(f"for (var c = 0; c < {held}; c = c + 1)"):
            code.line(f"let column = lane + c * {LANES};")
            with code.block(f"if (column < {columns})"), printer.scope():
                printer.put(kernel.column, "column")
                code.line("var sum = sums[c] * fade;")
                with code.block("for (var j = 0; j < last; j = j + 1)"), printer.scope():
                    printer.put(kernel.key, code.let("start + j", "key"))
                    code.line(f"sum = fma(weights[j], {printer.value(kernel.values)}, sum);")
                code.line("sums[c] = sum;")
        code.line("workgroupBarrier();")
    with code.block(f"for (var c = 0; c < {held}; c = c + 1)"):
        code.line(f"let column = lane + c * {LANES};")
        with code.block(f"if (column < {columns})"), printer.scope():
            printer.put(kernel.column, "column")
            code.line("var mixed = 0.0;")
            code.line("if (is_nan(weight) || weight > 0.0) { mixed = sums[c] / weight; }")
            printer.accumulator = "mixed"
            for write in kernel.epilogue:
                printer.store(write)
    if kernel.norms:
        with code.block("if (lane == 0)"), printer.scope():
            code.line(f"var norm = {infinity};")
            code.line(f"if (is_nan(weight) || weight > 0.0) {{ norm = top * {f32(LOG2E)} + log2_f32(weight); }}")
            printer.accumulator = "norm"
            for write in kernel.norms:
                printer.store(write)
    shared = [
        f"var<workgroup> query: array<f32, {depth}>;",
        f"var<workgroup> weights: array<f32, {LANES}>;",
        f"var<workgroup> parts: array<f32, {LANES}>;",
    ]
    groups = product([v.extent for v in (*sizes.batch, *sizes.rows)])
    return printed.closed("A row for each workgroup, over the keys with an online softmax.", groups, LANES, shared)


def _known(loop: LoopVar) -> int:
    if not isinstance(loop.extent, int) or loop.extent > MOST:
        raise Unprintable(f"WGSL kernels of attention have heads of a known size up to {MOST}, not {loop.extent}")
    return loop.extent


def _across(value: str, combined: str, code: Code) -> None:
    """Combines a value of every lane; the result is parts[0]. combined: the text for two lanes."""
    code.line(f"parts[lane] = {value};")
    with across_lanes(code):
        code.line(f"parts[lane] = {combined};")
