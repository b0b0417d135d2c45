"""Prints loop kernels: a block of the parallel loops' iterations, and a block of each stage's loops.

The parallel loops are linearised as x, a stage's loops as r. A short row is held as a whole: its stages then share
their loads. A transposed block has a parallel loop along each axis, x and y (see `blocks.py`). `emit` is the entry
point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from burn.codegen.triton.blocks import layout
from burn.codegen.triton.code import NONE, Axes, Axis
from burn.codegen.triton.functions import triton_type
from burn.codegen.triton.heuristics.loops import (
    ELEMENTS,
    SEQUENTIAL_ROWS,
    LoopBlock,
    ahead,
    flat,
    held,
    is_short_row,
    ragged,
    rows_and_columns,
    transposed_block,
)
from burn.codegen.triton.heuristics.sizes import UNKNOWN, SizeHints, expected_length, likely
from burn.codegen.triton.printed import Printed, closed, opened
from burn.codegen.triton.scalars import constant
from burn.dialect.dims import Dim, Expr, atoms, ceildiv, product
from burn.dialect.types import DTYPES
from burn.kernels.body import (
    Const,
    Fetched,
    Load,
    LoopKernel,
    Reduction,
    Scalar,
    Stage,
    Where,
    identity,
    loop_atoms,
    own_dims,
    walk,
)

COMBINE = {"sum": "add", "prod": "mul", "max": "greatest", "min": "least", "any": "either", "all": "both"}
"""Functions of library.py that combine two partial results."""

ARG = {
    ("argmax", False): "first_greatest", ("argmax", True): "last_greatest",
    ("argmin", False): "first_least", ("argmin", True): "last_least",
}  # fmt: skip


def emit(
    kernel: LoopKernel,
    values: Mapping[str, Dim],
    sizes: LoopKernel,
    sites: list[str],
    processors: int,
    hints: SizeHints = UNKNOWN,
    alike: bool = False,
) -> Printed:
    """values: the values of the kernel's sizes; sizes: the kernel with these values, for choosing blocks; processors: of
    the GPU; hints: size hints; alike: the text is the same for as many sizes as possible."""
    return Loops(kernel, values, sizes, sites, processors, hints, alike).print()


def _widest(kernel: LoopKernel) -> int:
    """Bytes of the widest element that an iteration reads or writes at an index of its own."""
    moved = {w.buffer for s in kernel.stages for w in s.writes}
    moved |= {n.buffer for s in kernel.stages for n in loads(s.scalars) if loop_atoms(n.offset)}
    return max(((DTYPES[kernel.buffers[number].dtype].bits + 7) // 8 for number in moved), default=1)


def _length(stage: Stage) -> Dim:
    return product([v.extent for v in stage.loops])


def loads(roots: Iterable[Scalar]) -> Iterator[Load]:
    return (n for n in walk(*roots) if isinstance(n, Load))


def _reads_indices(kernel: LoopKernel) -> bool:
    """True if an address depends on data."""
    stages = kernel.stages
    dims = [d for s in stages for n in walk(*s.scalars) for d in own_dims(n)]
    dims += [w.offset for s in stages for w in s.writes]
    return any(isinstance(a, Fetched) for d in dims for a in loop_atoms(d))


def _end(stage: Stage) -> Dim | None:
    """The end of a stage's rows, if it is read from data: later elements do not change any of its reductions."""
    if stage.writes or len(stage.loops) != 1:
        return None
    found: set[Dim] = set()
    for r in stage.reductions:
        nothing = None if r.kind.startswith("arg") else identity(r.kind, r.dtype)
        match r.body:
            case Where(ranges=((index, end),), otherwise=Const(value=value)) if (
                value == nothing
                and index == Expr.of(stage.loops[0])
                and any(isinstance(a, Fetched) for a in atoms(end))
            ):
                found.add(end)
            case _:
                return None
    return found.pop() if len(found) == 1 and not loop_atoms(next(iter(found))) & set(stage.loops) else None


def has_short_rows(kernel: LoopKernel) -> bool:
    """True if rows are processed step by step (`_step_by_step`)."""
    along = [s for s in kernel.stages if s.loops]
    if len(along) != 1 or along[0].order != "parallel" or any(r.kind.startswith("arg") for r in along[0].reductions):
        return False
    return is_short_row(_length(along[0])) and layout(kernel).transposed


class Loops:
    def __init__(
        self,
        kernel: LoopKernel,
        values: Mapping[str, Dim],
        sizes: LoopKernel,
        sites: list[str],
        processors: int,
        hints: SizeHints = UNKNOWN,
        alike: bool = False,
    ) -> None:
        self.kernel, self.values, self.sizes, self.alike = kernel, values, sizes, alike
        self.constants: dict[str, int] = {}  # besides those of the block
        self.count = product([v.extent for v in sizes.parallel])
        self.layout = layout(sizes)
        along = [s for s in sizes.stages if s.loops and s.order == "parallel"]
        self.wide = bool(along) or self.layout.across is not None
        self.short = self.is_short_row = False
        if has_short_rows(sizes):
            self.is_short_row, self.wide = True, False
            self.layout = replace(self.layout, transposed=False)
        if along and not self.is_short_row:
            lengths = [_length(s) for s in along]
            numbers = [n for n in lengths if isinstance(n, int)]
            longest = (
                max(numbers) if len(numbers) == len(lengths) else next(n for n in lengths if not isinstance(n, int))
            )
            transposed, mixed, shared = self.layout.transposed, self.layout.mixed, len(along) > 1
            if all(_end(s) is not None for s in along):
                self.block = ragged(self.count, transposed, processors, longest, self._mean(along, hints))
            else:
                self.short = len({s.loops for s in along}) == 1 and held(longest, transposed, shared, mixed)
                expected = None if isinstance(longest, int) else expected_length(longest, hints)
                self.block = rows_and_columns(self.count, longest, transposed, shared, processors, expected, mixed)
        elif self.layout.across is not None:
            order = [sizes.parallel[i].extent for i in (*self.layout.order, self.layout.across)]
            self.block = transposed_block(order[-1], order[-2], product(order[:-2]), processors)
        else:
            self.block = LoopBlock(ELEMENTS) if alike else flat(self.count, _widest(sizes), processors)
        if any(s.order != "parallel" for s in kernel.stages):
            self.block = replace(self.block, rows=min(self.block.rows, SEQUENTIAL_ROWS))
        last = self.layout.transposed or self.layout.across is not None
        self.down, self.right = "[:, None]", "[None, :]"  # those of x and of `across`
        self.axis, self.shape, self.narrow = 1, "[ROWS, COLUMNS]", "[ROWS, 1]"
        if last:
            self.down, self.right = self.right, self.down
            self.axis, self.shape, self.narrow = 0, "[COLUMNS, ROWS]", "[1, ROWS]"
        if not self.wide:
            self.down, self.narrow = "", "[ROWS]"
        self.printer = opened(kernel.buffers, sites)
        self.code = self.printer.code

    def _mean(self, along: Iterable[Stage], hints: SizeHints) -> float | None:
        """The least likely mean of lengths that are read from data, if rows share the elements of a stage's loops."""
        means = []
        for stage in along:
            end = _end(stage)
            assert end is not None
            rows = product([v.extent for v in self.sizes.parallel if v in loop_atoms(end)])
            length, rows = expected_length(_length(stage), hints), likely(rows, hints)
            if not isinstance(length, int) or not isinstance(rows, int):
                return None
            means.append(length / max(1, rows))
        return min(means)

    def print(self) -> Printed:
        kernel, printer, code = self.kernel, self.printer, self.code
        programs = self._transposed_indices() if self.layout.across is not None else self._flat_indices()
        for number, buffer in enumerate(kernel.buffers):
            if buffer.access == "scratch":
                printer.private[number] = code.let(f"workspace{number} + x * {printer.dim(buffer.elements)}", "own")
        if self.short:
            self.row()
        self._prefetch()
        self.stages()
        return self.finished(programs)

    def finished(self, programs: Dim) -> Printed:
        block = self.block
        constants = {"ROWS": block.rows} | ({"COLUMNS": block.columns} if self.wide else {}) | self.constants
        made = closed(
            self.printer, self.kernel, self._about(), constants, programs, self.values, self.count, block.warps
        )
        return replace(made, is_certain=not _reads_indices(self.kernel))

    def row(self) -> None:
        """Binds the indices of a row that is kept in registers."""
        self._columns(next(s for s in self.kernel.stages if s.loops and s.order == "parallel"), "COLUMNS")

    def _prefetch(self) -> None:
        """Loads what later stages read before the reductions, because no load is moved over their barriers. These are values for
        each row, and those of columns that a program holds as a whole (the partial results of blocks)."""
        stages = self.kernel.stages
        written = {w.buffer for s in stages for w in s.writes}
        for stage in stages[1:]:
            held = not stage.loops or (self.short and self.layout.transposed)
            if held and not {n.buffer for n in loads(stage.scalars)} & written:
                self.printer.prefetch(stage.scalars)

    def stages(self) -> None:
        written: set[int] = set()
        for stage in self.kernel.stages:
            read = {n.buffer for n in loads(stage.scalars)}
            if read & written:
                self.code.line("tl.debug_barrier()")
                self.printer.forget()
            self._stage(stage)
            written |= {w.buffer for w in stage.writes}

    def _flat_indices(self) -> Dim:
        """The linear indices of the parallel loops; returns the number of programs."""
        kernel, printer, code = self.kernel, self.printer, self.code
        first = "tl.program_id(0).to(INT)"
        code.line(f"x = {first} * ROWS + tl.arange(0, ROWS){self.down}")
        count = printer.dim(product([v.extent for v in kernel.parallel]))
        printer.axes["x"] = Axis("x", self._inside("inside", "x", count, self.count, self.block.rows))
        printer.walk_flat([kernel.parallel[i] for i in self.layout.order], "x", frozenset("x"))
        if len(kernel.parallel) == 1:
            printer.blocks = {kernel.parallel[0]: (f"({first} * ROWS)", f"tl.arange(0, ROWS){self.down}")}
        return ceildiv(self.count, self.block.rows)

    def _transposed_indices(self) -> Dim:
        """The indices of two parallel loops, each along an axis of its own; the others have one index per program."""
        kernel, printer, code = self.kernel, self.printer, self.code
        order, across = self.layout.order, self.layout.across
        assert across is not None
        rest: str = code.let("tl.program_id(0).to(INT)", "program")
        programs: Dim = 1
        for axis, number, name, size, where in (
            ("x", order[-1], "ROWS", self.block.rows, self.down),
            ("y", across, "COLUMNS", self.block.columns, self.right),
        ):
            loop, extent = kernel.parallel[number], self.sizes.parallel[number].extent
            blocks = code.let(f"tl.cdiv({printer.dim(loop.extent)}, {name})", "blocks")
            code.line(f"{axis} = ({rest} % {blocks}) * {name} + tl.arange(0, {name}){where}")
            inside = self._inside(f"inside_{axis}", axis, printer.dim(loop.extent), extent, size)
            printer.axes[axis] = Axis(axis, inside)
            printer.put(loop, axis, frozenset(axis))
            rest = code.let(f"{rest} // {blocks}", "program")
            programs = programs * ceildiv(extent, size)
        others = order[:-1]
        printer.walk_flat([kernel.parallel[i] for i in others], rest, NONE)
        return programs * product([self.sizes.parallel[i].extent for i in others])

    def _inside(self, name: str, indices: str, count: str, size: Dim, block: int) -> str:
        """The name of the mask of valid indices; empty if all blocks are whole."""
        if isinstance(size, int) and size % block == 0 and not self.alike:
            return ""
        self.code.line(f"{name} = {indices} < {count}")
        return name

    def _about(self) -> str:
        kinds = [r.kind for s in self.kernel.stages for r in s.reductions]
        about = f"A block of elements each; {', '.join(kinds)} along rows" if kinds else "A block of elements each"
        down = ", ".join(f.reduction.kind for f in self.kernel.column_reductions)
        return f"{about}; {down} down columns." if down else f"{about}."

    def _stage(self, stage: Stage) -> None:
        printer = self.printer
        if stage.order != "parallel":
            with printer.scope():
                self._sequential(stage)
        elif not stage.loops:
            self._rows(stage)
        elif self.is_short_row:
            self._step_by_step(stage)
        elif self.short:
            self._block(stage)
        else:
            with printer.scope():
                self._along(stage)

    # ---- stages ------------------------------------------------------------------------------------------------------------
    def _rows(self, stage: Stage) -> None:
        """A stage without loops: a reduction of one element is that element."""
        printer = self.printer
        removed = printer.axes.pop("r", None)
        for r in stage.reductions:
            text = "0" if r.kind.startswith("arg") else printer.value(r.body)
            if r.kind.startswith("arg"):
                text = f"tl.full((), {printer.dim(r.index)}, tl.int64)"
            printer.reduced[r.name] = (text, frozenset("x"))
        printer.store_all(stage.writes)
        if removed is not None:
            printer.axes["r"] = removed

    def _columns(self, stage: Stage, start: str) -> None:
        """Binds the indices of a stage's loops: a whole row, or the part from `start` on."""
        printer, code = self.printer, self.code
        length = printer.dim(_length(stage))
        first = "" if start == "COLUMNS" else f"{start} + "
        columns = code.let(f"({first}tl.arange(0, COLUMNS){self.right}).to(INT)", "r")
        size = next(_length(s) for s, mine in zip(self.sizes.stages, self.kernel.stages, strict=True) if mine is stage)
        within = self._inside(code.fresh("within"), columns, length, size, self.block.columns)
        printer.axes["r"] = Axis(columns, within)
        printer.walk_flat(stage.loops, columns, frozenset("r"))

    def _block(self, stage: Stage) -> None:
        """Processes a whole row at once."""
        printer = self.printer
        for r in stage.reductions:
            value = self._value(r)
            self._finish(r, value, self._element_index(r))
        printer.store_all(stage.writes)

    def _along(self, stage: Stage) -> None:
        """Processes a row in blocks of columns."""
        printer, code = self.printer, self.code
        printer.axes.pop("r", None)
        for loop in stage.loops:
            printer.put(loop, "", frozenset("r"))
        printer.hoist(stage.scalars, "r")
        totals = [(code.let(self.start(r), "total"), self._initial_index(r)) for r in stage.reductions]
        length = self._longest(stage)
        with code.block(f"for start in {self._steps(stage, length)}:"), printer.scope():
            self._columns(stage, "start")
            for r, (total, index) in zip(stage.reductions, totals, strict=True):
                value = self._value(r)
                if r.kind.startswith("arg"):
                    code.line(
                        f"{total}, {index} = {ARG[r.kind, r.last]}({total}, {index}, {value}, {self._element_index(r)})"
                    )
                else:
                    code.line(f"{total} = {COMBINE[r.kind]}({total}, {value})")
            printer.store_all(stage.writes)
        for r, (total, index) in zip(stage.reductions, totals, strict=True):
            self._finish(r, total, index)

    def _steps(self, stage: Stage, length: str) -> str:
        """The loop over the blocks of a row. Blocks are loaded ahead if their addresses do not depend on data."""
        kernel = self.kernel
        nodes = list(walk(*stage.scalars))
        loads = {
            (n.buffer, n.offset)
            for n in nodes
            if isinstance(n, Load) and not loop_atoms(n.offset).isdisjoint(stage.loops)
        }
        fetched = any(isinstance(a, Fetched) for n in nodes for d in own_dims(n) for a in loop_atoms(d))
        bytes_ = self.block.rows * self.block.columns * sum(DTYPES[kernel.buffers[b].dtype].size for b, _ in loads)
        stages = ahead(bytes_) if loads and not stage.writes and not fetched else 1
        return f"tl.range(0, {length}, COLUMNS, num_stages={stages})" if stages > 1 else f"range(0, {length}, COLUMNS)"

    def _longest(self, stage: Stage) -> str:
        """The end of the longest row of the block."""
        end = _end(stage)
        if end is None or (axes := self.printer.span(end)) == NONE:
            return self.printer.dim(_length(stage))
        text = self.code.let(self.printer.dim(end), "end")
        assert axes == frozenset("x")
        return self.code.let(f"tl.max(tl.reshape({text}, [ROWS]), 0)", "longest")

    def _step_by_step(self, stage: Stage) -> None:
        """Processes rows of few elements: each element is loaded for all rows of the block, which are contiguous."""
        printer, code = self.printer, self.code
        totals = [
            code.let(f"tl.full({self.narrow}, {self.identity(r)}, {self.type(r)})", "total") for r in stage.reductions
        ]
        with code.block(f"for step in tl.static_range({_length(stage)}):"), printer.scope():
            printer.walk_flat(stage.loops, "step", NONE)
            for total, r in zip(totals, stage.reductions, strict=True):
                code.line(f"{total} = {COMBINE[r.kind]}({total}, {printer.value(r.body)}.to({self.type(r)}))")
            printer.store_all(stage.writes)
        for total, r in zip(totals, stage.reductions, strict=True):
            printer.reduced[r.name] = (total, frozenset("x"))

    def _sequential(self, stage: Stage) -> None:
        """Runs iterations one after another: each may read values written by previous ones."""
        printer, code = self.printer, self.code
        printer.axes.pop("r", None)
        totals = [
            (code.let(f"tl.full({self.narrow}, {self.identity(r)}, {self.type(r)})", "total"), r)
            for r in stage.reductions
        ]
        with code.block(f"for step in range(0, {printer.dim(_length(stage))}):"), printer.scope():
            printer.walk_flat(stage.loops, "step", NONE)
            for total, r in totals:
                code.line(f"{total} = {COMBINE[r.kind]}({total}, {printer.value(r.body)})")
            for write in stage.writes:
                printer.store(write)
            code.line("tl.debug_barrier()")
        for total, r in totals:
            printer.reduced[r.name] = (total, frozenset("x"))

    # ---- reductions --------------------------------------------------------------------------------------------------------
    def type(self, r: Reduction) -> str:
        return triton_type(r.body.dtype if r.kind.startswith("arg") else r.dtype)

    def identity(self, r: Reduction) -> str:
        if r.kind.startswith("arg"):
            return "0"
        text = constant(r.dtype, identity(r.kind, r.dtype))  # "tl.full((), number, type)"
        return text[len("tl.full((), ") : text.rindex(",")]

    def start(self, r: Reduction) -> str:
        return f"tl.full({self.shape}, {self.identity(r)}, {self.type(r)})"

    def _initial_index(self, r: Reduction) -> str:
        return self.code.let(f"tl.full({self.shape}, -1, tl.int64)", "index") if r.kind.startswith("arg") else ""

    def full(self, text: str) -> str:
        return f"tl.broadcast_to({text}, {self.shape})"

    def _value(self, r: Reduction) -> str:
        """A block's contribution to a reduction, with its identity outside of the row."""
        value, within = self.printer.value(r.body), self.printer.axes["r"].mask
        text = self.full(value)
        if r.kind.startswith("arg"):
            return self.code.let(text)
        if not within or self._adds_nothing(r):
            return self.code.let(f"{text}.to({self.type(r)})" if not within else text)
        return self.code.let(f"tl.where({within}, {text}, {self.identity(r)}).to({self.type(r)})")

    def _adds_nothing(self, r: Reduction) -> bool:
        """True if elements outside are already 0, as for masked loads."""
        return (
            r.kind in ("sum", "any")
            and isinstance(r.body, Load)
            and r.body.dtype != "bool"
            and "r" in self.printer.span(r.body.offset)
        )

    def _element_index(self, r: Reduction) -> str:
        if not r.kind.startswith("arg"):
            return ""
        index, within = self.printer.dim(r.index), self.printer.axes["r"].mask
        if self.printer.span(r.index) == NONE:  # `tl.broadcast_to` takes no number
            text = f"tl.full({self.shape}, {index}, tl.int64)"
        else:
            text = self.full(index)
        return self.code.let(f"{f'tl.where({within}, {text}, -1)' if within else text}.to(tl.int64)", "index")

    def _finish(self, r: Reduction, value: str, index: str) -> None:
        code = self.code
        axes: Axes = frozenset("x")
        if r.kind.startswith("arg"):
            name = code.fresh("best")
            code.line(f"_, {name} = tl.reduce(({value}, {index}), {self.axis}, {ARG[r.kind, r.last]})")
            self.printer.reduced[r.name] = (code.let(f"{name}{self.down}", "best"), axes)
            return
        text = self.reduce(r, value, self.axis)
        self.printer.reduced[r.name] = (code.let(f"{text}{self.down}", r.kind), axes)

    def reduce(self, r: Reduction, value: str, axis: int) -> str:
        if r.kind == "sum" and DTYPES[r.dtype].kind == "float":
            return f"tl.sum({value}, {axis})"
        return f"tl.reduce({value}, {axis}, {COMBINE[r.kind]})"
