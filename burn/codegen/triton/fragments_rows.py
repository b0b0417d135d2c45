"""The rows that `fragments.py` multiplies: computed once by a program, and moved to the threads that multiply them.

The elements of a step are computed in order, so that loads are contiguous, and with the reductions of the rows before: a norm
costs no kernel of its own. Their layout is then converted, through shared memory, to that of the fragments.
"""

from __future__ import annotations

from burn.codegen.triton.code import NONE, Axis, Code
from burn.codegen.triton.heuristics.fragments import ROWS, Block
from burn.codegen.triton.scalars import ScalarPrinter
from burn.dialect.dims import LoopVar, coefficient, product
from burn.dialect.packed import FRAGMENT_BYTES
from burn.kernels.body import ContractionKernel, Convert, Index, Load, Scalar, Stage, Where, loop_atoms, own_dims, walk

VECTOR = 8
"""Adjacent elements that a thread loads at once."""


class Rows:
    """The lhs of a kernel. sizes: the kernel with the values of its sizes. span: elements of the depth that are computed at
    once."""

    def __init__(self, kernel: ContractionKernel, sizes: ContractionKernel, bits: int, block: Block, span: int) -> None:
        self.kernel, self.sizes, self.bits, self.block = kernel, sizes, bits, block
        self.chunk = FRAGMENT_BYTES * 8 // bits
        self.span = span
        depth = product([v.extent for v in sizes.depth])
        assert isinstance(depth, int)
        self.depth = depth
        self.is_single = product([v.extent for v in sizes.rows]) == 1
        self.lhs = narrow(kernel.lhs)
        self.reduced: list[dict[str, tuple[str, frozenset[str]]]] = [{} for _ in range(block.groups)]

    @property
    def dtype(self) -> str:
        return self.lhs.dtype

    def indices(self, code: Code) -> None:
        """The layouts of a step's elements, and their indices: `along` the depth, and `down` the rows of a group."""
        if self.is_single:
            code.line(f"ROW: tl.constexpr = tl.BlockedLayout([{VECTOR}], [32], [WARPS], [0])")
            code.line(f"along = tl.arange(0, {self.span}, ROW).to(INT)")
        else:
            code.line(f"ROW: tl.constexpr = tl.BlockedLayout([1, {VECTOR}], [1, 32], [1, WARPS], [1, 0])")
            code.line(f"along = tl.expand_dims(tl.arange(0, {self.span}, tl.SliceLayout(0, ROW)).to(INT), 0)")
            code.line(f"down = tl.expand_dims(tl.arange(0, {ROWS}, tl.SliceLayout(1, ROW)).to(INT), 1)")
        parts = [2, 2] if self.bits == 4 else [2]
        ones = [1] * len(parts)
        per_thread, threads, warps = [1, 1, 1, 4, *parts], [1, 8, 4, 1, *ones], ["WARPS", 1, 1, 1, *ones]
        order = [*reversed(range(len(per_thread)))]
        shape = f"{per_thread}, {threads}, [{', '.join(map(str, warps))}], {order}"
        code.line(f"PARTS: tl.constexpr = tl.BlockedLayout({shape})")

    # ---- reductions --------------------------------------------------------------------------------------------------------
    def reduce(self, printer: ScalarPrinter, first: str) -> None:
        """Prints the reductions of each group of rows from the row `first` on."""
        for group in range(self.block.groups):
            self.reduced[group] = {}
            for stage in self.kernel.stages:
                self._stage(printer, stage, first, group)

    def _stage(self, printer: ScalarPrinter, stage: Stage, first: str, group: int) -> None:
        code, shape = printer.code, self._shape()
        totals = [code.let(f"tl.full({shape}, 0.0, tl.float32, ROW)", "total") for _ in stage.reductions]
        if self.depth <= self.span:
            self._add(printer, stage, totals, first, group, "0")
        else:
            with code.block(f"for begin in range(0, {self.depth}, {self.span}):"), printer.scope():
                self._add(printer, stage, totals, first, group, "begin")
        for reduction, total in zip(stage.reductions, totals, strict=True):
            text = f"tl.sum({total}, 0)" if self.is_single else f"tl.expand_dims(tl.sum({total}, 1), 1)"
            axes = NONE if self.is_single else frozenset("x")
            self.reduced[group][reduction.name] = (code.let(text, "reduced"), axes)

    def _add(self, printer: ScalarPrinter, stage: Stage, totals: list[str], first: str, group: int, begin: str) -> None:
        """Adds a step of the depth, from the element `begin` on, to the totals of each thread's elements."""
        code, extent = printer.code, printer.dim(product([v.extent for v in stage.loops]))
        with printer.scope():
            k = self._at(printer, first, group, f"{begin} + along")
            mask = code.let(f"{k} < {extent}", "within") if self.depth % self.span else ""
            printer.axes["k"] = Axis(k, mask)
            printer.walk_flat(stage.loops, k, frozenset("k"))
            for reduction, total in zip(stage.reductions, totals, strict=True):
                assert reduction.kind == "sum", reduction.kind
                value = printer.value(reduction.body)
                code.line(f"{total} += tl.where({mask}, {value}, 0.0)" if mask else f"{total} += {value}")

    # ---- elements ----------------------------------------------------------------------------------------------------------
    def elements(self, printer: ScalarPrinter, first: str, start: str, group: int) -> list[str]:
        """A thread's elements of the step that begins with the chunk `start`: four adjacent ones in each tensor."""
        return self._parts(printer.code, self.value(printer, first, f"{start} * {self.chunk} + along", group))

    def value(self, printer: ScalarPrinter, first: str, along: str, group: int) -> str:
        """The elements of a group of rows, at the indices `along` the depth."""
        code = printer.code
        with printer.scope():
            k = self._at(printer, first, group, along)
            mask = code.let(f"{k} < {self.depth}", "within") if self.depth % self.span else ""
            printer.axes["k"] = Axis(k, mask)
            self._depth(printer, k)
            value = printer.value(self.lhs)
            wanted = {"k"} if self.is_single else {"k", "x"}
            if mask or not wanted <= printer.span_of(self.lhs):
                everywhere = f"{k} >= 0" if self.is_single else f"({k} >= 0) & (down >= 0)"
                zeros = f"tl.full({self._shape()}, 0.0, {value}.dtype, ROW)"
                value = code.let(f"tl.where({mask or everywhere}, {value}, {zeros})", "x")
        return value

    def _parts(self, code: Code, value: str) -> list[str]:
        """Moves elements to the threads that multiply them."""
        step, rows = self.block.step, [] if self.is_single else [ROWS]
        split, order = ([step, 2, 4, 2, 4], [0, 2, 4, 1, 3]) if self.bits == 4 else ([step, 4, 2, 4], [0, 1, 3, 2])
        if rows:
            split, order = [*rows, *split], [1, 0, *(n + 1 for n in order[1:])]
        layout = "tl.SliceLayout(1, PARTS)" if self.is_single else "PARTS"
        found = [code.let(f"tl.convert_layout(tl.permute(tl.reshape({value}, {split}), {order}), {layout})", "x")]
        for _ in range(2 if self.bits == 4 else 1):  # by the last axis: the half of four, then the half of the chunk
            names: list[str] = []
            for name in found:
                names += [f"{name}l", f"{name}h"]
                code.line(f"{name}l, {name}h = tl.split({name})")
            found = names
        if self.bits == 4:
            found = [found[0], found[2], found[1], found[3]]
        if self.is_single:
            moved = "tl.expand_dims(tl.convert_layout({}, tl.SliceLayout(1, LAYOUT)), 1)"
        else:
            moved = "tl.convert_layout({}, LAYOUT)"
        return [code.let(moved.format(name), "x") for name in found]

    # ---- indices -----------------------------------------------------------------------------------------------------------
    def _shape(self) -> str:
        return f"[{self.span}]" if self.is_single else f"[{ROWS}, {self.span}]"

    def _at(self, printer: ScalarPrinter, first: str, group: int, along: str) -> str:
        """Sets the indices of rows, and returns that along the depth. Rows that do not exist are the last one: their sums are not
        stored."""
        code = printer.code
        printer.axes = {}
        printer.reduced = dict(self.reduced[group])
        for single in self.kernel.batch:
            printer.put(single, "0", NONE)
        if self.is_single:
            for single in self.kernel.rows:
                printer.put(single, "0", NONE)
        else:
            rows = printer.dim(product([v.extent for v in self.kernel.rows]))
            row = code.let(f"tl.minimum({first} + {ROWS * group} + down, {rows} - 1)", "row")
            printer.axes["x"] = Axis(row, "")
            printer.walk_flat(self.kernel.rows, row, frozenset("x"))
        return code.let(along, "k")

    def _depth(self, printer: ScalarPrinter, k: str) -> None:
        """One index for all loops of the depth, if all loads are contiguous along them: Triton then loads whole words."""
        loops = [v for v in self.kernel.depth if v.extent != 1]
        known = [v for v in self.sizes.depth if v.extent != 1]
        for single in (v for v in self.kernel.depth if v.extent == 1):
            printer.put(single, "0", NONE)
        if all(_is_flat(n, known) for n in walk(narrow(self.sizes.lhs))):
            for loop in loops[:-1]:
                printer.put(loop, "0", NONE)
            printer.put(loops[-1], k, frozenset("k"))
        else:
            printer.walk_flat(loops, k, frozenset("k"))


def narrow(node: Scalar) -> Scalar:
    """The value before its conversion to float32."""
    while isinstance(node, Convert) and node.dtype == "float32":
        node = node.arg
    return node


def _is_flat(node: Scalar, loops: list[LoopVar]) -> bool:
    """True if a node depends on loops only by their flat index, the last one fastest."""
    if not any(atom in loops for dim in own_dims(node) for atom in loop_atoms(dim)):
        return True
    return isinstance(node, Load) and not isinstance(node, Index | Where) and _is_contiguous(node, loops)


def _is_contiguous(load: Load, loops: list[LoopVar]) -> bool:
    """True if an index is linear in the flat index of loops, the last one fastest."""
    step = coefficient(load.offset, loops[-1]) if loops else None
    for loop, inner in zip(reversed(loops[:-1]), reversed(loops), strict=False):
        step = None if step is None else step * inner.extent
        if step is None or coefficient(load.offset, loop) != step:
            return False
    return step is not None
