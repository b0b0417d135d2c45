"""Prints attention kernels: a block of rows for each program, over the keys block by block with a softmax that is formed on the
way (arXiv 1805.02867, 2205.14135). `emit` is the entry point.
"""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.triton import heuristics
from burn.codegen.triton.code import NONE, Axis, Unprintable
from burn.codegen.triton.functions import narrowed, triton_type
from burn.codegen.triton.printed import Printed, closed, opened
from burn.dialect.dims import Dim, LoopVar, ceildiv, product
from burn.kernels.body import Accumulator, Apply, AttentionKernel, Const, Convert, Load, Scalar, Where


def emit(kernel: AttentionKernel, values: Mapping[str, Dim], sizes: AttentionKernel, sites: list[str]) -> Printed:
    """values: what the kernel's sizes stand for; sizes: the kernel with them in place, from which blocks are chosen. Raises
    CompileError for heads of a size that is no number."""
    return _Attention(kernel, values, sizes, sites).print()


def _padded(loop: LoopVar, what: str) -> int:
    if not isinstance(loop.extent, int):
        raise Unprintable(f"Triton kernels of attention take {what} of a known size, not {loop.extent}")
    return max(heuristics.LEAST, heuristics.power_of_two(loop.extent))


LOG2E = 1.4426950408889634


class _Attention:
    """`narrow`: queries, keys and values are halves, and stay so for the block products, whose sums are float32. Scores are kept
    times log2(e) then, so that their powers are powers of two."""

    def __init__(
        self, kernel: AttentionKernel, values: Mapping[str, Dim], sizes: AttentionKernel, sites: list[str]
    ) -> None:
        self.kernel, self.values, self.sizes = kernel, values, sizes
        self.count = product([v.extent for v in sizes.rows])
        sides = (kernel.query, kernel.keys, kernel.values)
        halves = narrowed(sides, kernel.dtype)
        self.query, self.key_side, self.mixed = halves or sides
        self.narrow = triton_type(self.query.dtype) if halves else ""
        depth, columns = _padded(sizes.depth, "queries"), _padded(sizes.column, "values")
        self.block = heuristics.attention_block(kernel.dtype, bool(self.narrow), self.count, max(depth, columns))
        self.blocks = {"ROWS": self.block.rows, "KEYS": self.block.keys, "DEPTH": depth, "COLUMNS": columns}
        self.type = triton_type(kernel.dtype)
        self.sum = "tl.float64" if kernel.dtype == "float64" else "tl.float32"
        self.printer = opened(kernel.buffers, sites)
        self.code = self.printer.code

    def print(self) -> Printed:
        kernel, printer, code = self.kernel, self.printer, self.code
        rows = printer.dim(product([v.extent for v in kernel.rows]))
        code.line("program = tl.program_id(0).to(INT)")
        code.line(f"down = tl.cdiv({rows}, ROWS)")
        # the last rows of a causal attention see the most keys: they begin first
        place = "program % down" if kernel.stop == kernel.key.extent else "down - 1 - program % down"
        code.line(f"x = ({place}) * ROWS + tl.arange(0, ROWS)[:, None]")
        even = isinstance(self.count, int) and self.count % self.block.rows == 0
        printer.axes = {"x": Axis("x", "" if even else code.let(f"x < {rows}", "inside_x"))}
        printer.walk_flat(kernel.batch, code.let("program // down", "batch"), NONE)
        printer.walk_flat(kernel.rows, "x", frozenset("x"))
        query = self._block(self.query, "query", {"d": (kernel.depth, "tl.arange(0, DEPTH)[None, :]")}, "[ROWS, DEPTH]")
        code.line(f'top = tl.full([ROWS, 1], float("-inf"), {self.sum})')
        code.line(f"weight = tl.full([ROWS, 1], 0.0, {self.sum})")
        code.line(f"total = tl.full([ROWS, COLUMNS], 0.0, {self.sum})")
        self._all_keys(query)
        printer.axes["y"] = self._axis("y", kernel.column, "tl.arange(0, COLUMNS)[None, :]", "COLUMNS")
        code.line("total = tl.where(weight > 0, total / weight, 0.0)")
        printer.accumulator = (f"total.to({self.type})", frozenset("xy"))
        for write in kernel.epilogue:
            printer.store(write)
        batch = product([v.extent for v in self.sizes.batch])
        programs = batch * ceildiv(self.count, self.block.rows)
        about = "A block of rows each, over the keys with a softmax on the way."
        iterations = batch * self.count
        shape = (self.block.warps, self.block.stages)
        return closed(printer, kernel, about, self.blocks, programs, self.values, iterations, *shape)

    # ---- which keys --------------------------------------------------------------------------------------------------------
    def _all_keys(self, query: str) -> None:
        """Blocks of keys from the first that any row sees to the last. Those in the middle, which every row sees whole, need no
        condition."""
        kernel, code = self.kernel, self.code
        first, full_from = self._bound(kernel.first, "first", "min", "max")
        stop, full_to = self._bound(kernel.stop, "stop", "max", "min")
        free = isinstance(kernel.score, Where) or (kernel.first == 0 and kernel.stop == kernel.key.extent)
        if not free:  # the score hides keys by what it reads
            self._some_keys(query, first, stop, kernel.score, True)
            return
        score = kernel.score.then if isinstance(kernel.score, Where) else kernel.score
        begin = first
        if kernel.first != 0:
            begin = code.let(f"{first} + tl.cdiv(tl.maximum({full_from} - {first}, 0), KEYS) * KEYS", "begin")
            begin = code.let(f"tl.minimum({begin}, {stop})", "begin")
            self._some_keys(query, first, begin, kernel.score, True)
        extent = self.sizes.key.extent
        whole = isinstance(extent, int) and extent % self.block.keys == 0
        if kernel.stop == kernel.key.extent and whole:
            self._some_keys(query, begin, stop, score, False)
            return
        end = code.let(f"{begin} + tl.maximum(tl.minimum({full_to}, {stop}) - {begin}, 0) // KEYS * KEYS", "end")
        self._some_keys(query, begin, end, score, False)
        self._some_keys(query, end, stop, kernel.score, True)

    def _bound(self, dim: Dim, name: str, outer: str, inner: str) -> tuple[str, str]:
        """A bound of the keys, of the row that sees the most on this side and of the one that sees the least."""
        printer, code, extent = self.printer, self.code, self.printer.dim(self.kernel.key.extent)
        text = printer.dim(dim)
        if not printer.span(dim):
            bound = code.let(f"tl.minimum(tl.maximum({text}, 0), {extent})", name) if text != "0" else "0"
            return bound, bound
        bounds = []
        for reduce in (outer, inner):
            inside, beyond = printer.axes["x"].mask, "0" if reduce == "max" else extent
            rows = f"tl.where({inside}, {text}, {beyond})" if inside else text
            least = code.let(f"tl.{reduce}(tl.broadcast_to({rows}, [ROWS, 1]))", name)
            bounds.append(code.let(f"tl.minimum(tl.maximum({least}, 0), {extent})", name))
        return bounds[0], bounds[1]

    def _some_keys(self, query: str, start: str, stop: str, score: Scalar, hidden: bool) -> None:
        with self.code.block(f"for start in range({start}, {stop}, KEYS):"), self.printer.scope():
            self._keys(query, score, hidden)

    # ---- blocks ------------------------------------------------------------------------------------------------------------
    def _axis(self, name: str, loop: LoopVar, places: str, block: str = "", whole: bool = False) -> Axis:
        """An axis along one loop, whose place it sets. block: it is as long as that; whole: all of it is inside."""
        printer, code = self.printer, self.code
        text = code.let(f"({places}).to(INT)", name)
        printer.put(loop, text, frozenset(name))
        inside = whole or (block and loop.extent == self.blocks[block])
        return Axis(text, "" if inside else code.let(f"{text} < {printer.dim(loop.extent)}", "within"))

    def _block(
        self, node: Scalar, name: str, axes: Mapping[str, tuple[LoopVar, str]], shape: str, whole: bool = False
    ) -> str:
        """A side of a product, zero outside. whole: all its keys are inside."""
        printer, code = self.printer, self.code
        with printer.scope():
            printer.axes = {"x": printer.axes["x"]} if name == "query" else {}
            for axis, (loop, places) in axes.items():
                block = {"d": "DEPTH", "y": "COLUMNS"}.get(axis, "")
                printer.axes[axis] = self._axis(axis, loop, places, block, whole and axis == "k")
            value = printer.value(node)
            load = node.arg if isinstance(node, Convert) else node
            mask = " & ".join(a.mask for a in printer.axes.values() if a.mask)
            if mask and not isinstance(load, Load):
                value = f"tl.where({mask}, {value}, 0.0)"
            return code.let(f"tl.broadcast_to({value}, {shape}).to({self.narrow or self.type})", name)

    def _keys(self, query: str, score: Scalar, hidden: bool) -> None:
        """One block of keys: scores, their softmax so far, and what it mixes of the values. hidden: some may not count."""
        kernel, printer, code = self.kernel, self.printer, self.code
        here = "start + tl.arange(0, KEYS)"
        depth = {"d": (kernel.depth, "tl.arange(0, DEPTH)[:, None]"), "k": (kernel.key, f"({here})[None, :]")}
        keys = self._block(self.key_side, "keys", depth, "[DEPTH, KEYS]", not hidden)
        product = code.let(self._dot(query, keys, f"tl.full([ROWS, KEYS], 0.0, {self.sum})"), "product")
        printer.axes["k"] = self._axis("k", kernel.key, f"({here})[None, :]", whole=not hidden)
        printer.accumulator = (f"{product}.to({self.type})", frozenset("xk"))
        text = f"tl.broadcast_to({printer.value(self._in_twos(score))}, [ROWS, KEYS]).to({self.sum})"
        if hidden:
            text = f'tl.where({printer.axes["k"].mask}, {text}, float("-inf"))'
        code.line(f"score = {text}")
        code.line("higher = tl.maximum(top, tl.max(score, 1)[:, None])")
        code.line('shift = tl.where(higher == float("-inf"), 0.0, higher)' if hidden else "shift = higher")
        power = "exp2" if self.narrow else "exp"
        code.line(f"p = tl.{power}(score - shift)")
        code.line(f"fade = tl.{power}(top - shift)")
        code.line("weight = weight * fade + tl.sum(p, 1)[:, None]")
        mixed = {"k": (kernel.key, f"({here})[:, None]"), "y": (kernel.column, "tl.arange(0, COLUMNS)[None, :]")}
        values = self._block(self.mixed, "values", mixed, "[KEYS, COLUMNS]", not hidden)
        code.line(f"total = {self._dot(f'p.to({self.narrow or self.type})', values, 'total * fade')}")
        code.line("top = higher")

    def _in_twos(self, score: Scalar) -> Scalar:
        """A score times log2(e), where scores are kept so."""
        if not self.narrow:
            return score
        match score:
            case Where(dtype=dtype, ranges=ranges, then=then, otherwise=otherwise):
                return Where(dtype, ranges, self._in_twos(then), otherwise)
            case Apply("float32", "mul", (Accumulator() as total, Const(value=factor))):
                return Apply("float32", "mul", (total, Const("float32", factor * LOG2E)))
        return Apply("float32", "mul", (score, Const("float32", LOG2E)))

    def _dot(self, left: str, right: str, total: str) -> str:
        if self.kernel.dtype == "float64":
            return f"wide_dot({left}, {right}, {total})"
        return f'tl.dot({left}, {right}, {total}, input_precision="ieee")'
