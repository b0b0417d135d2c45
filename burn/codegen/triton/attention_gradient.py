"""Prints the backward pass of attention (arXiv 2307.08691). A program has a block of rows and iterates over keys, or
the converse, and recomputes the probabilities. Both are printed by the same code with the operands exchanged. `emit` is
the entry point."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from burn.codegen.triton import candidates
from burn.codegen.triton.abilities import USUAL_ABILITIES, Abilities
from burn.codegen.triton.attention_base import Attended, Known, has_room, padded
from burn.codegen.triton.code import NONE, Axis
from burn.codegen.triton.heuristics.attention import gradient_block, whole_gradient_block
from burn.codegen.triton.printed import Printed, closed, opened
from burn.codegen.triton.tensor_maps import BYTES
from burn.codegen.tuning.choices import NO_CHOICE, Choice
from burn.dialect.dims import Dim, LoopVar, ceildiv, product
from burn.kernels.body import AttentionGradientKernel, Const, Scalar, Write, has_dropout
from burn.kernels.rewrite import fetches

LN2 = 0.6931471805599453


def emit(
    kernel: AttentionGradientKernel,
    values: Mapping[str, Dim],
    sizes: AttentionGradientKernel,
    sites: list[str],
    abilities: Abilities = USUAL_ABILITIES,
    choice: Choice = NO_CHOICE,
) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values, for choosing blocks; abilities:
    those of the GPU. Raises CompileError for heads of a symbolic size."""
    return _Gradient(kernel, values, sizes, sites, abilities, choice).print()


class _Gradient(Attended):
    """`own`: the loop that is divided among programs, with the names of that block, of the walked block, and of the two
    operands along each."""

    def __init__(
        self,
        kernel: AttentionGradientKernel,
        values: Mapping[str, Dim],
        sizes: AttentionGradientKernel,
        sites: list[str],
        abilities: Abilities,
        choice: Choice,
    ) -> None:
        super().__init__(
            kernel.dtype, (kernel.query, kernel.output_gradient, kernel.keys, kernel.values), values, abilities
        )
        self.kernel, self.sizes = kernel, sizes
        self.has_room = has_room(sizes.score, sizes.key)
        depth, columns = padded(sizes.depth, "queries"), padded(sizes.column, "values")
        seen = (sizes.row.extent, sizes.key.extent)
        wide, is_half = max(depth, columns), bool(self.narrow)
        # a program that holds every key of a head also computes the gradients of the rows
        self.by_rows, self.is_whole = not kernel.of_keys, kernel.of_rows and kernel.of_keys
        if self.is_whole:
            assert isinstance(sizes.key.extent, int)
            self.block = whole_gradient_block(sizes.row.extent, sizes.key.extent)
        else:
            default = gradient_block(is_half, self.by_rows, *seen, wide, has_dropout(kernel))
            self.block = choice.pick(default, lambda: candidates.blocks(default, candidates.BACK, is_half, wide))
        self.blocks = {"ROWS": self.block.rows, "KEYS": self.block.keys, "DEPTH": depth, "COLUMNS": columns}
        of_rows, of_keys = self.operands[:2], self.operands[2:]
        if self.by_rows:
            self.own, self.other, self.names = kernel.row, kernel.key, ("ROWS", "KEYS")
            self.own_size, self.bounds = sizes.row.extent, (kernel.first, kernel.stop)
            self.known = Known(sizes.key.extent, sizes.first == 0, sizes.stop == sizes.key.extent)
            self.own_operands, self.other_operands = of_rows, of_keys
        else:
            self.own, self.other, self.names = kernel.key, kernel.row, ("KEYS", "ROWS")
            self.own_size, self.bounds = sizes.key.extent, (kernel.begin, kernel.end)
            self.known = Known(sizes.row.extent, sizes.begin == 0, sizes.end == sizes.row.extent)
            self.own_operands, self.other_operands = of_keys, of_rows
        self.by_map = (
            abilities.maps and (self.by_rows or not kernel.heads) and not fetches(kernel)
        )  # created before any loop
        self.is_constant_derivative = isinstance(kernel.score_derivative, Const)
        self.printer = opened(kernel.buffers, sites)
        self.printer.steps = "kx"
        self.code = self.printer.code

    def print(self) -> Printed:
        kernel, printer, code = self.kernel, self.printer, self.code
        name, other = self.names
        own = printer.dim(self.own.extent)
        code.line("program = tl.program_id(0).to(INT)")
        code.line(f"down = tl.cdiv({own}, {name})")
        # if later keys are masked, the last rows and the first keys have the most work: they start first
        late = self.by_rows and not self.known.to_last
        begin = f"({'down - 1 - program % down' if late else 'program % down'}) * {name}"
        code.line(f"x = {begin} + tl.arange(0, {name})[:, None]")
        printer.blocks = {self.own: (begin, f"tl.arange(0, {name})[:, None]")}
        even = isinstance(self.own_size, int) and self.own_size % self.blocks[name] == 0
        printer.axes = {"x": Axis("x", "" if even else code.let(f"x < {own}", "inside_x"))}
        apart = (*kernel.batch, *kernel.heads) if self.by_rows else kernel.batch
        printer.walk_flat(apart, code.let("program // down", "batch"), NONE)
        printer.put(self.own, "x", frozenset("x"))
        depth, column = self._along("[None, :]", kernel.depth, kernel.column)
        first = self.operand(self.own_operands[0], "own", depth, f"[{name}, DEPTH]", own=True, whole=False)
        second = self.operand(self.own_operands[1], "own", column, f"[{name}, COLUMNS]", own=True, whole=False)
        kept = self._kept() if self.by_rows else None
        along = (kernel.depth, f"[{other}, DEPTH]"), (kernel.column, f"[{other}, COLUMNS]")
        self.from_maps = [
            self.mapped(operand, self.other, *shape) if self.by_map else ""
            for operand, shape in zip(self.other_operands, along, strict=True)
        ]
        code.line(f"total = tl.full([{name}, DEPTH], 0.0, {self.sum})")
        if not self.by_rows:
            code.line(f"mixed = tl.full([{name}, COLUMNS], 0.0, {self.sum})")
        self.load_key(kernel.factor)
        with ExitStack() as stack:
            for head in () if self.by_rows else kernel.heads:
                stack.enter_context(
                    code.block(f"for {(index := code.fresh('head'))} in range(0, {printer.dim(head.extent)}):")
                )
                stack.enter_context(printer.scope())
                printer.put(head, index, NONE)
            if self.is_whole:
                self._all_rows(first, second)
            else:
                self.over(
                    self.other,
                    self.known,
                    self.bounds,
                    kernel.score,
                    other,
                    lambda score, some: self._others(first, second, kept, score, some),
                )
                self._write_hidden_scores()
        if self.is_constant_derivative and isinstance(kernel.score_derivative, Const):
            code.line(f"total = total * {float(kernel.score_derivative.value)!r}")
        self._write("total", "DEPTH", kernel.depth, kernel.row_writes if self.by_rows else kernel.key_writes)
        self._write("mixed", "COLUMNS", kernel.column, kernel.value_writes)
        sizes = self.sizes
        batch = product([v.extent for v in ((*sizes.batch, *sizes.heads) if self.by_rows else sizes.batch)])
        programs = batch * ceildiv(self.own_size, self.blocks[name])
        about = (
            "The gradients of a block of rows each."
            if self.by_rows
            else "The gradients of all queries, keys and values of a head."
            if kernel.of_rows
            else "The gradients of a block of keys and values each."
        )
        shape = (self.block.warps, self.block.stages)
        iterations, scratch = batch * self.own_size, self.maps * BYTES
        return closed(printer, kernel, about, self.blocks, programs, self.values, iterations, *shape, scratch)

    def _along(self, across: str, depth: LoopVar, column: LoopVar) -> tuple[dict[str, tuple[LoopVar, str]], ...]:
        """The feature axes of both kinds of operands."""
        return {"d": (depth, f"tl.arange(0, DEPTH){across}")}, {"y": (column, f"tl.arange(0, COLUMNS){across}")}

    def _kept(self) -> tuple[str, str]:
        """Loads per-row values: the norm, in units of scaled scores, and the dot product."""
        norm, dot = (self.printer.value(node) for node in (self.kernel.norm, self.kernel.dot))
        return norm if self.narrow else self.code.let(f"{norm} * {LN2}", "norm"), dot

    def _others(self, own: str, own_mixed: str, kept: tuple[str, str] | None, score: Scalar, hidden: bool) -> None:
        """Processes one block of the walked axis. hidden: parts of it may be masked."""
        kernel, printer, code = self.kernel, self.printer, self.code
        name, other = self.names
        here = f"start + tl.arange(0, {other})"
        depth, column = self._along("[None, :]", kernel.depth, kernel.column)
        down = {"k": (self.other, f"({here})[:, None]")}
        whole = not hidden
        first, second = (
            code.let(f"{map}.load([tl.cast(start, tl.int32), 0])", "other")
            if map
            else self.operand(operand, "other", down | axis, f"[{other}, {block}]", own=False, whole=whole)
            for operand, map, axis, block in zip(
                self.other_operands, self.from_maps, (depth, column), ("DEPTH", "COLUMNS"), strict=True
            )
        )
        printer.axes["k"] = self.axis("k", self.other, f"({here})[None, :]", whole=whole)
        norm, dot = kept or self._kept()  # loaded while the dot product is computed
        zeros = f"tl.full([{name}, {other}], 0.0, {self.sum})"
        dots = code.let(self.dot(own, f"tl.trans({first})", zeros), "dots")
        printer.accumulator = (f"{dots}.to({self.type})", frozenset("xk"))
        inner, factor = self.factored(score)
        value = self.score_of(inner, kernel.key, "k" if self.by_rows else "x", self.has_room)
        text = f"tl.broadcast_to({value}, [{name}, {other}]).to({self.sum})"
        # rows add up the terms of all keys, also of those outside
        masks = [printer.axes[axis].mask for axis in ("k", "x") if axis == "k" or self.is_whole]
        if any(masks):
            text = f'tl.where({" & ".join(filter(None, masks))}, {text}, float("-inf"))'
        code.line(f"p = {self.power}({text}{factor} - {norm})")
        narrow, factor, kept_p = self.narrow or self.type, "", "p"
        if has_dropout(kernel):
            printer.blocks[self.other] = ("start", f"tl.arange(0, {other})[None, :]")
            factor = f" * {printer.value(kernel.factor)}"
            kept_p = f"(p{factor})"
        if not self.by_rows:
            code.line(f"mixed = {self.dot(f'{kept_p}.to({narrow})', second, 'mixed')}")
        code.line(f"slope = p * ({self.dot(own_mixed, f'tl.trans({second})', zeros)}{factor} - {dot})")
        self._write_scores()
        if not self.is_constant_derivative:
            code.line(f"slope = slope * {printer.value(kernel.score_derivative)}")
        code.line(f"total = {self.dot(f'slope.to({narrow})', first, 'total')}")
        if self.is_whole and kernel.row_writes:
            self._write_rows(own, hidden)

    def _write_scores(self) -> None:
        """Stores the gradients of a block of scores, at the axes "x" and "k"."""
        printer, dots = self.printer, self.printer.accumulator
        if not self.kernel.score_writes:
            return
        with printer.scope():
            printer.accumulator = (f"slope.to({self.type})", frozenset("xk"))
            for write in self.kernel.score_writes:
                printer.store(write)
        printer.accumulator = dots

    def _write_hidden_scores(self) -> None:
        """Stores zeros for the blocks of keys that the program's rows do not see."""
        kernel, printer, code = self.kernel, self.printer, self.code
        if not kernel.score_writes or (self.known.from_first and self.known.to_last):
            return
        total = printer.dim(kernel.key.extent)
        (first, _), (stop, _) = self.visible(self.other, self.bounds, "ROWS")
        first = code.let(f"{first} // KEYS * KEYS", "first")
        after = code.let(f"{first} + tl.cdiv(tl.maximum({stop} - {first}, 0), KEYS) * KEYS", "after")
        for begin, end in (("0", first), (after, total)):
            with code.block(f"for start in range({begin}, {end}, KEYS):"), printer.scope():
                printer.axes["k"] = self.axis("k", self.other, "(start + tl.arange(0, KEYS))[None, :]")
                code.line(f"slope = tl.full([ROWS, KEYS], 0.0, {self.sum})")
                self._write_scores()

    def _all_rows(self, own: str, own_mixed: str) -> None:
        """Processes every row, also those that see no key: their gradients are zero."""
        extent, block = self.sizes.row.extent, self.blocks["ROWS"]
        code, printer = self.code, self.printer
        with code.block(f"for start in range(0, {printer.dim(self.other.extent)}, ROWS):"), printer.scope():
            hidden = not (isinstance(extent, int) and extent % block == 0)
            self._others(own, own_mixed, None, self.kernel.score, hidden)

    def _write_rows(self, own: str, hidden: bool) -> None:
        """Stores the gradients of a block of queries, which see no key of another program."""
        kernel, printer, code = self.kernel, self.printer, self.code
        zeros = f"tl.full([ROWS, DEPTH], 0.0, {self.sum})"
        rows = self.dot(f"tl.trans(slope.to({self.narrow or self.type}))", own, zeros)
        factor = kernel.score_derivative
        code.line(f"rows = {rows}{f' * {float(factor.value)!r}' if isinstance(factor, Const) else ''}")
        with printer.scope():
            indices = "(start + tl.arange(0, ROWS))[:, None]"
            down = self.axis("k", kernel.row, indices, whole=not hidden)
            printer.axes = {"k": down, "y": self.axis("y", kernel.depth, "tl.arange(0, DEPTH)[None, :]", "DEPTH")}
            printer.accumulator = (f"rows.to({self.type})", frozenset("ky"))
            for write in kernel.row_writes:
                printer.store(write)

    def _write(self, total: str, block: str, loop: LoopVar, writes: tuple[Write, ...]) -> None:
        printer = self.printer
        if not writes:
            return
        with printer.scope():
            printer.axes["y"] = self.axis("y", loop, f"tl.arange(0, {block})[None, :]", block)
            printer.accumulator = (f"{total}.to({self.type})", frozenset("xy"))
            for write in writes:
                printer.store(write)
