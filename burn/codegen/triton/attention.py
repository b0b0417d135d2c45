"""Prints attention kernels: a block of rows for each program, over the keys block by block with a softmax that is formed on the
way (arXiv 1805.02867, 2205.14135). `emit` is the entry point.
"""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.triton import heuristics
from burn.codegen.triton.code import NONE, Axis
from burn.codegen.triton.functions import triton_type
from burn.codegen.triton.printed import Printed, closed, opened
from burn.dialect.dims import Dim, LoopVar, ceildiv, product
from burn.errors import CompileError
from burn.kernels.body import AttentionKernel, Convert, Load, Scalar


def emit(kernel: AttentionKernel, values: Mapping[str, Dim], sizes: AttentionKernel, sites: list[str]) -> Printed:
    """values: what the kernel's sizes stand for; sizes: the kernel with them in place, from which blocks are chosen. Raises
    CompileError for heads of a size that is no number."""
    return _Attention(kernel, values, sizes, sites).print()


def _padded(loop: LoopVar, what: str) -> int:
    if not isinstance(loop.extent, int):
        raise CompileError(f"Triton kernels of attention take {what} of a known size, not {loop.extent}")
    return max(heuristics.LEAST, heuristics.power_of_two(loop.extent))


class _Attention:
    def __init__(
        self, kernel: AttentionKernel, values: Mapping[str, Dim], sizes: AttentionKernel, sites: list[str]
    ) -> None:
        self.kernel, self.values, self.sizes = kernel, values, sizes
        self.count = product([v.extent for v in sizes.rows])
        rows, keys = heuristics.attention_block(kernel.dtype)
        self.blocks = {
            "ROWS": rows,
            "KEYS": keys,
            "DEPTH": _padded(sizes.depth, "queries"),
            "COLUMNS": _padded(sizes.column, "values"),
        }
        self.type = triton_type(kernel.dtype)
        self.sum = "tl.float64" if kernel.dtype == "float64" else "tl.float32"
        self.printer = opened(kernel.buffers, sites)
        self.code = self.printer.code

    def print(self) -> Printed:
        kernel, printer, code = self.kernel, self.printer, self.code
        rows = printer.dim(product([v.extent for v in kernel.rows]))
        code.line("program = tl.program_id(0).to(INT)")
        code.line(f"down = tl.cdiv({rows}, ROWS)")
        code.line("x = (program % down) * ROWS + tl.arange(0, ROWS)[:, None]")
        code.line(f"inside_x = x < {rows}")
        printer.walk_flat(kernel.batch, code.let("program // down", "batch"), NONE)
        printer.axes = {"x": Axis("x", "inside_x")}
        printer.walk_flat(kernel.rows, "x", frozenset("x"))
        query = self._block(
            kernel.query, "query", {"d": (kernel.depth, "tl.arange(0, DEPTH)[None, :]")}, "[ROWS, DEPTH]"
        )
        code.line(f'top = tl.full([ROWS, 1], float("-inf"), {self.sum})')
        code.line(f"weight = tl.full([ROWS, 1], 0.0, {self.sum})")
        code.line(f"total = tl.full([ROWS, COLUMNS], 0.0, {self.sum})")
        first, stop = self._bounds()
        with code.block(f"for start in range({first}, {stop}, KEYS):"), printer.scope():
            self._keys(query)
        printer.axes["y"] = self._axis("y", kernel.column, "tl.arange(0, COLUMNS)[None, :]")
        code.line("total = tl.where(weight > 0, total / weight, 0.0)")
        printer.accumulator = (f"total.to({self.type})", frozenset("xy"))
        for write in kernel.epilogue:
            printer.store(write)
        batch = product([v.extent for v in self.sizes.batch])
        programs = batch * ceildiv(self.count, self.blocks["ROWS"])
        about = "A block of rows each, over the keys with a softmax on the way."
        iterations = batch * self.count
        return closed(printer, kernel, about, self.blocks, programs, self.values, iterations)

    def _bounds(self) -> tuple[str, str]:
        """From which key to which one of the block's rows sees any."""
        printer, code = self.printer, self.code
        bounds = []
        for dim, reduce, hidden in ((self.kernel.first, "min", self.kernel.key.extent), (self.kernel.stop, "max", 0)):
            text = printer.dim(dim)
            if printer.span(dim):
                rows = f"tl.where(inside_x, {text}, {printer.dim(hidden)})"
                text = code.let(f"tl.{reduce}(tl.broadcast_to({rows}, [ROWS, 1]))", "bound")
            bounds.append(text)
        low, high = code.let(f"tl.maximum({bounds[0]}, 0)", "first"), bounds[1]
        return low, code.let(f"tl.minimum({high}, {printer.dim(self.kernel.key.extent)})", "stop")

    def _axis(self, name: str, loop: LoopVar, places: str) -> Axis:
        """An axis along one loop, whose place it sets."""
        printer, code = self.printer, self.code
        text = code.let(f"({places}).to(INT)", name)
        printer.put(loop, text, frozenset(name))
        return Axis(text, code.let(f"{text} < {printer.dim(loop.extent)}", "within"))

    def _block(self, node: Scalar, name: str, axes: Mapping[str, tuple[LoopVar, str]], shape: str) -> str:
        """A side of a product, zero outside."""
        printer, code = self.printer, self.code
        with printer.scope():
            printer.axes = {"x": printer.axes["x"]} if name == "query" else {}
            for axis, (loop, places) in axes.items():
                printer.axes[axis] = self._axis(axis, loop, places)
            value = printer.value(node)
            load = node.arg if isinstance(node, Convert) else node
            if not isinstance(load, Load):
                mask = " & ".join(a.mask for a in printer.axes.values())
                value = f"tl.where({mask}, {value}, 0.0)"
            return code.let(f"tl.broadcast_to({value}, {shape}).to({self.type})", name)

    def _keys(self, query: str) -> None:
        """One block of keys: scores, their softmax so far, and what it mixes of the values."""
        kernel, printer, code = self.kernel, self.printer, self.code
        here = "start + tl.arange(0, KEYS)"
        depth = {"d": (kernel.depth, "tl.arange(0, DEPTH)[:, None]"), "k": (kernel.key, f"({here})[None, :]")}
        keys = self._block(kernel.keys, "keys", depth, "[DEPTH, KEYS]")
        product = code.let(self._dot(query, keys, f"tl.full([ROWS, KEYS], 0.0, {self.sum})"), "product")
        printer.axes["k"] = self._axis("k", kernel.key, f"({here})[None, :]")
        printer.accumulator = (f"{product}.to({self.type})", frozenset("xk"))
        score = f"tl.broadcast_to({printer.value(kernel.score)}, [ROWS, KEYS]).to({self.sum})"
        code.line(f'score = tl.where({printer.axes["k"].mask}, {score}, float("-inf"))')
        code.line("higher = tl.maximum(top, tl.max(score, 1)[:, None])")
        code.line('shift = tl.where(higher == float("-inf"), 0.0, higher)')
        code.line("p = tl.exp(score - shift)")
        code.line("fade = tl.exp(top - shift)")
        code.line("weight = weight * fade + tl.sum(p, 1)[:, None]")
        mixed = {"k": (kernel.key, f"({here})[:, None]"), "y": (kernel.column, "tl.arange(0, COLUMNS)[None, :]")}
        values = self._block(kernel.values, "values", mixed, "[KEYS, COLUMNS]")
        code.line(f"total = {self._dot(f'p.to({self.type})', values, 'total * fade')}")
        code.line("top = higher")

    def _dot(self, left: str, right: str, total: str) -> str:
        if self.kernel.dtype == "float64":
            return f"wide_dot({left}, {right}, {total})"
        return f'tl.dot({left}, {right}, {total}, input_precision="ieee")'
