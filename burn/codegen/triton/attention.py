"""Prints attention kernels: each program has a block of rows and iterates over blocks of keys with an online softmax (arXiv
1805.02867, 2205.14135). `emit` is the entry point.
"""

from __future__ import annotations

from collections.abc import Mapping

from burn.codegen.triton import candidates
from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.attention_base import LOG2E, Attended, Known, has_room, padded
from burn.codegen.triton.code import NONE, Axis
from burn.codegen.triton.heuristics.attention import attention_block
from burn.codegen.triton.printed import Printed, closed, opened
from burn.codegen.tuning.choices import NO_CHOICE, Choice
from burn.dialect.dims import Dim, ceildiv, product
from burn.kernels.body import AttentionKernel, Const, Load, Scalar, Where, has_dropout, loop_atoms, walk


def emit(
    kernel: AttentionKernel,
    values: Mapping[str, Dim],
    sizes: AttentionKernel,
    sites: list[str],
    abilities: Abilities = USUAL_ABILITIES,
    choice: Choice = NO_CHOICE,
) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values, for choosing blocks; abilities: those
    of the GPU. Raises CompileError for heads of a symbolic size."""
    return _Attention(kernel, values, sizes, sites, abilities, choice).print()


class _Attention(Attended):
    def __init__(
        self,
        kernel: AttentionKernel,
        values: Mapping[str, Dim],
        sizes: AttentionKernel,
        sites: list[str],
        abilities: Abilities,
        choice: Choice,
    ) -> None:
        super().__init__(kernel.dtype, (kernel.query, kernel.keys, kernel.values), values, abilities)
        self.kernel, self.sizes = kernel, sizes
        self.has_room = has_room(sizes.score, sizes.key)
        self.count = product([v.extent for v in sizes.rows])
        self.query, self.key_operand, self.mixed = self.operands
        depth, columns = padded(sizes.depth, "queries"), padded(sizes.column, "values")
        wide, is_half = max(depth, columns), bool(self.narrow)
        masked = any(
            isinstance(x, Load) and loop_atoms(x.offset) & {kernel.key, *kernel.rows} for x in walk(kernel.score)
        )
        default = attention_block(kernel.dtype, is_half, self.count, sizes.key.extent, wide, masked)
        self.block = choice.pick(default, lambda: candidates.blocks(default, candidates.ATTENTION, is_half, wide))
        self.blocks = {"ROWS": self.block.rows, "KEYS": self.block.keys, "DEPTH": depth, "COLUMNS": columns}
        self.printer = opened(kernel.buffers, sites)
        self.printer.steps = "kx"
        self.code = self.printer.code

    def print(self) -> Printed:
        kernel, printer, code = self.kernel, self.printer, self.code
        rows = printer.dim(product([v.extent for v in kernel.rows]))
        code.line("program = tl.program_id(0).to(INT)")
        code.line(f"down = tl.cdiv({rows}, ROWS)")
        # the last rows of a causal attention see the most keys: they start first
        block = "program % down" if self.sizes.stop == self.sizes.key.extent else "down - 1 - program % down"
        code.line(f"x = ({block}) * ROWS + tl.arange(0, ROWS)[:, None]")
        even = isinstance(self.count, int) and self.count % self.block.rows == 0
        printer.axes = {"x": Axis("x", "" if even else code.let(f"x < {rows}", "inside_x"))}
        printer.walk_flat(kernel.batch, code.let("program // down", "batch"), NONE)
        printer.walk_flat(kernel.rows, "x", frozenset("x"))
        depth = {"d": (kernel.depth, "tl.arange(0, DEPTH)[None, :]")}
        query = self.operand(self.query, "query", depth, "[ROWS, DEPTH]", own=True, whole=False)
        code.line(f'top = tl.full([ROWS, 1], float("-inf"), {self.sum})')
        code.line(f"weight = tl.full([ROWS, 1], 0.0, {self.sum})")
        code.line(f"total = tl.full([ROWS, COLUMNS], 0.0, {self.sum})")
        self.load_key(kernel.factor)
        sizes, bounds = self.sizes, (kernel.first, kernel.stop)
        known = Known(sizes.key.extent, sizes.first == 0, sizes.stop == sizes.key.extent)
        self.over(kernel.key, known, bounds, kernel.score, "KEYS", lambda score, some: self._keys(query, score, some))
        if kernel.norms:
            self._norms()
        printer.axes["y"] = self.axis("y", kernel.column, "tl.arange(0, COLUMNS)[None, :]", "COLUMNS")
        code.line("total = tl.where(weight == 0, 0.0, total / weight)")  # a sum of NaN stays
        printer.accumulator = (f"total.to({self.type})", frozenset("xy"))
        for write in kernel.epilogue:
            printer.store(write)
        batch = product([v.extent for v in self.sizes.batch])
        programs = batch * ceildiv(self.count, self.block.rows)
        about = "A block of rows each, over the keys with an online softmax."
        iterations = batch * self.count
        shape = (self.block.warps, self.block.stages)
        return closed(printer, kernel, about, self.blocks, programs, self.values, iterations, *shape)

    @property
    def _is_one_block(self) -> bool:
        """True if a block holds all keys. In a loop over many, converting the weights twice would take time."""
        extent = self.sizes.key.extent
        return isinstance(extent, int) and extent <= self.block.keys

    def _norms(self) -> None:
        """The statistics from which the backward pass recomputes probabilities."""
        binary = "top + tl.log2(weight)" if self.narrow else f"top * {LOG2E} + tl.log2(weight)"
        self.code.line(f'norm = tl.where(weight == 0, float("-inf"), {binary})')
        with self.printer.scope():
            self.printer.accumulator = (f"norm.to({self.type})", frozenset("x"))
            for write in self.kernel.norms:
                self.printer.store(write)

    def _keys(self, query: str, score: Scalar, hidden: bool) -> None:
        """One block of keys: scores, the softmax so far, and the accumulators. hidden: keys may be masked."""
        kernel, printer, code = self.kernel, self.printer, self.code
        here = "start + tl.arange(0, KEYS)"
        depth = {"d": (kernel.depth, "tl.arange(0, DEPTH)[:, None]"), "k": (kernel.key, f"({here})[None, :]")}
        keys = self.operand(self.key_operand, "keys", depth, "[DEPTH, KEYS]", own=False, whole=not hidden)
        dots = code.let(self.dot(query, keys, f"tl.full([ROWS, KEYS], 0.0, {self.sum})"), "dots")
        printer.axes["k"] = self.axis("k", kernel.key, f"({here})[None, :]", whole=not hidden)
        printer.accumulator = (f"{dots}.to({self.type})", frozenset("xk"))
        inner, factor = self.factored(score)
        value = self.score_of(inner, kernel.key, "k", self.has_room)
        text = f"tl.broadcast_to({value}, [ROWS, KEYS]).to({self.sum})"
        if hidden:
            text = f'tl.where({printer.axes["k"].mask}, {text}, float("-inf"))'
        code.line(f"score = {text}")
        code.line(f"higher = tl.maximum(top, tl.max(score, 1)[:, None]{factor})")
        guarded = hidden or _masks(inner)
        code.line('shift = tl.where(higher == float("-inf"), 0.0, higher)' if guarded else "shift = higher")
        code.line(f"p = {self.power}(score{factor} - shift)")
        if self.narrow and self._is_one_block:
            # the sum is that of the rounded weights, so that a common rounding error cancels in the quotient
            code.line(f"p = p.to({self.narrow}).to({self.sum})")
        code.line(f"fade = {self.power}(top - shift)")
        code.line("weight = weight * fade + tl.sum(p, 1)[:, None]")
        if has_dropout(kernel):
            printer.blocks = {kernel.key: ("start", "tl.arange(0, KEYS)[None, :]")}
            code.line(f"p = p * {printer.value(kernel.factor)}")
        mixed = {"k": (kernel.key, f"({here})[:, None]"), "y": (kernel.column, "tl.arange(0, COLUMNS)[None, :]")}
        values = self.operand(self.mixed, "values", mixed, "[KEYS, COLUMNS]", own=False, whole=not hidden)
        code.line(f"total = {self.dot(f'p.to({self.narrow or self.type})', values, 'total * fade')}")
        code.line("top = higher")


def _masks(score: Scalar) -> bool:
    """True if a score may be minus infinity for all keys of a block: a mask is a tensor, or constant."""
    return any(
        isinstance(node, Load | Where) or (isinstance(node, Const) and node.value == float("-inf"))
        for node in walk(score)
    )
